"""The first thing that runs in a worker, and the last: it sets the process up, serves, and reports what went wrong.

Memory that a worker frees stays with it, so that the next array of the same size needs no new pages.

The C library gives free memory at the end of its heap back to the system, and gets it again, page by page and zeroed,
with the next allocation. A worker that decodes images does that with each of them, which costs a third of the time of
decoding. Whether a program does it depends on what happens to lie behind; a worker keeps some memory in any case. The
limits are those that the C library comes to by itself when an array of 32 MiB is freed.

A worker ends when the process that owns it ends, however that ends and whatever the worker is doing.

The owner holds the writing end of a pipe and never writes to it. When the owner is gone, the kernel closes that end; on
Linux it then sends the worker SIGKILL, also while it computes in C and lets no Python thread run. Unlike the kernel's
parent-death signal, which watches the thread that made the process, this watches the owner: the thread may end.

Exceptions that cross the border between processes, with the traceback they had on the other side.
"""

import ctypes
import fcntl
import multiprocessing
import os
import pickle
import random
import select
import signal
import socket
import sys
import threading
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import cloudpickle
import numpy as np

from tpack.dataflow.parallel.transport.receiver import Receiver
from tpack.dataflow.parallel.transport.sender import Sender
from tpack.dataflow.parallel.transport.wire import Kind, PeerGoneError
from tpack.dataflow.parallel.workers.child import Payload, Task, read_payload, without_streaming_stores
from tpack.errors import DataWorkerError
from tpack.utils.rng import fix_rng_seed

Serve = Callable[..., None]
"""A function that a worker runs: it gets the link and more arguments, and ends by an exception."""

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
_TRIM_BYTES, _MMAP_BYTES = 64 * 1024 * 1024, 32 * 1024 * 1024
_VARIABLES = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "MALLOC_TOP_PAD_")
_TUNABLES = "glibc.malloc."


@dataclass(frozen=True)
class Link:
    """What a worker has of its owner.

    Attributes:
        results: where its data points go.
        jobs: where what the owner sends comes from.
    """

    results: Sender
    jobs: Receiver


def main(told: dict[str, Any]) -> None:
    """Be a worker in a new interpreter; it does not return.

    Args:
        told: what ``spawn_child`` says.
    """
    sys.argv = told["argv"]
    without_streaming_stores(os.environ)
    payload = Payload(**told["payload"])
    sys.exit(run_worker(Task(**told["task"]), lambda: read_payload(payload)))


def run_worker(task: Task, get_work: Callable[[], tuple[Serve, tuple[Any, ...]]]) -> int:
    """Be a worker.

    Args:
        task: what the worker is told.
        get_work: returns the function to run and its arguments after the link.

    Returns:
        The exit code of the process.
    """
    hang_on(task.lifeline)
    keep_freed_memory()
    multiprocessing.current_process().name = task.name
    random.seed(task.seed)
    np.random.seed(task.seed)
    fix_rng_seed(task.seed)
    results = Sender(socket.socket(fileno=task.results), task.capacity, has_flusher=True)
    link = Link(results, Receiver(socket.socket(fileno=task.jobs)))
    try:
        serve, arguments = get_work()
        results.send(Kind.READY)
        serve(link, *arguments)
    except PeerGoneError:
        return 0
    except SystemExit as error:
        return error.code if isinstance(error.code, int) else 1
    except BaseException as error:
        _report(results, error)
    return 1


def _report(results: Sender, error: BaseException) -> None:
    """Tell the owner why the worker ends; if it does not listen any more, write it to standard error."""
    try:
        results.send(Kind.FATAL, failure_of(error))
    except PeerGoneError:
        traceback.print_exception(error)


def keep_freed_memory(environment: Mapping[str, str] = os.environ) -> bool:
    """Let this process keep up to 64 MiB of memory that it has freed.

    Args:
        environment: the environment variables; settings of the C library's heap that are in them are kept.

    Returns:
        Whether the C library took it; another one than glibc does not know this.
    """
    if any(name in environment for name in _VARIABLES) or _TUNABLES in environment.get("GLIBC_TUNABLES", ""):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    answers = mallopt(_TRIM_THRESHOLD, _TRIM_BYTES), mallopt(_MMAP_THRESHOLD, _MMAP_BYTES)
    return all(answers)


def hang_on(descriptor: int) -> None:
    """Let this process be killed when the other end of a pipe is closed; call it in the worker, first.

    Args:
        descriptor: the reading end; it must stay open.
    """
    if hasattr(fcntl, "F_SETSIG"):
        fcntl.fcntl(descriptor, fcntl.F_SETOWN, os.getpid())
        fcntl.fcntl(descriptor, fcntl.F_SETSIG, signal.SIGKILL)
        flags = fcntl.fcntl(descriptor, fcntl.F_GETFL)
        fcntl.fcntl(descriptor, fcntl.F_SETFL, flags | os.O_ASYNC)
        # The owner may have gone before the kernel was asked.
        if select.select([descriptor], [], [], 0)[0]:
            os.kill(os.getpid(), signal.SIGKILL)
    else:
        threading.Thread(target=_wait_and_die, args=(descriptor,), name="tpack-lifeline", daemon=True).start()


def _wait_and_die(descriptor: int) -> None:
    """Wait for the end of the owner, which is the end of the pipe."""
    os.read(descriptor, 1)
    os.kill(os.getpid(), signal.SIGKILL)


@dataclass(frozen=True)
class Failure:
    """An exception of a worker, to be raised when its turn comes.

    Attributes:
        text: the exception in one line.
        traceback: its traceback, as Python prints it.
        pickled: the exception itself, or None if it cannot be pickled.
    """

    text: str
    traceback: str
    pickled: bytes | None

    def error(self, worker: str) -> DataWorkerError:
        """Return an error to be raised, whose cause is the exception itself, if that could be brought here.

        Args:
            worker: what to call the worker.
        """
        error = DataWorkerError(f"{worker} raised {self.text}\n\nIn the worker:\n{self.traceback}")
        error.__cause__ = self._cause()
        return error

    def _cause(self) -> BaseException | None:
        if self.pickled is None:
            return None
        try:
            error = pickle.loads(self.pickled)
        except Exception as why:
            # Its class wants other arguments, or is not known here; the text says what it was.
            return why
        return error if isinstance(error, BaseException) else None


def failure_of(error: BaseException) -> Failure:
    """Describe an exception, in the process where it was raised."""
    text = "".join(traceback.format_exception_only(type(error), error)).strip()
    try:
        pickled = cloudpickle.dumps(error)
    except Exception:
        # Not everything that is raised can be sent; its text and traceback always can.
        pickled = None
    return Failure(text, "".join(traceback.format_exception(type(error), error, error.__traceback__)), pickled)


def cause_of_death(code: int | None) -> str:
    """Say in words how a process ended.

    Args:
        code: its exit code; the negative number of a signal; None if it is not known.
    """
    if code is None:
        return "has closed its connection"
    if code < 0:
        try:
            return f"was killed by {signal.Signals(-code).name}"
        except ValueError:
            return f"was killed by signal {-code}"
    return f"ended with exit code {code}"
