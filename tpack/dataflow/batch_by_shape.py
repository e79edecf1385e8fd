"""Batches of data points of one shape, for flows whose data points are of several."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from tpack.dataflow.aggregate import aggregate
from tpack.dataflow.base import DataFlow, ProxyDataFlow
from tpack.dataflow.checks import check_at_least
from tpack.dataflow.guard import DataFlowReentrantGuard
from tpack.dataflow.held import freeze_points, thaw_points
from tpack.dataflow.state import make_state, read_state
from tpack.errors import DataPointError, InputError


class BatchDataByShape(ProxyDataFlow):
    """Yield batches of data points in which one component has the same shape.

    Points wait until there are enough of their shape, also from one pass to the next. Those of a rare shape may wait
    for ever: there should be few shapes. Only one pass at a time is allowed. Its position includes the points that
    wait.
    """

    def __init__(self, ds: DataFlow, batch_size: int, idx: int | str) -> None:
        """Make the flow.

        Args:
            ds: a flow of lists, tuples or dicts.
            batch_size: the number of data points of a batch.
            idx: the component whose shape matters: its place, or its key in a dict.

        Raises:
            ConfigError: The batch size is less than 1.
        """
        super().__init__(ds)
        self.batch_size = check_at_least(self, "batch_size", batch_size)
        self.idx = idx
        self._guard = DataFlowReentrantGuard(type(self).__name__)
        self._waiting: dict[tuple[int, ...], list[Any]] = {}

    def __len__(self) -> int:
        """Return how many batches a pass makes on average if no point waits for ever; one may make less or more."""
        return len(self.ds) // self.batch_size

    def reset_state(self) -> None:
        """Reset the wrapped flow and forget the points that wait."""
        super().reset_state()
        self._waiting = {}

    def __iter__(self) -> Iterator[Any]:
        """Begin a pass.

        Raises:
            InputError: Another pass has not ended.
            DataPointError: A data point has no such component, or those of a batch differ in other components.
        """
        with self._guard:
            for number, point in enumerate(self.ds):
                shape = self._shape_of(point, f"data point {number}")
                group = self._waiting.setdefault(shape, [])
                group.append(point)
                if len(group) == self.batch_size:
                    del self._waiting[shape]
                    yield aggregate(group)

    def state_dict(self) -> dict[str, Any]:
        """Return the position of the wrapped flow and the points that wait.

        Raises:
            StatelessError: A point that waits cannot be serialized, or the wrapped flow cannot tell its position.
        """
        waiting = [point for group in self._waiting.values() for point in group]
        return make_state(self, ds=self.ds.state_dict(), points=freeze_points(self, waiting))

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go to a position.

        Raises:
            InputError: The state is of another kind of flow or of larger batches; nothing was changed.
        """
        inner, frozen = read_state(self, state, "ds", "points")
        waiting: dict[tuple[int, ...], list[Any]] = {}
        for number, point in enumerate(thaw_points(self, frozen)):
            waiting.setdefault(self._shape_of(point, f"data point {number} of a state"), []).append(point)
        longest = max(map(len, waiting.values()), default=0)
        if longest >= self.batch_size:
            raise InputError(
                f"the state of a BatchDataByShape has {longest} data points of one shape that wait for a batch of "
                f"{self.batch_size}: it was saved with larger batches"
            )
        self.ds.load_state_dict(inner)
        self._waiting = waiting

    def _shape_of(self, point: Any, name: str) -> tuple[int, ...]:
        """Return the shape that a point is grouped by."""
        if not isinstance(point, (list, tuple, Mapping)):
            raise DataPointError(f"{name} is a {type(point).__name__}: wanted a list, a tuple or a dict")
        try:
            return np.shape(point[self.idx])  # type: ignore[index]
        except (LookupError, TypeError, ValueError) as error:
            raise DataPointError(f"{name} has no component {self.idx!r} with a shape: {error}") from error
