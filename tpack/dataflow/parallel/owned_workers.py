"""The workers of a flow: started by its ``reset_state``, gone with it, left out when it is pickled."""

from typing import Any

from tpack.dataflow.base import DataFlowTerminated
from tpack.dataflow.parallel.members import GroupOptions
from tpack.dataflow.parallel.start_method import StartMethod, current_start_method
from tpack.dataflow.parallel.workers.bootstrap import Serve
from tpack.dataflow.parallel.workers.group import WorkerGroup
from tpack.errors import InputError
from tpack.utils.rng import get_rng

_SEEDS = 2**31


class OwnedWorkers:
    """The workers that one flow has, or has not yet."""

    def __init__(self, owner: Any, timeout: float | None) -> None:
        """Have none.

        Args:
            owner: the flow, whose name errors and processes have.
            timeout: for how many seconds a worker may say nothing.
        """
        self._owner = type(owner).__name__
        self._timeout = timeout
        self._start_method: StartMethod = current_start_method()
        self._group: WorkerGroup | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_group": None}

    def start(self, serve: Serve, arguments: tuple[Any, ...], *, count: int, results: int, jobs: int) -> WorkerGroup:
        """End the workers that there are, and start new ones.

        Args:
            serve: the function that they run.
            arguments: its arguments after the link.
            count: how many workers.
            results: how many data points of each may wait.
            jobs: how many data points for each may wait.
        """
        self.end()
        seed = int(get_rng(self).randint(_SEEDS))
        options = GroupOptions(count, results, jobs, self._timeout, self._start_method, seed)
        self._group = WorkerGroup(self._owner, serve, arguments, options)
        return self._group

    def end(self) -> None:
        """End the workers, if there are some."""
        if self._group is not None:
            self._group.close()

    def group(self) -> WorkerGroup:
        """Return the workers.

        Raises:
            InputError: They have never been started.
            DataFlowTerminated: They have been ended.
        """
        if self._group is None:
            raise InputError(f"{self._owner} has no workers yet: call reset_state() once before iterating it")
        if self._group.is_closed:
            raise DataFlowTerminated(f"the workers of {self._owner} have been ended: reset_state() starts new ones")
        return self._group
