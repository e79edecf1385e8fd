"""The launcher's side of an agent: how it is started, here or by ``ssh``, and how the two talk."""

import json
import os
import select
import shlex
import subprocess
import sys
from collections import deque
from pathlib import Path
from typing import Any

from tpack.cli.launcher.plan import Host

SSH = "ssh -o BatchMode=yes -o ServerAliveInterval=10 -o ServerAliveCountMax=3"
"""What starts an agent on another machine; it notices within half a minute that the machine has gone."""

_ROOT = Path(__file__).resolve().parents[3]
_BOOT = (
    "import sys; sys.path[:] = [{root!r}, *filter(None, sys.path)]; from tpack.cli.launcher.agent import main; main()"
)
_SHOWN_LINES = 20
_DRAIN_SECS = 1.0


class AgentLink:
    """An agent that runs, seen from the launcher.

    Args:
        host: where it is.
        ssh: the command that starts it on another machine, without the machine.

    Attributes:
        host: where it is.
        num_reserved: how many ports it was told to reserve.
        ports: what it has reserved; None as long as that is not known.
        running: the ranks that run there.
        is_done: whether it has said that all is over.
        is_gone: whether it says nothing any more.
        last_lines: what it, or ``ssh``, wrote last to its standard error.
    """

    def __init__(self, host: Host, ssh: str = SSH) -> None:
        self.host = host
        self.num_reserved = 0
        self.ports: list[int] | None = None
        self.running: set[int] = set()
        self.is_done = False
        self.is_gone = False
        self.last_lines: deque[str] = deque(maxlen=_SHOWN_LINES)
        self._unread = b""
        # Its own session: a Ctrl-C on the terminal is for the launcher, which tells the agents what to do.
        self._process = subprocess.Popen(
            _command(host, ssh),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            os.set_blocking(_descriptor(pipe), False)
        self._unsent = bytearray()

    @property
    def reports(self) -> int:
        """The descriptor that its reports come from."""
        return _descriptor(self._process.stdout)

    @property
    def errors(self) -> int:
        """The descriptor that what it complains about comes from."""
        return _descriptor(self._process.stderr)

    def order(self, do: str, **arguments: Any) -> None:
        """Send an order, or keep what cannot be sent at once for `flush`; one that has gone is told nothing."""
        self._unsent += json.dumps({"do": do, **arguments}).encode() + b"\n"
        self.flush()

    def flush(self) -> bool:
        """Send what is left to be sent; return whether that was all."""
        try:
            while self._unsent and not self.is_gone:
                del self._unsent[: os.write(_descriptor(self._process.stdin), self._unsent)]
        except BlockingIOError:
            return False
        except BrokenPipeError:
            # That it has gone is seen where its reports end.
            self._unsent.clear()
        return True

    def receive(self) -> list[dict[str, Any]]:
        """Return the reports that have come; none and `is_gone` when there will be no more."""
        try:
            data = os.read(self.reports, 1 << 18)
        except BlockingIOError:
            return []
        self.is_gone = not data
        *lines, self._unread = (self._unread + data).split(b"\n")
        return [report for line in lines if (report := self._read_report(line)) is not None]

    def _read_report(self, line: bytes) -> dict[str, Any] | None:
        """Return what a line reports; others, such as a greeting of a machine's shell, are kept as `last_lines`."""
        try:
            report = json.loads(line)
        except ValueError:
            report = None
        if isinstance(report, dict):
            return report
        self.last_lines.append(line.decode("utf-8", "replace"))
        return None

    def read_errors(self) -> bool:
        """Keep what it complains about; return whether more may come."""
        try:
            data = os.read(self.errors, 1 << 16)
        except BlockingIOError:
            return True
        self.last_lines.extend(data.decode("utf-8", "replace").splitlines())
        return bool(data)

    def drain_errors(self) -> None:
        """Keep what an agent that has gone wrote before."""
        poll = select.poll()
        poll.register(self.errors, select.POLLIN)
        while poll.poll(_DRAIN_SECS * 1000) and self.read_errors():
            pass

    def give_up(self) -> None:
        """Take an agent that does not answer for gone, with ``ssh``."""
        self._process.kill()
        self.is_gone = True

    def close(self, timeout_secs: float) -> int:
        """Let it go: an agent whose input ends ends everything. Return its exit code.

        Args:
            timeout_secs: how long to wait before it is killed.
        """
        if self._process.stdin is not None:
            self._process.stdin.close()
        try:
            code = self._process.wait(timeout_secs)
        except subprocess.TimeoutExpired:
            self._process.kill()
            code = self._process.wait()
        self.read_errors()
        for pipe in (self._process.stdout, self._process.stderr):
            if pipe is not None:
                pipe.close()
        return code


def _command(host: Host, ssh: str) -> list[str]:
    python = [sys.executable, "-c", _BOOT.format(root=str(_ROOT))]
    if host.login is None:
        return python
    return [*shlex.split(ssh), host.login, f"exec {shlex.join(python)}"]


def _descriptor(pipe: Any) -> int:
    return int(pipe.fileno())
