"""The rest of an epoch dealt out anew, where other workers go on than those that were interrupted.

W workers have each taken some points of `ShardData`, and V are to take the others: each point once. What a worker
saved is a position of its whole flow, which may have been read ahead: a state that it had, and how many points were
taken since. So the flow of each former worker is gone through again from that state, in this process and with nothing
read ahead. Then its share stands right after the last point that was used. As all workers use the same number of
points, that is the same place in the data for all of them, and the new workers begin there.
"""

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from tpack.dataflow.base import DataFlow, ProxyDataFlow, close_flow, flows_in
from tpack.dataflow.batch import BatchData
from tpack.dataflow.checkpoint import Position, go_to
from tpack.dataflow.images import AugmentImageComponent, AugmentImageComponents, AugmentImageCoordinates
from tpack.dataflow.iterator_state import StatelessError, close_iterator, make_state
from tpack.dataflow.parallel.map_flow import MapFlow
from tpack.dataflow.parallel.process_runner import MultiProcessRunner, MultiProcessRunnerZMQ
from tpack.dataflow.repeat import FixedSizeData, RepeatedData
from tpack.dataflow.shard import ShardData, shards_in
from tpack.utils import logger, serialize
from tpack.utils.validation import check_arguments

# Above the share these keep no point back that one worker has and the others do not.
_PASSING_ON = (
    AugmentImageComponent,
    AugmentImageComponents,
    AugmentImageCoordinates,
    BatchData,
    FixedSizeData,
    RepeatedData,
)
_AHEAD = (MapFlow, MultiProcessRunner, MultiProcessRunnerZMQ)


@check_arguments
def reshard(ds: DataFlow, positions: Sequence[Position], rank: int, size: int) -> Position:
    """Return where one of some workers begins, so that together they take what others have left.

    The flow is reset and iterated; it has to be reset before it is iterated again.

    Args:
        ds: the flow, in which one `ShardData` is.
        positions: where the former workers were in theirs, by their ranks.
        rank: the number of the worker that begins.
        size: how many there are now.

    Raises:
        StatelessError: There is no `ShardData` or there are several, or a flow above it keeps points back, which would
            be those of one of the former workers.
        InputError: A position is none of this flow.
        ConfigError: The data cannot be dealt out among so many.
    """
    shards = shards_in(ds)
    if len(shards) != 1:
        raise StatelessError(
            f"{len(positions)} workers had read {type(ds).__name__}, and their rest cannot be dealt out to {size}: it "
            f"has {len(shards)} ShardData in it, expected one"
        )
    (shard,) = shards
    chain = _without_reading_ahead(ds, lambda flow: isinstance(flow, ShardData))
    try:
        ends = [_gone_through(chain, shard, position, k, len(positions)) for k, position in enumerate(positions)]
        chosen = _chosen(ends, rank)
        # The last one that was gone through stands at its end; another one is gone through again.
        _gone_through(chain, shard, positions[chosen], chosen, len(positions))
        shard.take_place(rank, size)
        return Position(chain.state_dict())
    finally:
        shard.take_place(rank, size)
        close_flow(shard.ds)


def fit_to_batches(ds: DataFlow, position: Position) -> Position:
    """Return the same place in the data for a flow that makes batches of another size than when it told its position.

    A position counts batches since the state in it, and so has to be one of the same batches. The flow is reset and
    iterated, if it makes others; it has to be reset before it is iterated again.

    Args:
        ds: the flow.
        position: a position of it, as an earlier run told it.

    Raises:
        StatelessError: What is above the batches keeps some of them back, which are of the other size.
        InputError: The position is none of this flow.
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
    """Return the batch sizes that a state tells; None for one that does not tell its own."""
    if isinstance(state, list | tuple):
        return [size for part in state for size in _saved_sizes(part)]
    if not isinstance(state, Mapping):
        return []
    own = [state.get("batch_size")] if state.get("flow") == BatchData.__name__ else []
    return own + _saved_sizes(list(state.values()))


def _gone_through(chain: DataFlow, shard: ShardData, position: Position, rank: int, size: int) -> tuple[int, bytes]:
    """Send a flow to where a former worker was; return how many points it had taken, and its place in the data."""
    shard.take_place(rank, size)
    chain.reset_state()
    close_iterator(go_to(chain, position))
    state = shard.state_dict()
    return shard.num_taken, serialize.dumps([state["ds"], state["is_over"]])


def _chosen(ends: Sequence[tuple[int, bytes]], rank: int) -> int:
    """Return which former worker a new one goes on from: any if they were at the same place, else the last of them."""
    if len(set(ends)) == 1:
        # What stands above the share, such as generators, is that of different workers where it can be.
        return rank % len(ends)
    taken = [num for num, _ in ends]
    if min(taken) < max(taken):
        logger.warning(
            f"The workers had not used the same number of data points, but {min(taken)} to {max(taken)}: what is "
            "dealt out anew begins where the last of them was, so that some come twice."
        )
        return taken.index(min(taken))
    raise StatelessError(
        "the workers had used the same number of data points and were at different places in the data: what is below "
        "ShardData was not the same in all, and its rest cannot be dealt out"
    )


def _without_reading_ahead(ds: DataFlow, is_end: Callable[[DataFlow], bool]) -> DataFlow:
    """Return a flow like another one, that has taken no more points than it has yielded, in batches as they were.

    Args:
        ds: the flow.
        is_end: tells of which flow on the same is used.

    Raises:
        StatelessError: It keeps points back, or nobody knows whether it does.
    """
    if is_end(ds):
        return ds
    if isinstance(ds, _AHEAD):
        return _InLine(ds, _without_reading_ahead(ds.ds, is_end))
    keeps_state = type(ds).state_dict is not ProxyDataFlow.state_dict
    if not isinstance(ds, ProxyDataFlow) or (keeps_state and type(ds) not in _PASSING_ON):
        raise StatelessError(
            f"what {type(ds).__name__} keeps back belongs to one worker, and cannot be dealt out anew: put it below "
            "ShardData"
        )
    alike = ds.in_saved_batches() if isinstance(ds, BatchData) else copy.copy(ds)
    alike.ds = _without_reading_ahead(ds.ds, is_end)
    return alike


class _InLine(ProxyDataFlow):
    """A flow that reads ahead, done in this thread: it tells and takes the states of that one.

    Args:
        original: the flow.
        ds: what it wraps.
    """

    def __init__(self, original: DataFlow, ds: DataFlow) -> None:
        super().__init__(ds)
        self._original = original
        self._func: Callable[[Any], Any] | None = original.map_func if isinstance(original, MapFlow) else None
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
        """Return the position as the flow itself would tell it."""
        return make_state(self._original, ds=self.ds.state_dict(), skipped=0, is_over=False)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go to the position at once."""
        self._rest = go_to(self.ds, Position.from_state(self._original, state))
