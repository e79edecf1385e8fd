"""Data points put together into batches."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from tpack.dataflow.aggregate import aggregate
from tpack.dataflow.base import DataFlow, ProxyDataFlow, length_or_none
from tpack.dataflow.checks import check_at_least
from tpack.dataflow.passes import Passes
from tpack.dataflow.placed_points import begin_batch
from tpack.dataflow.state import make_state, read_flag, read_state
from tpack.errors import ConfigError


class BatchData(ProxyDataFlow):
    """Yield batches: data points like those of ``ds``, whose components have one more dimension, the first.

    See ``tpack.dataflow.aggregate`` for what a batch of each type is. Unlike in tensorpack, components of unlike dtype
    are refused, where the dtype of the first would decide and cut the others' digits off.
    """

    def __init__(self, ds: DataFlow, batch_size: int, remainder: bool = False, use_list: bool = False) -> None:
        """Make the flow.

        Args:
            ds: a flow of lists, tuples or dicts.
            batch_size: the number of data points of a batch.
            remainder: whether the last batch of a pass, which may be smaller, is yielded; otherwise it is dropped.
            use_list: whether components of a batch are lists and not arrays, so that they may be of unlike shapes.

        Raises:
            ConfigError: The batch size is less than 1; or without ``remainder`` it is more than the length of ``ds``,
                so that there would be no batch at all.
        """
        super().__init__(ds)
        self.batch_size = check_at_least(self, "batch_size", batch_size)
        self.remainder = remainder
        self.use_list = use_list
        # Whether all data points were taken from ``ds``, and only the smaller batch of the last ones was left.
        self._passes: Passes[bool] = Passes(False)
        length = length_or_none(ds)
        if length is not None and length < self.batch_size and not remainder:
            raise ConfigError(
                f"BatchData got batch_size={batch_size} and a flow of {length} data points: it would yield nothing; "
                "use a smaller one, or remainder=True"
            )

    def __len__(self) -> int:
        full, rest = divmod(len(self.ds), self.batch_size)
        return full + int(self.remainder and rest > 0)

    def __iter__(self) -> Iterator[Any]:
        for points, first_index in self.groups(None if self.use_list else begin_batch):
            batches = [aggregate(points, use_list=self.use_list, first_index=first_index)]
            # Neither the points nor the batch are kept here while the next is gathered: their memory is used again.
            del points
            yield batches.pop()

    def groups(self, begin: Callable[[Any, int], list[Any]] | None = None) -> Iterator[tuple[list[Any], int]]:
        """Begin a pass, and yield the data points of each batch, which is not made, and the index of the first.

        Args:
            begin: called with the first point and the batch size to get the list that they are gathered in; a plain
                one unless given.
        """
        one = self._passes.begin()
        held: list[Any] = []
        first_index = 0
        for point in () if one.value else self.ds:
            if not held:
                held = [] if begin is None else begin(point, self.batch_size)
            held.append(point)
            if len(held) == self.batch_size:
                yield held, first_index
                first_index += len(held)
                held = []
        if held and self.remainder:
            one.value = True
            yield held, first_index
        self._passes.end(one)

    def reset_state(self) -> None:
        """Reset the wrapped flow and forget the position."""
        super().reset_state()
        self._passes.reset()

    def state_dict(self) -> dict[str, Any]:
        """Return the position of the wrapped flow, and whether its last points were yielded as a smaller batch."""
        return make_state(self, ds=self.ds.state_dict(), is_over=self._passes.value)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go to a position.

        Raises:
            InputError: The state is of another kind of flow; nothing was changed.
        """
        inner, is_over = read_state(self, state, "ds", "is_over")
        is_over = read_flag(self, "is_over", is_over)
        self.ds.load_state_dict(inner)
        self._passes.go_to(is_over)

    def end_pass(self) -> None:
        """Give up the rest of the newest pass."""
        self._passes.reset()
        self.ds.end_pass()

    @staticmethod
    def aggregate_batch(data_holder: Sequence[Any], use_list: bool = False) -> Any:
        """Make a batch of a list of data points, as ``tpack.dataflow.aggregate.aggregate`` does."""
        return aggregate(data_holder, use_list=use_list)
