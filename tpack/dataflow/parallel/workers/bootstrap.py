"""The first thing that runs in a worker, and the last: it sets the process up, serves, and reports what went wrong.

Part of setting up is that memory which a worker frees stays with it, so that the next array of the same size needs no
new pages. The C library gives free memory at the end of its heap back to the system, and gets it again, page by page
and zeroed, with the next allocation. A worker that decodes images does that with each of them, which costs a third of
the time of decoding. Whether a program does it depends on what happens to lie behind; a worker keeps some memory in any
case. The limits are those that the C library comes to by itself when an array of 32 MiB is freed.
"""

import ctypes
import os
import random
import socket
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tpack.dataflow.parallel.transport.receiver import Receiver
from tpack.dataflow.parallel.transport.sender import Sender
from tpack.dataflow.parallel.transport.wire import Kind, PeerGoneError
from tpack.dataflow.parallel.workers.launch import Payload, Task, read_payload, without_streaming_stores
from tpack.utils.child_process import failure_of
from tpack.utils.rng import fix_rng_seed

Serve = Callable[..., None]
"""A function that a worker runs: it gets the link and more arguments, and ends by an exception."""

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
_TRIM_BYTES, _MMAP_BYTES = 64 * 1024 * 1024, 32 * 1024 * 1024
_VARIABLES = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "MALLOC_TOP_PAD_")
_TUNABLES = "glibc.malloc."


@dataclass(frozen=True)
class ParentLink:
    """What a worker has of its owner.

    Attributes:
        results: where its data points go.
        jobs: where what the owner sends comes from.
    """

    results: Sender
    jobs: Receiver


def run_spawned_worker(task: Mapping[str, int], payload: Mapping[str, int]) -> int:
    """Be a worker in a new interpreter.

    Args:
        task: the fields of its `Task`.
        payload: those of the `Payload` that it works on.

    Returns:
        The exit code of the process.
    """
    without_streaming_stores(os.environ)
    given = Payload(**payload)
    return run_worker(Task(**task), lambda: read_payload(given))


def run_worker(task: Task, get_work: Callable[[], tuple[Serve, tuple[Any, ...]]]) -> int:
    """Be a worker.

    Args:
        task: what the worker is told.
        get_work: returns the function to run and its arguments after the link.

    Returns:
        The exit code of the process.
    """
    keep_freed_memory()
    random.seed(task.seed)
    np.random.seed(task.seed)
    fix_rng_seed(task.seed)
    results = Sender(socket.socket(fileno=task.results), task.capacity, has_flusher=True)
    link = ParentLink(results, Receiver(socket.socket(fileno=task.jobs)))
    try:
        serve, arguments = get_work()
        results.send(Kind.READY)
        serve(link, *arguments)
    except PeerGoneError:
        return 0
    except BaseException as error:
        if isinstance(error, SystemExit) and isinstance(error.code, int | None):
            return error.code or 0
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
