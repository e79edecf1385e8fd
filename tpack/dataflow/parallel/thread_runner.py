"""Several flows, each in a thread, as one."""

from collections.abc import Callable, Iterator
from typing import Any

from tpack.dataflow.base import DataFlow, length_or_none
from tpack.dataflow.checks import check_at_least
from tpack.dataflow.guard import DataFlowReentrantGuard
from tpack.dataflow.parallel.thread_crew import ThreadCrew
from tpack.dataflow.state import StatelessError
from tpack.errors import ConfigError, InputError


class MultiThreadRunner(DataFlow):
    """Iterate flows in threads, and yield what comes: for flows that wait, as those that read from a network do.

    The function is called once for each thread, and must not give the same flow twice: each thread iterates its own.
    If the flow knows its length, passes are cut from the mixture: each has that length, and the next goes on where it
    stopped. Otherwise, and with one thread, a pass is one pass of each thread. An exception in a thread comes out as a
    `DataWorkerError`; its flow is begun anew in the next pass.
    """

    def __init__(self, get_df: Callable[[], DataFlow], num_prefetch: int, num_thread: int) -> None:
        """Make the flow, and the flows of the threads.

        Args:
            get_df: makes a flow.
            num_prefetch: how many data points may wait, of all threads.
            num_thread: the number of threads.

        Raises:
            ConfigError: A number is less than 1, or ``get_df`` gives no flow, or one twice.
        """
        self.num_prefetch = check_at_least(self, "num_prefetch", num_prefetch)
        self.num_thread = check_at_least(self, "num_thread", num_thread)
        if not callable(get_df):
            raise ConfigError(f"{type(self).__name__} got get_df={get_df!r}: wanted a function that makes a DataFlow")
        self.flows = [get_df() for _ in range(self.num_thread)]
        if not all(isinstance(ds, DataFlow) for ds in self.flows) or len(set(map(id, self.flows))) < self.num_thread:
            raise ConfigError(
                f"{type(self).__name__} got a get_df that returned {self.flows!r:.200}: wanted a new DataFlow each time"
            )
        self._guard = DataFlowReentrantGuard(type(self).__name__)
        self._crew: ThreadCrew | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_crew": None}

    def __len__(self) -> int:
        return len(self.flows[0])

    def reset_state(self) -> None:
        """Reset the flows and start the threads."""
        self.close()
        for ds in self.flows:
            ds.reset_state()
        length = length_or_none(self.flows[0]) if self.num_thread > 1 else None
        self._crew = ThreadCrew(type(self).__name__, self.flows, self.num_prefetch, length)

    def __iter__(self) -> Iterator[Any]:
        """Begin a pass.

        Raises:
            InputError: ``reset_state`` was not called, or another pass has not ended.
            DataWorkerError: A thread raised.
            MailboxClosedError: The threads have been ended.
        """
        with self._guard:
            if self._crew is None:
                raise InputError(f"{type(self).__name__} has no threads yet: call reset_state() once before iterating")
            yield from self._crew.iterate()

    def close(self) -> None:
        """End the threads, each when its flow has given the point that it is at. They end with this flow, too."""
        if self._crew is not None:
            self._crew.close()

    def state_dict(self) -> dict[str, Any]:
        """Refuse: the order of the points depends on which thread is faster.

        Raises:
            StatelessError: Always.
        """
        raise StatelessError(
            f"{type(self).__name__} has no position: its threads run ahead, and the order of their data points depends "
            "on which is faster"
        )

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Refuse, as ``state_dict`` does.

        Raises:
            StatelessError: Always.
        """
        self.state_dict()
