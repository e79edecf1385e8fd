"""Client of an agent: starts it, here or by ``ssh``, and exchanges orders and reports."""

import json
import os
import select
import shlex
import subprocess
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from pathlib import Path
from typing import Any

from tpack.cli.launcher.plan import Host
from tpack.utils.python_child import python_command

SSH = "ssh -o BatchMode=yes -o ServerAliveInterval=10 -o ServerAliveCountMax=3"
"""The command for other machines; it detects within half a minute that the machine is gone."""

_ROOT = Path(__file__).resolve().parents[3]
_SHOWN_LINES = 20
_DRAIN_SECS = 1.0


class Link(ABC):
    """Connection of the launcher to a running agent.

    Attributes:
        host: its machine.
        num_reserved: the number of ports that it was ordered to reserve.
        ports: its reserved ports; None before they are known.
        running: the ranks that run there.
        is_done: whether it has reported the end of everything.
        is_gone: whether its reports have ended.
        last_lines: the last lines of its, or the connection's, standard error.
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
        """The descriptor of its reports; reading does not block."""

    @property
    @abstractmethod
    def errors(self) -> int:
        """The descriptor of its standard error; reading does not block."""

    @abstractmethod
    def order(self, do: str, **arguments: Any) -> None:
        """Send an order, or keep the rest for `flush`; ignored by an agent that is gone."""

    @abstractmethod
    def flush(self) -> bool:
        """Send the rest of the orders; return whether that was all."""

    @abstractmethod
    def give_up(self) -> None:
        """Kill the connection to an agent that does not answer."""

    @abstractmethod
    def close(self, timeout_secs: float) -> int | None:
        """Close the connection, at which an agent ends everything. Return its exit code, if it is known."""

    def receive(self) -> list[dict[str, Any]]:
        """Return the reports that have arrived; none and `is_gone` at their end.

        Other lines, such as a greeting of a machine's shell, go to `last_lines`.
        """
        try:
            data = os.read(self.reports, 1 << 18)
        except BlockingIOError:
            return []
        self.is_gone = not data
        *lines, self._unread = (self._unread + data).split(b"\n")
        reports = []
        for line in lines:
            report = None
            with suppress(ValueError):
                report = json.loads(line)
            if isinstance(report, dict):
                reports.append(report)
            else:
                self.last_lines.append(line.decode("utf-8", "replace"))
        return reports

    def read_errors(self) -> bool:
        """Keep lines of its standard error; return whether more may come."""
        try:
            data = os.read(self.errors, 1 << 16)
        except BlockingIOError:
            return True
        self.last_lines.extend(data.decode("utf-8", "replace").splitlines())
        return bool(data)

    def drain_errors(self) -> None:
        """Keep the last lines of an agent that is gone."""
        poll = select.poll()
        poll.register(self.errors, select.POLLIN)
        while poll.poll(_DRAIN_SECS * 1000) and self.read_errors():
            pass


class AgentLink(Link):
    """Agent that is a child of this process, or of an ``ssh`` that is one."""

    def __init__(self, host: Host, ssh: str = SSH) -> None:
        super().__init__(host)
        remote = () if host.login is None else (*shlex.split(ssh), host.login)
        self._process = start_agent(remote)
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            os.set_blocking(_descriptor(pipe), False)
        self._unsent = bytearray()

    @property
    def reports(self) -> int:
        """The descriptor of its reports."""
        return _descriptor(self._process.stdout)

    @property
    def errors(self) -> int:
        """The descriptor of its standard error."""
        return _descriptor(self._process.stderr)

    def order(self, do: str, **arguments: Any) -> None:
        """Send an order, or keep the rest."""
        self._unsent += as_line(do, arguments)
        self.flush()

    def flush(self) -> bool:
        """Send the rest of the orders; return whether that was all."""
        try:
            while self._unsent and not self.is_gone:
                del self._unsent[: os.write(_descriptor(self._process.stdin), self._unsent)]
        except BlockingIOError:
            return False
        except BrokenPipeError:
            # The end of its reports shows that it is gone.
            self._unsent.clear()
        return True

    def give_up(self) -> None:
        """Kill an agent that does not answer, or its ``ssh``."""
        self._process.kill()
        self.is_gone = True

    def close(self, timeout_secs: float) -> int:
        """Close the connection, and kill the agent if it does not end; return its exit code."""
        code = end_agent(self._process, timeout_secs)
        self.read_errors()
        for pipe in (self._process.stdout, self._process.stderr):
            if pipe is not None:
                pipe.close()
        return code


class Machines(ABC):
    """Machines of a job, and the way to their agents."""

    @abstractmethod
    def take(self, workers: Sequence[Host]) -> AbstractContextManager[Sequence[Host]]:
        """Return a context with a place for each worker; its value are their machines."""

    @abstractmethod
    def connect(self, host: Host) -> Link:
        """Start an agent.

        Raises:
            OSError: It cannot be started.
        """


class ReachedMachines(Machines):
    """This machine, and others by ``ssh``."""

    def __init__(self, ssh: str = SSH) -> None:
        self._ssh = ssh

    def take(self, workers: Sequence[Host]) -> AbstractContextManager[Sequence[Host]]:
        """Return the machines unchanged."""
        return nullcontext(workers)

    def connect(self, host: Host) -> AgentLink:
        """Start an agent, here or by ``ssh``."""
        return AgentLink(host, self._ssh)


def as_line(do: str, arguments: Mapping[str, Any]) -> bytes:
    """Return an order as a line."""
    return json.dumps({"do": do, **arguments}).encode() + b"\n"


def start_agent(remote: Sequence[str] = (), environment: Mapping[str, str] | None = None) -> "subprocess.Popen[bytes]":
    """Start an agent, with pipes, here or by a command that runs another on a remote machine.

    It has a session of its own: only the launcher handles a Ctrl-C on the terminal.
    """
    command = python_command("tpack.cli.launcher.agent", "main", path=[str(_ROOT)])
    return subprocess.Popen(
        [*remote, f"exec {shlex.join(command)}"] if remote else command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        bufsize=0,
        env=environment,
        start_new_session=True,
    )


def end_agent(process: "subprocess.Popen[bytes]", timeout_secs: float) -> int:
    """Close the input of an agent, at which it ends everything, and kill it after a timeout; return its exit code."""
    if process.stdin is not None:
        process.stdin.close()
    try:
        return process.wait(timeout_secs)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()


def _descriptor(pipe: Any) -> int:
    return int(pipe.fileno())
