"""A process that makes a function once and calls it on what it is sent, as the process that started it sees it.

For functions that take long to make, such as a model with its weights, and cannot be sent to another process. The
process starts a new interpreter and is no fork: TensorFlow, once used, does not survive a fork.

Call a function on many values in several processes, each of which makes the function once for itself.

Whatever ends the work, an error, a death or somebody who stops asking for results, ends the processes.
"""

import itertools
import multiprocessing
import pickle
import traceback
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from multiprocessing.connection import Connection, wait
from typing import Any

import cloudpickle

from tpack.errors import ConfigError, WorkerError
from tpack.utils.concurrency import enable_death_signal, ensure_proc_terminate, start_proc_mask_signal
from tpack.utils.env import change_env

_END_SECS = 5.0
"""How long a process may take to end by itself when it is no more needed."""

_RESULTS_AHEAD = 8
"""How many results for each process may wait for their turn."""


def pickled(obj: Any, what: str) -> bytes:
    """Return an object as bytes for a process that tpack starts; lambdas and nested functions can be sent, too.

    Args:
        obj: the object.
        what: what to call it in the message.

    Raises:
        ConfigError: It cannot be sent.
    """
    try:
        return cloudpickle.dumps(obj)
    except (TypeError, AttributeError, ValueError, RuntimeError, pickle.PicklingError) as error:
        raise ConfigError(f"{what} cannot be sent to another process: {error}") from error


class WorkerProcess:
    """One process; it is sent one value at a time, when it is idle.

    It ends with the thread that started it.

    Args:
        make_function: a function without arguments, as `pickled` gives it, that returns the function to call.
        name: what to call the process in messages.

    Attributes:
        connection: is ready for reading when `receive` has something to return or to raise.
        is_idle: whether it has made its function and has nothing to do.
        task: the number and value that it works on, or None.
    """

    def __init__(self, make_function: bytes, name: str) -> None:
        self.name = name
        self.is_idle = False
        self.task: tuple[int, Any] | None = None
        self._doing = "before it was ready"
        context = multiprocessing.get_context("spawn")
        self.connection, self._theirs = context.Pipe()
        self._process = context.Process(target=_work, args=(self._theirs, make_function), name=name, daemon=True)

    def start(self, environment: Mapping[str, str]) -> None:
        """Start the process, which makes its function first."""
        with ExitStack() as stack:
            for variable, value in environment.items():
                stack.enter_context(change_env(variable, value))
            start_proc_mask_signal(self._process)
        ensure_proc_terminate(self._process)
        # Now the process alone has this end, so that its death closes it.
        self._theirs.close()

    def send(self, number: int, value: Any) -> None:
        """Send a value to the process, which is idle and therefore listens.

        Raises:
            WorkerError: The process has died.
            ConfigError: The value cannot be sent.
        """
        content = pickled(value, f"value {number} for {self.name}")
        self.task, self.is_idle, self._doing = (number, value), False, f"on value {number}"
        try:
            self.connection.send_bytes(content)
        except OSError as error:
            raise self._death() from error

    def receive(self) -> tuple[int | None, Any]:
        """Return the number of a value, and the value with its result; the number is None for the first answer.

        Raises:
            WorkerError: The process failed or died.
        """
        try:
            failure, content = self.connection.recv()
        except (EOFError, OSError) as error:
            raise self._death() from error
        if failure is not None:
            raise WorkerError(f"{self._describe()} failed {self._doing}: {failure}") from _RemoteError(content)
        task, self.task, self.is_idle, self._doing = self.task, None, True, "while it had nothing to do"
        return (None, None) if task is None else (task[0], (task[1], cloudpickle.loads(content)))

    def dismiss(self) -> None:
        """Tell the process that there is nothing more to do, and wait until it has ended."""
        self.connection.close()
        self._process.join(_END_SECS)

    def end(self) -> None:
        """End the process, whatever it does."""
        self.connection.close()
        self._theirs.close()
        if self._process.pid is None:
            return
        if self._process.is_alive():
            self._process.terminate()
            self._process.join(_END_SECS)
        if self._process.is_alive():
            self._process.kill()
        self._process.join()

    def _death(self) -> WorkerError:
        self._process.join(_END_SECS)
        return WorkerError(f"{self._describe()} died {self._doing}, with exit code {self._process.exitcode}")

    def _describe(self) -> str:
        return f"{self.name} (process {self._process.pid})"


class _RemoteError(Exception):
    """The traceback of another process, printed as the cause of an error in this one."""


def _work(connection: Connection, make_function: bytes) -> None:
    """Make the function and call it on what comes, until nothing comes any more; runs in the process."""
    enable_death_signal()
    failure, function = _attempt(lambda: cloudpickle.loads(make_function)())
    content: Any = function
    try:
        connection.send((failure, None if failure is None else content))
        while failure is None:
            value = connection.recv_bytes()
            failure, content = _attempt(partial(_call, function, value))
            connection.send((failure, content))
    except (EOFError, OSError):
        # Nobody is at the other end any more.
        return


def _call(function: Callable[[Any], Any], value: bytes) -> bytes:
    return cloudpickle.dumps(function(cloudpickle.loads(value)))


def _attempt(action: Callable[[], Any]) -> tuple[str | None, Any]:
    """Return what went wrong with its traceback, or None with the result."""
    try:
        return None, action()
    except Exception as error:
        return f"{type(error).__name__}: {error}", f"\n{traceback.format_exc()}"


def map_in_processes(
    make_function: bytes,
    values: Iterable[Any],
    *,
    name: str,
    environments: Sequence[Mapping[str, str]],
    ordered: bool = True,
) -> Generator[tuple[Any, Any], None, None]:
    """Yield each value with what a function returns for it.

    The processes start with the first result that is asked for, and end with the last. They also end with the thread
    that asked for the first result.

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
    names = [f"{name} {number} of {len(environments)}" for number in range(1, len(environments) + 1)]
    workers = [WorkerProcess(make_function, each) for each in names]
    with ExitStack() as stack:
        for worker, environment in zip(workers, environments, strict=True):
            stack.callback(worker.end)
            worker.start(environment)
        yield from _Mapping(workers, values, ordered=ordered)
        for worker in workers:
            worker.dismiss()


class _Mapping:
    """Hands out values to workers, and collects what they return."""

    def __init__(self, workers: Sequence[WorkerProcess], values: Iterable[Any], *, ordered: bool) -> None:
        self._workers: dict[Any, WorkerProcess] = {worker.connection: worker for worker in workers}
        self._values: Iterator[tuple[int, Any]] = enumerate(values)
        self._error: Exception | None = None
        self._ordered = ordered
        self._waiting: deque[tuple[int, Any]] = deque()
        self._done: dict[int, tuple[Any, Any]] = {}
        self._next = 0

    def __iter__(self) -> Iterator[tuple[Any, Any]]:
        while self._prepare() or any(worker.task for worker in self._workers.values()):
            self._hand_out()
            # Also those without a value: they may die, or still make their function.
            for connection in wait(list(self._workers)):
                number, result = self._workers[connection].receive()
                if number is not None:
                    self._done[number] = result
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

    def _hand_out(self) -> None:
        for worker in self._workers.values():
            is_far_ahead = len(self._done) >= _RESULTS_AHEAD * len(self._workers)
            if worker.is_idle and self._waiting and not (is_far_ahead and self._waiting[0][0] != self._next):
                worker.send(*self._waiting.popleft())

    def _results(self) -> Iterator[tuple[Any, Any]]:
        if not self._ordered:
            results, self._done = self._done, {}
            yield from results.values()
            return
        while self._next in self._done:
            yield self._done.pop(self._next)
            self._next += 1
