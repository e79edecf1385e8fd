"""The rest of an epoch shared out again, when another number of workers continues.

W workers have each taken some points of `ShardData`, and V shall take the others, each point once. A saved position may
have been read ahead: a state, and the number of points taken since. So the flow of each former worker is iterated again
from there, without reading ahead, until its share is right after the last point used: one place in the data for all.
"""

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from tpack.dataflow.base import DataFlow, ProxyDataFlow, close_flow, flows_in, holds_back
from tpack.dataflow.batch import BatchData
from tpack.dataflow.checkpoint import Position, go_to
from tpack.dataflow.iterator_state import StatelessError, close_iterator, make_state
from tpack.dataflow.shard import ShardData, shards_in
from tpack.utils import logger, serialize
from tpack.utils.validation import check_arguments


@check_arguments
def reshard(ds: DataFlow, positions: Sequence[Position], rank: int, size: int) -> Position:
    """Return the position from which one of some workers continues, so that together they take what others have left.

    The flow, with one `ShardData` in it, is reset and iterated, and must be reset before it is iterated again.

    Raises:
        StatelessError: There is not exactly one `ShardData`, or a flow above it holds points back, of one former
            worker.
        InputError: A position is not one of this flow.
        ConfigError: The data cannot be dealt out to this number of workers.
    """
    shards = shards_in(ds)
    if len(shards) != 1:
        raise StatelessError(
            f"the data that {len(positions)} workers left of {type(ds).__name__} cannot be shared out to {size}: "
            f"expected one ShardData in it, not {len(shards)}"
        )
    (shard,) = shards
    chain = _without_reading_ahead(ds, lambda flow: isinstance(flow, ShardData))
    try:
        ends = [_gone_through(chain, shard, position, k, len(positions)) for k, position in enumerate(positions)]
        chosen = _chosen(ends, rank)
        # The flow is at the end of the last one.
        _gone_through(chain, shard, positions[chosen], chosen, len(positions))
        shard.take_place(rank, size)
        return Position(chain.state_dict())
    finally:
        shard.take_place(rank, size)
        close_flow(shard.ds)


def fit_to_batches(ds: DataFlow, position: Position) -> Position:
    """Return the same place in the data for a flow that makes batches of another size than in its saved position.

    If the sizes differ, the flow is reset and iterated, and must be reset before it is iterated again.

    Raises:
        StatelessError: A flow above the batches holds some of them back, which are of the other size.
        InputError: The position is not one of this flow.
    """
    saved, own = _saved_sizes(position.state), [flow.batch_size for flow in _batches_in(ds)]
    if None in saved or sorted(saved) == sorted(own):
        return position
    chain = _without_reading_ahead(ds, lambda flow: not _batches_in(flow))
    try:
        chain.reset_state()
        close_iterator(go_to(chain, position))
        return Position(chain.state_dict())
    finally:
        close_flow(ds)


def _batches_in(ds: DataFlow) -> list[BatchData]:
    return [flow for flow in flows_in(ds) if isinstance(flow, BatchData)]


def _saved_sizes(state: object) -> list[Any]:
    """Return the batch sizes in a state; None for a state without its own."""
    if isinstance(state, list | tuple):
        return [size for part in state for size in _saved_sizes(part)]
    if not isinstance(state, Mapping):
        return []
    own = [state.get("batch_size")] if state.get("flow") == BatchData.__name__ else []
    return own + _saved_sizes(list(state.values()))


def _gone_through(chain: DataFlow, shard: ShardData, position: Position, rank: int, size: int) -> tuple[int, bytes]:
    """Send a flow to the place of a former worker; return the number of points it had taken, and that place."""
    shard.take_place(rank, size)
    chain.reset_state()
    close_iterator(go_to(chain, position))
    state = shard.state_dict()
    return shard.num_taken, serialize.dumps([state["ds"], state["is_over"]])


def _chosen(ends: Sequence[tuple[int, bytes]], rank: int) -> int:
    """Return the former worker from which a new one continues: any at one place, else the last of them."""
    if len(set(ends)) == 1:
        # Generators and the like above the share are those of different workers where possible.
        return rank % len(ends)
    taken = [num for num, _ in ends]
    if min(taken) < max(taken):
        logger.warning(
            f"The workers had used different numbers of data points, {min(taken)} to {max(taken)}: the data continue "
            "from the smallest, so that some points come twice."
        )
        return taken.index(min(taken))
    raise StatelessError(
        "the workers had used the same number of data points at different places in the data: the flow below "
        "ShardData was not the same in all, and the rest cannot be shared out"
    )


def _without_reading_ahead(ds: DataFlow, is_end: Callable[[DataFlow], bool]) -> DataFlow:
    """Return a flow like another one, down to ``is_end``, that takes only the points it yields, in batches as before.

    A flow that holds points back, or does not declare that it holds none, is refused.
    """
    if is_end(ds):
        return ds
    if ds.reads_ahead and isinstance(ds, ProxyDataFlow):
        return _InLine(ds, _without_reading_ahead(ds.ds, is_end))
    if not isinstance(ds, ProxyDataFlow) or holds_back(ds):
        raise StatelessError(
            f"{type(ds).__name__} holds back points of one worker, and the rest of the epoch cannot be shared out "
            "again: put it below ShardData, or declare holds_nothing_back = True in its class if it holds none"
        )
    alike = ds.in_saved_batches() if isinstance(ds, BatchData) else copy.copy(ds)
    alike.ds = _without_reading_ahead(ds.ds, is_end)
    return alike


class _InLine(ProxyDataFlow):
    """Single-threaded stand-in for a flow that reads ahead, around another ``ds``, with the same state format."""

    def __init__(self, original: DataFlow, ds: DataFlow) -> None:
        super().__init__(ds)
        self._original = original
        self._func: Callable[[Any], Any] | None = getattr(original, "map_func", None)
        self._rest: Iterator[Any] | None = None

    def __iter__(self) -> Iterator[Any]:
        points, self._rest = self._rest, None
        for point in iter(self.ds) if points is None else points:
            mapped = point if self._func is None else self._func(point)
            if mapped is not None:
                yield mapped

    def reset_state(self) -> None:
        """Reset the wrapped flow and forget the position."""
        self._rest = None
        super().reset_state()

    def state_dict(self) -> dict[str, Any]:
        """Return the position in the format of the flow itself."""
        return make_state(self._original, ds=self.ds.state_dict(), skipped=0, is_over=False)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go to the position at once."""
        self._rest = go_to(self.ds, Position.from_state(self._original, state))
