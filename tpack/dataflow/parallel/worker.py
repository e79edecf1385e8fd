"""One worker process: its start method, its payload, and its first and last steps.

A new interpreter (``"spawn"``) is the default, a fork is made on request: ``tpack.utils.child_process`` compares them.
The payload is pickled once for all workers, so closures and lambdas may be used. Its arrays are mapped into each worker
copy on write: a data set in memory is there once, and changes of a worker are its own.

Large copies, from 4 MiB on, in a new worker bypass the processor's cache, up to twice as fast: a worker copies into
memory that it does not read again. The C library reads that setting at the start of a process, so forks do not have it.

Memory that a worker frees stays with it. The C library otherwise returns it to the system and gets it again zeroed,
page by page: a third of the time of decoding images. The limits are its own after an array of 32 MiB was freed.
"""

import ctypes
import mmap
import os
import platform
import random
import socket
import traceback
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Literal

import numpy as np

from tpack.dataflow.parallel.codec import Encoded, decode
from tpack.dataflow.parallel.receiver import Receiver
from tpack.dataflow.parallel.sender import Sender
from tpack.dataflow.parallel.slots import PeerGoneError, Record
from tpack.errors import ConfigError, DataPointError
from tpack.utils.child_process import anonymous_file, failure_of
from tpack.utils.rng import fix_rng_seed
from tpack.utils.validation import check_arguments, check_choice

StartMethod = Literal["spawn", "fork"]

_METHODS: tuple[StartMethod, ...] = ("spawn", "fork")
_current: ContextVar[StartMethod] = ContextVar("tpack_start_method", default="spawn")
_VARIABLE = "GLIBC_TUNABLES"
_NAME = "glibc.cpu.x86_non_temporal_threshold"
_SETTING = f"{_NAME}=0x400000"

Serve = Callable[..., None]
"""The function of a worker: it gets the link and more arguments, and ends by an exception."""

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
_TRIM_BYTES, _MMAP_BYTES = 64 * 1024 * 1024, 32 * 1024 * 1024
_HEAP_VARIABLES = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "MALLOC_TOP_PAD_")
_HEAP_TUNABLES = "glibc.malloc."


@check_arguments
class start_workers_by:  # noqa: N801 (it is called as a function is)
    """Choose how flows made from now on start their workers; in a ``with`` block, until its end.

    The choice is for flows of this thread. A process should fork before it has other threads, and a trainer has some:
    call ``reset_state()`` of a forking flow before anything else; its workers wait for the training.

    Raises:
        ConfigError: It is neither.

    Example:
        start_workers_by("fork")  # for the rest of the script
        with start_workers_by("fork"):
            ds = MultiProcessRunner(ds, 10, 4)
    """

    def __init__(self, method: StartMethod) -> None:
        check_choice("start_workers_by", "method", method, _METHODS)
        self._token = _current.set(method)

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        _current.reset(self._token)


def current_start_method() -> StartMethod:
    """Return the start method of flows made now."""
    return _current.get()


@dataclass(frozen=True)
class Task:
    """The settings of a worker, besides its payload; ``results`` and ``jobs`` are descriptors of its sockets."""

    capacity: int
    seed: int
    results: int
    jobs: int


@dataclass(frozen=True)
class Payload:
    """The place of an object, as in ``Encoded``, in an open file that new interpreters load."""

    descriptor: int
    size: int
    rest_start: int
    rest_size: int


@contextmanager
def write_payload(owner: str, obj: object) -> Iterator[Payload]:
    """Write an object for other processes; it exists as long as the ``with`` block or a reader.

    Raise a ConfigError that names the owner for an object that cloudpickle does not take.
    """
    try:
        encoded = Encoded(obj)
    except DataPointError as error:
        raise ConfigError(
            f"{owner} cannot be sent to its workers: {error}; make such objects in reset_state(), or use "
            "start_workers_by('fork')"
        ) from error
    with anonymous_file(encoded.size_bytes) as descriptor:
        encoded.write(np.frombuffer(mmap.mmap(descriptor, encoded.size_bytes), np.uint8))
        yield Payload(descriptor, encoded.size_bytes, encoded.rest_start, encoded.rest_size)


def read_payload(payload: Payload) -> Any:
    """Return the object; its arrays are shared with other readers until they are written to."""
    memory = np.frombuffer(mmap.mmap(payload.descriptor, payload.size, access=mmap.ACCESS_COPY), np.uint8)
    return decode(memory, payload.rest_start, payload.rest_size, lambda spec: spec.view(memory))


def with_streaming_stores(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment variables for a new worker; an own setting in ``environment`` is kept."""
    variables = dict(environment)
    settings = variables.get(_VARIABLE, "")
    if platform.machine() in ("x86_64", "AMD64") and _NAME not in settings:
        variables[_VARIABLE] = f"{settings}:{_SETTING}" if settings else _SETTING
    return variables


def without_streaming_stores(environment: MutableMapping[str, str]) -> None:
    """Remove the setting from a worker's variables, so that its child processes do not inherit it."""
    settings = [each for each in environment.get(_VARIABLE, "").split(":") if each not in ("", _SETTING)]
    if settings:
        environment[_VARIABLE] = ":".join(settings)
    else:
        environment.pop(_VARIABLE, None)


@dataclass(frozen=True)
class ParentLink:
    """The channels of a worker to its owner: for its data points, and for messages of the owner."""

    results: Sender
    jobs: Receiver


def run_spawned_worker(task: Mapping[str, int], payload: Mapping[str, int]) -> int:
    """Run a worker in a new interpreter, of the fields of its `Task` and `Payload`; return the exit code."""
    without_streaming_stores(os.environ)
    given = Payload(**payload)
    return run_worker(Task(**task), lambda: read_payload(given))


def run_worker(task: Task, get_work: Callable[[], tuple[Serve, tuple[Any, ...]]]) -> int:
    """Run a worker; ``get_work`` returns its function and arguments after the link. Return the exit code."""
    keep_freed_memory()
    random.seed(task.seed)
    np.random.seed(task.seed)
    fix_rng_seed(task.seed)
    results = Sender(socket.socket(fileno=task.results), task.capacity, has_flusher=True)
    link = ParentLink(results, Receiver(socket.socket(fileno=task.jobs)))
    try:
        serve, arguments = get_work()
        results.send(Record.READY)
        serve(link, *arguments)
    except PeerGoneError:
        return 0
    except BaseException as error:
        if isinstance(error, SystemExit) and isinstance(error.code, int | None):
            return error.code or 0
        try:
            results.send(Record.FATAL, failure_of(error))
        except PeerGoneError:
            traceback.print_exception(error)
    return 1


def keep_freed_memory(environment: Mapping[str, str] = os.environ) -> bool:
    """Keep up to 64 MiB of freed memory in this process; return whether the limits were set, by glibc only.

    Settings of the C library's heap in the environment are kept.
    """
    if any(name in environment for name in _HEAP_VARIABLES) or _HEAP_TUNABLES in environment.get("GLIBC_TUNABLES", ""):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    answers = mallopt(_TRIM_THRESHOLD, _TRIM_BYTES), mallopt(_MMAP_THRESHOLD, _MMAP_BYTES)
    return all(answers)
