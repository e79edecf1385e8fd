"""Child processes, new or forked: their start, supervision and end, and the exceptions that they pass to their owner.

Workers that prepare data (``tpack.dataflow.parallel.worker``) or call a function (``tpack.utils.process_map``) share:

- A child never outlives its owner. The owner holds the writing end of a pipe, the lifeline, and never writes to it.
  When the owner is gone, the kernel closes that end, and on Linux sends the child SIGKILL, also while it computes in C.
  The kernel's parent-death signal would watch the thread that made the process, which may end earlier.
- A Ctrl-C on the terminal does not reach a child. The owner alone decides when it ends.
- A new interpreter shares no thread, lock or TensorFlow with its owner. It does not run the script again, so no ``if
  __name__ == "__main__"`` is needed. A fork starts at once, but a lock that another thread holds then stays locked.
"""

import contextlib
import fcntl
import importlib
import math
import multiprocessing
import os
import pickle
import select
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import cloudpickle

from tpack.errors import ConfigError, WorkerError
from tpack.utils import logger, renames
from tpack.utils.python_child import python_command

if TYPE_CHECKING:
    import subprocess

_TERMINATE_SECS = 2.0
_Error = TypeVar("_Error", bound=WorkerError)


class Child:
    """Child of this process, which has to wait for it.

    Args:
        pid: its id.
        lifeline: the end of its lifeline that belongs to this process.
        spawned: the process, if it is a new interpreter.

    Attributes:
        sentinel: a descriptor that is readable when the process has ended; None on old kernels and other systems.
    """

    def __init__(self, pid: int, lifeline: int, spawned: "subprocess.Popen[bytes] | None" = None) -> None:
        self.pid = pid
        self.sentinel: int | None = None
        if hasattr(os, "pidfd_open"):
            with contextlib.suppress(OSError):
                self.sentinel = os.pidfd_open(pid)
        self._lifeline: int | None = lifeline
        self._spawned = spawned
        self._code: int | None = None
        self._owner_pid = os.getpid()

    @property
    def descriptors(self) -> list[int]:
        """Descriptors that this process has open for the child; a fork that is another child must not have them."""
        return [each for each in (self.sentinel, self._lifeline) if each is not None]

    def signal(self, signum: int) -> None:
        """Send a signal to a process that has not been waited for; in a fork of the owner, do nothing."""
        if self._code is None and os.getpid() == self._owner_pid:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signum)

    def exit_code(self, timeout_secs: float) -> int | None:
        """Wait for the end of the process, without a limit for a fork that has no sentinel.

        Returns:
            The exit code, or the negative number of the signal that ended it; None if it runs on.
        """
        if self._code is None and (self.sentinel is None or _is_readable(self.sentinel, timeout_secs)):
            if self._spawned is None:
                self._code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
            else:
                with contextlib.suppress(importlib.import_module("subprocess").TimeoutExpired):
                    self._code = self._spawned.wait(None if timeout_secs == math.inf else timeout_secs)
        return self._code

    def end(self, timeout_secs: float = _TERMINATE_SECS) -> None:
        """Wait for the end of a process, and kill it after a timeout; in a fork of its owner, only close files."""
        if os.getpid() == self._owner_pid and self.exit_code(timeout_secs) is None:
            self.signal(signal.SIGKILL)
            self.exit_code(math.inf)
        for descriptor in self.descriptors:
            os.close(descriptor)
        self.sentinel = self._lifeline = None

    def terminate(self, timeout_secs: float = _TERMINATE_SECS) -> None:
        """End the process by SIGTERM, and after a timeout by SIGKILL."""
        self.signal(signal.SIGTERM)
        self.end(timeout_secs)


def spawn_child(
    run: Callable[..., int],
    arguments: Mapping[str, Any],
    *,
    name: str,
    descriptors: Sequence[int] = (),
    environment: Mapping[str, str] | None = None,
) -> Child:
    """Start a new interpreter that calls a function.

    Args:
        run: a function at the top of a module; returns the exit code.
        arguments: its keyword arguments, as JSON can hold them.
        name: the name of the process.
        descriptors: open files of this process that the child inherits, under the same numbers.
        environment: its environment variables; None are those of this process.
    """
    # Children import this module too, and start none.
    subprocess, spawn = (importlib.import_module(module) for module in ("subprocess", "multiprocessing.spawn"))
    executable = os.fsdecode(spawn.get_executable() or sys.executable)
    with _lifeline() as (there, here):
        told = {
            "argv": sys.argv,
            "name": name,
            "lifeline": there,
            "module": run.__module__,
            "function": run.__name__,
            "arguments": dict(arguments),
            "as_tensorpack": renames.is_tensorpack(),
        }
        with mask_sigint():
            process = subprocess.Popen(
                python_command(__name__, "main", {"told": told}, executable=executable),
                stdin=subprocess.DEVNULL,
                pass_fds=(there, *descriptors),
                env=environment,
            )
    return Child(process.pid, here, process)


def main(told: Mapping[str, Any]) -> NoReturn:
    """Run as a child in a new interpreter, with the values of `spawn_child`."""
    sys.argv = told["argv"]
    if told["as_tensorpack"]:
        renames.install_as_tensorpack()
    _begin(told["name"], told["lifeline"])
    run = getattr(importlib.import_module(told["module"]), told["function"])
    sys.exit(run(**told["arguments"]))


def fork_child(run: Callable[[], int], *, name: str, close: Sequence[int] = ()) -> Child:
    """Start a fork of this process that runs a function and exits with its result; see `check_fork` for the dangers.

    It closes the descriptors in ``close``, which belong to this process.
    """
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    with _lifeline() as (there, here), mask_sigint():
        pid = os.fork()
        if pid == 0:
            _be_the_fork(run, name, there, [here, *close])
    return Child(pid, here)


def _be_the_fork(run: Callable[[], int], name: str, lifeline: int, close: Sequence[int]) -> NoReturn:
    """Run and exit, without the exit functions of the process that was forked."""
    code = 1
    try:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        for descriptor in close:
            os.close(descriptor)
        _begin(name, lifeline)
        code = run()
    finally:
        os._exit(code)


def check_fork(owner: str) -> None:
    """Warn of a loaded TensorFlow before a fork of this process, and refuse other threads.

    Raises:
        ConfigError: There are other threads.
    """
    others = [thread.name for thread in threading.enumerate() if thread is not threading.current_thread()]
    if others:
        raise ConfigError(
            f"{owner} was to fork a process with {len(others)} other threads ({', '.join(others[:5])}): a lock that "
            "one of them holds would stay locked in the worker for ever; call reset_state() once yourself, before "
            "threads and sessions are made, or start the workers by 'spawn'"
        )
    if "tensorflow" in sys.modules:
        logger.warning(
            "%s forks a process that has loaded TensorFlow: if a session was made already, its threads are missing in "
            "the workers, and they may hang; 'spawn' is safe",
            owner,
        )


@contextmanager
def _lifeline() -> Iterator[tuple[int, int]]:
    """Open a lifeline: the child's end, which is closed here when the child has it, and the owner's."""
    there, here = os.pipe()
    try:
        yield there, here
    except BaseException:
        os.close(here)
        raise
    finally:
        os.close(there)


def _begin(name: str, lifeline: int) -> None:
    """Set up a child."""
    die_with_owner(lifeline)
    multiprocessing.current_process().name = name


def die_with_owner(lifeline: int) -> None:
    """Get this process killed when the other end of a pipe is closed; its reading end must stay open."""
    if hasattr(fcntl, "F_SETSIG"):
        fcntl.fcntl(lifeline, fcntl.F_SETOWN, os.getpid())
        fcntl.fcntl(lifeline, fcntl.F_SETSIG, signal.SIGKILL)
        flags = fcntl.fcntl(lifeline, fcntl.F_GETFL)
        fcntl.fcntl(lifeline, fcntl.F_SETFL, flags | os.O_ASYNC)
        # The owner may have gone before the kernel was asked.
        if _is_readable(lifeline, 0):
            os.kill(os.getpid(), signal.SIGKILL)
    else:
        threading.Thread(target=_wait_and_die, args=(lifeline,), name="tpack-lifeline", daemon=True).start()


def _wait_and_die(lifeline: int) -> None:
    """Wait for the end of the owner, which is the end of the pipe."""
    os.read(lifeline, 1)
    os.kill(os.getpid(), signal.SIGKILL)


def _is_readable(descriptor: int, timeout_secs: float) -> bool:
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(None if timeout_secs == math.inf else timeout_secs * 1000))


@contextmanager
def anonymous_file(size_bytes: int) -> Iterator[int]:
    """Open a file without a name that children can read, in memory if possible, and return its descriptor to a block.

    The file exists as long as a process has it open or mapped.
    """
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("tpack-payload")
    else:
        with importlib.import_module("tempfile").TemporaryFile() as file:
            descriptor = os.dup(file.fileno())
    try:
        os.truncate(descriptor, size_bytes)
        yield descriptor
    finally:
        os.close(descriptor)


@dataclass(frozen=True)
class Failure:
    """Exception of a child for its owner: in one line, with its traceback, and pickled if that is possible."""

    text: str
    traceback: str
    pickled: bytes | None

    def error(self, kind: type[_Error], who: str) -> _Error:
        """Return an error whose message begins with ``who``, whose cause is the exception if it can be unpickled."""
        error = kind(f"{who} {self.text}\n\nIn the worker:\n{self.traceback}")
        error.__cause__ = self._cause()
        return error

    def _cause(self) -> BaseException | None:
        if self.pickled is None:
            return None
        try:
            error = pickle.loads(self.pickled)
        except Exception as why:
            # Its class takes other arguments, or is not known here; the text has the exception.
            return why
        return error if isinstance(error, BaseException) else None


def failure_of(error: BaseException) -> Failure:
    """Describe an exception, in the process where it was raised."""
    text = "".join(traceback.format_exception_only(type(error), error)).strip()
    try:
        pickled = cloudpickle.dumps(error)
    except Exception:
        # The text and traceback of the exception can always be sent.
        pickled = None
    return Failure(text, "".join(traceback.format_exception(type(error), error, error.__traceback__)), pickled)


def cause_of_death(code: int | None) -> str:
    """Return in words how a process ended: by an exit code, the negative number of a signal, or None for unknown."""
    if code is None:
        return "has closed its connection"
    if code < 0:
        try:
            return f"was killed by {signal.Signals(-code).name}"
        except ValueError:
            return f"was killed by signal {-code}"
    return f"ended with exit code {code}"


@contextlib.contextmanager
def mask_sigint() -> Iterator[bool]:
    """Block SIGINT in this thread during a block, which gets whether the system can do that.

    Children started there have it blocked for good. A Ctrl-C in that time arrives when the block ends.
    """
    if not hasattr(signal, "pthread_sigmask"):
        yield False
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield True
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
