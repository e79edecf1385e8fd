"""Flows that run in processes of their own, ahead of their consumer."""

import copy
from collections.abc import Iterator
from typing import Any

from tpack.dataflow.base import DataFlow, ProxyDataFlow, length_or_none
from tpack.dataflow.checks import check_at_least
from tpack.dataflow.guard import DataFlowReentrantGuard
from tpack.dataflow.parallel.options import check_timeout
from tpack.dataflow.parallel.owned_workers import OwnedWorkers
from tpack.dataflow.parallel.position import Position
from tpack.dataflow.parallel.serve_flow import serve_flow
from tpack.dataflow.parallel.streams import ManyStreams, OneStream
from tpack.dataflow.state import StatelessError, make_state, read_count, read_flag, read_state

_COMMANDS = 4


class _ProcessRunner(ProxyDataFlow):
    """A flow in one or more worker processes."""

    def __init__(self, ds: DataFlow, num_proc: int, prefetch: int, timeout: float | None) -> None:
        super().__init__(ds)
        self.num_proc = check_at_least(self, "num_proc", num_proc)
        self._prefetch = prefetch
        self._workers = OwnedWorkers(self, check_timeout(self, timeout))
        self._guard = DataFlowReentrantGuard(type(self).__name__)
        self._stream: OneStream | ManyStreams | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_stream": None}

    def reset_state(self) -> None:
        """Start the workers, each of which resets its copy of the flow and begins to iterate it."""
        self._stream = None
        length = length_or_none(self.ds)
        is_one = self.num_proc == 1
        goes_on = is_one or length is not None
        arguments = (self.ds, is_one, goes_on)
        group = self._workers.start(serve_flow, arguments, count=self.num_proc, results=self._prefetch, jobs=_COMMANDS)
        self._stream = OneStream(group) if is_one else ManyStreams(group, self.num_proc, length)

    def __iter__(self) -> Iterator[Any]:
        """Begin a pass.

        Raises:
            InputError: ``reset_state`` was not called, or another pass has not ended.
            DataWorkerError: A worker raised, died, or hangs.
            DataFlowTerminated: A worker died before.
        """
        with self._guard:
            yield from self._running().iterate()

    def close(self) -> None:
        """End the workers. They end with the flow, too, and with this process."""
        self._workers.end()

    def state_dict(self) -> dict[str, Any]:
        """Return the position of the flow in the worker, right after the point that was yielded last.

        Raises:
            StatelessError: There are several workers, or the flow has none.
        """
        position = self._one_stream().position()
        return make_state(self, ds=copy.deepcopy(position.state), skipped=position.skipped, is_over=position.is_over)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Send the flow in the worker to a position.

        Raises:
            StatelessError: There are several workers.
            InputError: The state is none of this flow; nothing was changed.
        """
        stream = self._one_stream()
        inner, skipped, is_over = read_state(self, state, "ds", "skipped", "is_over")
        stream.go_to(Position(inner, read_count(self, "skipped", skipped), read_flag(self, "is_over", is_over)))

    def end_pass(self) -> None:
        """Give up the rest of the newest pass, if there is one worker; passes of several have no rest."""
        if isinstance(self._stream, OneStream):
            self._stream.end_pass()

    def _running(self) -> OneStream | ManyStreams:
        self._workers.group()
        # The stream is there when the workers are.
        return self._stream  # type: ignore[return-value]

    def _one_stream(self) -> OneStream:
        stream = self._running()
        if not isinstance(stream, OneStream):
            raise StatelessError(
                f"{type(self).__name__} has no position with num_proc={self.num_proc}: the order of its data points "
                "depends on which process is faster; wanted num_proc=1"
            )
        return stream


class MultiProcessRunner(_ProcessRunner):
    """Run a flow in one or more processes, and yield what comes.

    With one process the data points are those of the flow, in its order, and passes are its passes; it can tell its
    position if the flow can. With more each process runs a copy of the whole flow, with other random numbers, and
    passes are cut from the mixture: each has the length of the flow, and the next goes on where it stopped. That is
    the same distribution, if the points of the flow are independent; if it is a list in its own order, each point
    comes from every process. If the flow does not know its length, a pass is one pass of each process together.

    ``reset_state`` starts the processes as new interpreters, or as forks (see ``start_workers_by``). An exception in
    one comes out as a `DataWorkerError`; the next pass is begun anew. A process that dies ends the iteration with its
    exit code. Arrays of 64 KiB and more are views of memory that is shared with the worker, which uses it again when
    they are gone.
    """

    def __init__(self, ds: DataFlow, num_prefetch: int, num_proc: int, *, timeout: float | None = None) -> None:
        """Make the flow.

        Args:
            ds: the flow; it is pickled, so what cannot be is to be made in its ``reset_state``.
            num_prefetch: how many data points may wait, of all processes; fewer if they are large, and a few more if
                they are small.
            num_proc: the number of processes.
            timeout: after how many seconds without a data point, while one is waited for, a process is taken to hang; a
                minute more while it starts.

        Raises:
            ConfigError: A number is less than 1, or the timeout is no number.
        """
        num_prefetch = check_at_least(self, "num_prefetch", num_prefetch)
        super().__init__(ds, num_proc, -(-num_prefetch // max(1, num_proc)), timeout)


class MultiProcessRunnerZMQ(_ProcessRunner):
    """The same as `MultiProcessRunner` with another way to say how much may wait; it needs no ZeroMQ.

    It has its name from tensorpack, where it was the faster of the two.
    """

    def __init__(self, ds: DataFlow, num_proc: int = 1, hwm: int = 50, *, timeout: float | None = None) -> None:
        """Make the flow.

        Args:
            ds: the flow; it is pickled, so what cannot be is to be made in its ``reset_state``.
            num_proc: the number of processes.
            hwm: how many data points may wait, of each process; fewer if they are large, and a few more if they are
                small.
            timeout: after how many seconds without a data point, while one is waited for, a process is taken to hang; a
                minute more while it starts.

        Raises:
            ConfigError: A number is less than 1, or the timeout is no number.
        """
        super().__init__(ds, num_proc, check_at_least(self, "hwm", hwm), timeout)
