"""Call a function on many values in several processes, each of which makes the function once for itself.

For functions that take long to make, such as a model, and cannot be sent. The processes are new interpreters:
TensorFlow, once used, does not survive a fork. They end however the work ends.
"""

import contextlib
import itertools
import mmap
import multiprocessing
import os
import pickle
import weakref
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from multiprocessing.connection import Connection, wait
from typing import Any, Generic, TypeVar

import cloudpickle

from tpack.errors import ConfigError, WorkerError
from tpack.utils.child_process import Child, Failure, anonymous_file, cause_of_death, failure_of, spawn_child

_Value = TypeVar("_Value")
_Result = TypeVar("_Result")

_END_SECS = 5.0
"""How long a process may take to end by itself when it is no more needed."""

_RESULTS_AHEAD = 8
"""How many results for each process may wait for their turn."""


def map_in_processes(
    make_function: bytes,
    values: Iterable[_Value],
    *,
    name: str,
    environments: Sequence[Mapping[str, str]],
    ordered: bool = True,
) -> Generator[tuple[_Value, Any], None, None]:
    """Yield each value with what a function returns for it.

    The processes start with the first result that is asked for, and end with the last. They also end with this process.

    Args:
        make_function: a function without arguments, as `pickled` gives it; called once in each process, it returns the
            function to call on the values.
        values: each is sent to a process that has nothing else to do.
        name: what to call the processes in messages.
        environments: environment variables for each process, beside those of this one; one process for each.
        ordered: whether results come in the order of the values, or as soon as they are there.

    Raises:
        WorkerError: A process failed or died; the message says which, on what, and why.
        ConfigError: A value cannot be sent to another process.
    """
    workers: list[WorkerProcess[_Value]] = []
    with ExitStack() as stack:
        with written(make_function) as file:
            for number, environment in enumerate(environments, 1):
                worker = WorkerProcess[_Value](f"{name} {number} of {len(environments)}", file, environment)
                stack.callback(worker.end)
                workers.append(worker)
        yield from _Mapping(workers, values, ordered=ordered)
        for worker in workers:
            worker.dismiss()


def pickled(obj: object, what: str) -> bytes:
    """Return an object, lambdas included, as bytes for a process of tpack; raise ConfigError if it cannot be."""
    try:
        return cloudpickle.dumps(obj)
    except (TypeError, AttributeError, ValueError, RuntimeError, pickle.PicklingError) as error:
        raise ConfigError(f"{what} cannot be sent to another process: {error}") from error


@contextmanager
def written(content: bytes) -> Iterator[int]:
    """Write bytes to a file for processes that are started in a ``with`` block; its value is the descriptor."""
    with anonymous_file(len(content)) as descriptor:
        with open(descriptor, "wb", closefd=False) as file:
            file.write(content)
        yield descriptor


class _Mapping(Generic[_Value]):
    """Hands out values to workers, and collects what they return."""

    def __init__(self, workers: "Sequence[WorkerProcess[_Value]]", values: Iterable[_Value], *, ordered: bool) -> None:
        self._workers: dict[Any, WorkerProcess[_Value]] = {worker.connection: worker for worker in workers}
        self._values: Iterator[tuple[int, _Value]] = enumerate(values)
        self._error: Exception | None = None
        self._ordered = ordered
        self._waiting: deque[tuple[int, _Value]] = deque()
        self._done: dict[int, tuple[_Value, Any]] = {}
        self._next = 0

    def __iter__(self) -> Iterator[tuple[_Value, Any]]:
        while self._prepare() or any(worker.task for worker in self._workers.values()):
            for worker in self._workers.values():
                is_far_ahead = len(self._done) >= _RESULTS_AHEAD * len(self._workers)
                if worker.is_idle and self._waiting and not (is_far_ahead and self._waiting[0][0] != self._next):
                    worker.send(*self._waiting.popleft())
            # Also those without a value: they may die, or still make their function.
            for connection in wait(list(self._workers)):
                done = self._workers[connection].receive()
                if done is not None:
                    number, value, result = done
                    self._done[number] = value, result
            yield from self._results()
        if self._error is not None:
            raise self._error

    def _prepare(self) -> bool:
        """Get as many values as there are workers, so that none waits for the next one; tell whether there are any."""
        missing = max(0, len(self._workers) - len(self._waiting))
        try:
            self._waiting.extend(itertools.islice(self._values, missing))
        except Exception as error:
            # Raised when the results of what came before are out.
            self._error, self._values = error, iter(())
        return bool(self._waiting)

    def _results(self) -> Iterator[tuple[_Value, Any]]:
        if not self._ordered:
            results, self._done = self._done, {}
            yield from results.values()
            return
        while self._next in self._done:
            yield self._done.pop(self._next)
            self._next += 1


class WorkerProcess(Generic[_Value]):
    """A process that makes a function and calls it on one value at a time, as the process that started it sees it.

    It ends when nobody refers to it any more, and with this process.

    Args:
        name: what to call the process in messages.
        make_function: the descriptor of a file with a function without arguments, as `pickled` gives it; it returns
            the function to call.
        environment: environment variables for it, beside those of this process.

    Attributes:
        connection: is ready for reading when `receive` has something to return or to raise.
        is_idle: whether it has made its function and has nothing to do.
        task: the number and value that it works on, or None.
    """

    def __init__(self, name: str, make_function: int, environment: Mapping[str, str]) -> None:
        self.name = name
        self.is_idle = False
        self.task: tuple[int, _Value] | None = None
        self._doing = "before it was ready"
        self.connection, theirs = multiprocessing.Pipe()
        # Then the process alone has its end, so that its death closes it.
        with theirs:
            self._child = spawn_child(
                serve,
                {"connection": theirs.fileno(), "make_function": make_function},
                name=name,
                descriptors=(theirs.fileno(), make_function),
                environment={**os.environ, **environment},
            )
        self._finalizer = weakref.finalize(self, _end, self._child, self.connection)

    def send(self, number: int, value: _Value) -> None:
        """Send a value to the idle process; raise WorkerError if it died, ConfigError for an unsendable value."""
        content = pickled(value, f"value {number} for {self.name}")
        self.task, self.is_idle, self._doing = (number, value), False, f"on value {number}"
        try:
            self.connection.send_bytes(content)
        except OSError as error:
            raise self._death() from error

    def receive(self) -> tuple[int, _Value, Any] | None:
        """Return number, value and result, or None for the first answer; raise WorkerError after a failure."""
        try:
            answer: Failure | bytes | None = self.connection.recv()
        except (EOFError, OSError) as error:
            raise self._death() from error
        if isinstance(answer, Failure):
            raise answer.error(WorkerError, f"{self._describe()} failed {self._doing}:")
        task, self.task, self.is_idle, self._doing = self.task, None, True, "while it had nothing to do"
        return None if task is None or answer is None else (*task, cloudpickle.loads(answer))

    def dismiss(self) -> None:
        """Tell the process that there is nothing more to do, and wait until it has ended."""
        self.connection.close()
        self._child.exit_code(_END_SECS)

    def end(self) -> None:
        """End the process, whatever it does."""
        self._finalizer()

    def _death(self) -> WorkerError:
        return WorkerError(f"{self._describe()} {cause_of_death(self._child.exit_code(_END_SECS))} {self._doing}")

    def _describe(self) -> str:
        return f"{self.name} (process {self._child.pid})"


def _end(child: Child, connection: Connection) -> None:
    connection.close()
    child.terminate(_END_SECS)


def serve(connection: int, make_function: int) -> int:
    """Make the function and call it on values until none comes, in the worker; return the exit code of the process."""
    with Connection(connection) as channel, contextlib.suppress(EOFError, OSError):
        function = _attempt(partial(_make, make_function))
        channel.send(function if isinstance(function, Failure) else None)
        while not isinstance(function, Failure):
            channel.send(_attempt(partial(_call, function, channel.recv_bytes())))
    # Nobody is at the other end any more, or nobody will ask again.
    return 0


def _make(file: int) -> Any:
    with mmap.mmap(file, 0, access=mmap.ACCESS_READ) as content:
        os.close(file)
        make_function = cloudpickle.loads(content)
    return make_function()


def _call(function: Callable[[object], object], value: bytes) -> bytes:
    return cloudpickle.dumps(function(cloudpickle.loads(value)))


def _attempt(action: Callable[[], _Result]) -> "_Result | Failure":
    """Return the result, or the failure if there is none."""
    try:
        return action()
    except Exception as error:
        return failure_of(error)
