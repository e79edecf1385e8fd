"""Client of an agent: starts it, here or by ``ssh``, and exchanges orders and reports."""

import json
import os
import select
import shlex
import subprocess
import time
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
# The timeout of an agent between two runs of a job; the system takes no longer ones.
_IDLE_SECS = 1e6
# The time between two attempts to reach a machine that joins.
_RETRY_SECS = 10.0


class Link(ABC):
    """Connection of the launcher to a running agent.

    Attributes:
        host: its machine.
        num_reserved: the number of ports that it was ordered to reserve.
        ports: its reserved ports; None before they are known.
        running: the ranks that run there.
        is_done: whether it has reported the end of everything.
        is_gone: whether its reports have ended.
        stays: whether it waits for another start when all has ended.
        last_lines: the last lines of its, or the connection's, standard error.
    """

    def __init__(self, host: Host) -> None:
        self.host = host
        self.num_reserved = 0
        self.ports: list[int] | None = None
        self.running: set[int] = set()
        self.is_done = False
        self.is_gone = False
        self.stays = False
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

    @property
    def has_ended(self) -> bool:
        """Whether it has nothing to do any more in this run of the job."""
        return self.is_gone or (self.is_done and self.stays)

    def begin(self) -> None:
        """Forget the last run of the job."""
        self.num_reserved, self.ports, self.is_done = 0, None, False
        self.running.clear()
        self.last_lines.clear()

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

    def is_alive(self) -> bool:
        """Tell whether the agent, or the ``ssh`` to it, still runs."""
        return self._process.poll() is None

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
        """Start an agent, or take the one that stayed.

        Raises:
            OSError: It cannot be started.
        """

    def answers(self, host: Host) -> bool:
        """Tell whether an agent answers on a machine, which is asked again and again; never by default."""
        return False

    def release(self, link: Link, timeout_secs: float) -> None:
        """Let an agent go after a run of the job: by default it ends."""
        link.close(timeout_secs)


class ReachedMachines(Machines):
    """This machine, and others by ``ssh``.

    Args:
        ssh: the command that reaches the others.
        preload: the arguments of the agents' order of that name; None forks no processes.
        keeps_agents: whether agents stay from one run of a job to the next, until `close`.
        memory: a directory in memory, which each agent makes with its machine's name at the end, and removes.
    """

    def __init__(
        self,
        ssh: str = SSH,
        preload: Mapping[str, Any] | None = None,
        *,
        keeps_agents: bool = False,
        memory: str | None = None,
    ) -> None:
        self._ssh = ssh
        self._memory = memory
        self._keeps_agents = keeps_agents
        self._preload = preload
        self._kept: dict[Host, AgentLink] = {}
        self._used: set[Host] = set()
        self._ask_at: dict[Host, float] = {}

    def take(self, workers: Sequence[Host]) -> AbstractContextManager[Sequence[Host]]:
        """Return the machines unchanged."""
        return nullcontext(workers)

    def prepare(self, hosts: Sequence[Host]) -> None:
        """Start the agents of spare machines, so that they have imported everything when they are needed."""
        for host in dict.fromkeys(hosts):
            if host not in self._kept:
                self._kept[host] = self._start(host)

    def connect(self, host: Host) -> AgentLink:
        """Start an agent, here or by ``ssh``, or take the one that stayed."""
        link = self._kept.pop(host, None)
        if link is not None and not link.is_alive():
            link.close(0.0)
            link = None
        if link is None:
            link = self._start(host)
        link.begin()
        self._used.add(host)
        return link

    def answers(self, host: Host) -> bool:
        """Tell whether an agent answers on a machine; after a failure another is started some seconds later."""
        if host in self._used:
            return True
        link = self._kept.get(host)
        if link is not None and not link.is_alive():
            self._kept.pop(host).close(0.0)
            self._ask_at[host] = time.monotonic() + _RETRY_SECS
            return False
        if link is None:
            if time.monotonic() >= self._ask_at.get(host, 0.0):
                link = self._kept[host] = self._start(host)
                link.order("reserve", host="", count=0)
            return False
        if any("ports" in report for report in link.receive()):
            link.ports = []
        return link.ports is not None

    def release(self, link: Link, timeout_secs: float) -> None:
        """Keep an agent that has ended all of its processes; end another."""
        self._used.discard(link.host)
        if isinstance(link, AgentLink) and link.stays and link.is_done and not link.is_gone:
            if link.host.login is not None:
                # The end of its input, too, ends it.
                link.order("watch", silence_secs=_IDLE_SECS)
            self._kept[link.host] = link
        else:
            link.close(timeout_secs)

    def close(self, timeout_secs: float) -> None:
        """End all agents."""
        while self._kept:
            self._kept.popitem()[1].close(timeout_secs)

    def _start(self, host: Host) -> AgentLink:
        link = AgentLink(host, self._ssh)
        if self._keeps_agents:
            link.stays = True
            link.order("stay")
        if self._memory is not None:
            # Several of the machines may be one.
            link.order("keep_memory", directory=f"{self._memory}.{host.name}")
        if self._preload is not None:
            link.order("preload", **self._preload)
        return link


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
