"""A child process, new or forked, and what its owner can do with it: see that it ended, end it, ask how it ended.

What new interpreters are to work on, in memory that they share.

The flow is pickled once, however many workers there are. Its arrays are mapped into each worker copy on write: a data
set in memory is there once, and a worker that changes its arrays changes them for itself only.

How worker processes come to be: as new interpreters, or as forks of this process.

A new interpreter (``"spawn"``) is the default. It shares nothing with this process, so that threads, locks and
TensorFlow here do no harm there. What it works on is sent to it by cloudpickle, so closures and lambdas may be used,
and the script needs no ``if __name__ == "__main__"``: it is not run again. Large arrays in it are not copied for each
worker. It imports what the flow refers to, and TensorFlow only if the flow does.

A fork begins at once and needs no pickling, but a lock that another thread holds at that moment stays locked in it for
ever. It is therefore made on request only, and refused while other Python threads are alive.

Large copies in a new worker go past the processor's cache, which makes them up to twice as fast.

A worker copies large arrays into memory that it has not touched for a while, and does not read them again. A usual
store would first load what is there into the cache, only to overwrite it. The C library knows another kind of store,
which it uses by default for copies of about the cache's size and more; in a worker it uses it from 4 MiB on. It reads
its setting when a process begins, so it can be given to new interpreters and not to forks.
"""

import contextlib
import json
import math
import mmap
import os
import platform
import select
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import asdict, dataclass
from multiprocessing import spawn
from typing import Any, Literal, NoReturn

import numpy as np

from tpack.dataflow.parallel.transport.codec import Encoded, decode
from tpack.errors import ConfigError, DataPointError
from tpack.utils import logger
from tpack.utils.concurrency import mask_sigint

_BOOT = (
    "import json, sys; task = json.loads(sys.argv[1]); sys.path[:] = task['path']; "
    "from tpack.dataflow.parallel.workers.bootstrap import main; main(task)"
)
_TERMINATE_SECS = 2.0
StartMethod = Literal["spawn", "fork"]
_METHODS = ("spawn", "fork")
_current: ContextVar[StartMethod] = ContextVar("tpack_start_method", default="spawn")
_VARIABLE = "GLIBC_TUNABLES"
_NAME = "glibc.cpu.x86_non_temporal_threshold"
_SETTING = f"{_NAME}=0x400000"


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


@dataclass(frozen=True)
class Payload:
    """Where an object was written.

    Attributes:
        descriptor: an open file.
        size: the size of the file.
        rest_start: see ``Encoded``.
        rest_size: see ``Encoded``.
    """

    descriptor: int
    size: int
    rest_start: int
    rest_size: int


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


@contextmanager
def write_payload(owner: str, obj: Any) -> Iterator[Payload]:
    """Write an object for other processes; it is there for as long as the ``with`` block or a reader keeps it.

    Args:
        owner: whose workers it is for, for the message.
        obj: anything that cloudpickle takes.

    Raises:
        ConfigError: It cannot be pickled.
    """
    try:
        encoded = Encoded(obj)
    except DataPointError as error:
        raise ConfigError(
            f"{owner} cannot be sent to its workers: {error}; make what cannot be pickled in reset_state(), or let the "
            "workers be forked, with start_workers_by('fork')"
        ) from error
    descriptor = _anonymous_file()
    try:
        os.truncate(descriptor, encoded.size_bytes)
        encoded.write(np.frombuffer(mmap.mmap(descriptor, encoded.size_bytes), np.uint8))
        yield Payload(descriptor, encoded.size_bytes, encoded.rest_start, encoded.rest_size)
    finally:
        os.close(descriptor)


def read_payload(payload: Payload) -> Any:
    """Return the object; its arrays are shared with the other readers until they are written to."""
    memory = np.frombuffer(mmap.mmap(payload.descriptor, payload.size, access=mmap.ACCESS_COPY), np.uint8)
    return decode(memory, payload.rest_start, payload.rest_size, lambda spec: spec.view(memory))


def _anonymous_file() -> int:
    """Open a file without a name, in memory where the system can."""
    if hasattr(os, "memfd_create"):
        return os.memfd_create("tpack-payload")
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


@contextmanager
def start_workers_by(method: StartMethod) -> Iterator[None]:
    """Let the flows that are made in a ``with`` block start their workers in one way.

    Args:
        method: ``"spawn"`` or ``"fork"``.

    Raises:
        ConfigError: It is neither.
    """
    if method not in _METHODS:
        raise ConfigError(f"start_workers_by got {method!r}: wanted one of {', '.join(map(repr, _METHODS))}")
    token = _current.set(method)
    try:
        yield
    finally:
        _current.reset(token)


def current_start_method() -> StartMethod:
    """Return how a flow that is made now starts its workers."""
    return _current.get()


def check_fork(owner: str) -> None:
    """Look for what makes a fork of this process dangerous.

    Args:
        owner: what wants to fork, for the message.

    Raises:
        ConfigError: There are other threads.
    """
    others = [thread.name for thread in threading.enumerate() if thread is not threading.current_thread()]
    if others:
        raise ConfigError(
            f"{owner} was to fork a process with {len(others)} other threads ({', '.join(others[:5])}): a lock that "
            "one of them holds would stay locked in the worker for ever; call reset_state() before threads are "
            "started, or start the workers by 'spawn'"
        )
    if "tensorflow" in sys.modules:
        logger.warning(
            "%s forks a process that has loaded TensorFlow: if a session was made already, its threads are missing in "
            "the workers, and they may hang; 'spawn' is safe",
            owner,
        )


def with_streaming_stores(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment variables for a new worker.

    Args:
        environment: those of this process. A setting of the same that is in them is kept.
    """
    variables = dict(environment)
    settings = variables.get(_VARIABLE, "")
    if platform.machine() in ("x86_64", "AMD64") and _NAME not in settings:
        variables[_VARIABLE] = f"{settings}:{_SETTING}" if settings else _SETTING
    return variables


def without_streaming_stores(environment: MutableMapping[str, str]) -> None:
    """Take the setting out of a worker's variables, so that programs that it starts do not get it."""
    settings = [each for each in environment.get(_VARIABLE, "").split(":") if each not in ("", _SETTING)]
    if settings:
        environment[_VARIABLE] = ":".join(settings)
    else:
        environment.pop(_VARIABLE, None)
