"""Call a function on many values in several processes, each of which makes the function once for itself.

Whatever ends the work, an error, a death or somebody who stops asking for results, ends the processes.
"""

import itertools
from collections import deque
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from multiprocessing.connection import wait
from typing import Any

from tpack.utils.process_map import WorkerProcess

_RESULTS_AHEAD = 8
"""How many results for each process may wait for their turn."""


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
