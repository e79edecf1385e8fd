"""A child process, new or forked, and what its owner can do with it: see that it ended, end it, ask how it ended."""

import contextlib
import json
import math
import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from multiprocessing import spawn
from typing import NoReturn

from tpack.dataflow.parallel.payload import Payload
from tpack.dataflow.parallel.streaming_stores import with_streaming_stores
from tpack.utils.concurrency import mask_sigint

_BOOT = (
    "import json, sys; task = json.loads(sys.argv[1]); sys.path[:] = task['path']; "
    "from tpack.dataflow.parallel.workers.bootstrap import main; main(task)"
)
_TERMINATE_SECS = 2.0


@dataclass(frozen=True)
class Task:
    """What a worker is told besides the object it works on.

    Attributes:
        name: the name of its process.
        index: which of its owner's workers it is.
        capacity: how many data points of it may wait.
        seed: what its random numbers come from.
        results: the descriptor of its end of the socket for data points.
        jobs: the descriptor of its end of the socket for what its owner sends.
        lifeline: the descriptor that shows the death of the owner.
    """

    name: str
    index: int
    capacity: int
    seed: int
    results: int
    jobs: int
    lifeline: int

    @property
    def descriptors(self) -> tuple[int, ...]:
        """All descriptors."""
        return self.results, self.jobs, self.lifeline


class Child:
    """A process that this process has started, and that it has to wait for."""

    def __init__(self, pid: int, spawned: subprocess.Popen[bytes] | None = None) -> None:
        """Take over a process that runs.

        Args:
            pid: its id.
            spawned: the process, if it is a new interpreter.
        """
        self.pid = pid
        self._spawned = spawned
        self._code: int | None = None
        # Readable when the process has ended. Old kernels and other systems have none.
        self.sentinel: int | None = None
        if hasattr(os, "pidfd_open"):
            with contextlib.suppress(OSError):
                self.sentinel = os.pidfd_open(pid)

    def signal(self, signum: int) -> None:
        """Send a signal to the process, if it was not waited for."""
        if self._code is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signum)

    def exit_code(self, timeout_secs: float) -> int | None:
        """Wait for the end of the process.

        Args:
            timeout_secs: how long, where the system can say when a process ends; elsewhere any time.

        Returns:
            The exit code, or the negative number of the signal that ended it; None if it goes on.
        """
        if self._code is None and (self.sentinel is None or _is_readable(self.sentinel, timeout_secs)):
            if self._spawned is not None:
                self._code = self._spawned.wait()
            else:
                self._code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return self._code

    def end(self, timeout_secs: float = _TERMINATE_SECS) -> None:
        """Wait for the end of a process that was asked to end, and kill it if it does not."""
        if self.exit_code(timeout_secs if self.sentinel is not None else 0.0) is None:
            self.signal(signal.SIGKILL)
            self.exit_code(math.inf)
        if self.sentinel is not None:
            os.close(self.sentinel)
            self.sentinel = None


def spawn_child(task: Task, payload: Payload) -> Child:
    """Start a new interpreter that runs ``bootstrap.main``."""
    path = [entry or os.getcwd() for entry in sys.path if isinstance(entry, str)]
    told = {"path": path, "argv": sys.argv, "task": asdict(task), "payload": asdict(payload)}
    executable = os.fsdecode(spawn.get_executable() or sys.executable)
    with mask_sigint():
        process = subprocess.Popen(
            [executable, "-c", _BOOT, json.dumps(told)],
            stdin=subprocess.DEVNULL,
            pass_fds=(*task.descriptors, payload.descriptor),
            env=with_streaming_stores(os.environ),
        )
    return Child(process.pid, process)


def fork_child(run: Callable[[], int], close: Sequence[int]) -> Child:
    """Start a fork of this process.

    Args:
        run: what it does; returns its exit code.
        close: descriptors that belong to this process and not to the fork.
    """
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    with mask_sigint():
        pid = os.fork()
        if pid == 0:
            _be_the_fork(run, close)
    return Child(pid)


def _be_the_fork(run: Callable[[], int], close: Sequence[int]) -> NoReturn:
    """Run and end, without anything that the process it was forked from has prepared for its own end."""
    code = 1
    try:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        for descriptor in close:
            os.close(descriptor)
        code = run()
    finally:
        os._exit(code)


def _is_readable(descriptor: int, timeout_secs: float) -> bool:
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(None if timeout_secs == math.inf else timeout_secs * 1000))
