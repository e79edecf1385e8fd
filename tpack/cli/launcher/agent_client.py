"""The launcher's side of an agent: how it is started, here or by ``ssh``, and how the two talk.

What can be said of an agent, wherever it runs and however it is reached, is a `Link`; `Machines` are where links lead.
"""

import json
import os
import select
import shlex
import subprocess
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

from tpack.cli.launcher.plan import Host
from tpack.utils.python_child import python_command

SSH = "ssh -o BatchMode=yes -o ServerAliveInterval=10 -o ServerAliveCountMax=3"
"""What starts an agent on another machine; it notices within half a minute that the machine has gone."""

_ROOT = Path(__file__).resolve().parents[3]
_SHOWN_LINES = 20
_DRAIN_SECS = 1.0


class Link(ABC):
    """An agent that runs, seen from the launcher.

    Args:
        host: where it is.

    Attributes:
        host: where it is.
        num_reserved: how many ports it was told to reserve.
        ports: what it has reserved; None as long as that is not known.
        running: the ranks that run there.
        is_done: whether it has said that all is over.
        is_gone: whether it says nothing any more.
        last_lines: what it, or what leads there, wrote last to its standard error.
    """

    def __init__(self, host: Host) -> None:
        self.host = host
        self.num_reserved = 0
        self.ports: list[int] | None = None
        self.running: set[int] = set()
        self.is_done = False
        self.is_gone = False
        self.last_lines: deque[str] = deque(maxlen=_SHOWN_LINES)
        self._unread = b""

    @property
    @abstractmethod
    def reports(self) -> int:
        """The descriptor that its reports come from; reading it does not block."""

    @property
    @abstractmethod
    def errors(self) -> int:
        """The descriptor that what it complains about comes from; reading it does not block."""

    @abstractmethod
    def order(self, do: str, **arguments: Any) -> None:
        """Send an order, or keep what cannot be sent at once for `flush`; one that has gone is told nothing."""

    @abstractmethod
    def flush(self) -> bool:
        """Send what is left to be sent; return whether that was all."""

    @abstractmethod
    def give_up(self) -> None:
        """Take an agent that does not answer for gone, with what leads there."""

    @abstractmethod
    def close(self, timeout_secs: float) -> int | None:
        """Let it go: an agent that nobody gives orders any more ends everything. Return its exit code, if it is known.

        Args:
            timeout_secs: how long to wait for its end.
        """

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


class AgentLink(Link):
    """An agent that is a child of this process, or of an ``ssh`` that is one.

    Args:
        host: where it is.
        ssh: the command that starts it on another machine, without the machine.
    """

    def __init__(self, host: Host, ssh: str = SSH) -> None:
        super().__init__(host)
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
        """Send an order, or keep what cannot be sent at once."""
        self._unsent += as_line(do, arguments)
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

    def give_up(self) -> None:
        """Take an agent that does not answer for gone, with ``ssh``."""
        self._process.kill()
        self.is_gone = True

    def close(self, timeout_secs: float) -> int:
        """Let it go, and kill it if it does not end; return its exit code."""
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


class Machines(ABC):
    """Where the processes of a job run, and how their agents are reached."""

    @abstractmethod
    def take(self, workers: Sequence[Host]) -> AbstractContextManager[Sequence[Host]]:
        """Return a context in which there is a place for each worker; its value are the machines that they are on.

        Args:
            workers: as many as there are to be.
        """

    @abstractmethod
    def connect(self, host: Host) -> Link:
        """Start an agent.

        Args:
            host: one of those taken.

        Raises:
            OSError: It cannot be started.
        """


class ReachedMachines(Machines):
    """This machine, and those that ``ssh`` reaches.

    Args:
        ssh: the command that reaches them.
    """

    def __init__(self, ssh: str = SSH) -> None:
        self._ssh = ssh

    def take(self, workers: Sequence[Host]) -> AbstractContextManager[Sequence[Host]]:
        """Return the machines as they are named."""
        return nullcontext(workers)

    def connect(self, host: Host) -> AgentLink:
        """Start an agent, here or by ``ssh``."""
        return AgentLink(host, self._ssh)


def as_line(do: str, arguments: Mapping[str, Any]) -> bytes:
    """Return an order as an agent reads it."""
    return json.dumps({"do": do, **arguments}).encode() + b"\n"


def agent_command() -> list[str]:
    """Return what starts an agent on the machine that this is called on."""
    return python_command("tpack.cli.launcher.agent", "main", path=[str(_ROOT)])


def _command(host: Host, ssh: str) -> list[str]:
    python = agent_command()
    if host.login is None:
        return python
    return [*shlex.split(ssh), host.login, f"exec {shlex.join(python)}"]


def _descriptor(pipe: Any) -> int:
    return int(pipe.fileno())
