"""Every flow, by name, with what the contract suites need to know of it."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from tests.helpers.flows import COUNT, generate, picture, same, twice, widen
from tests.helpers.foreign import Loader
from tests.helpers.stored_flows import FLOWS as STORED
from tests.helpers.stored_flows import UNSIZED_FLOWS as UNSIZED
from tpack.dataflow.adapters import AdaptedData
from tpack.dataflow.arrays import DataFromArrays
from tpack.dataflow.base import DataFlow, ProxyDataFlow
from tpack.dataflow.batch import BatchData, BatchDataByShape
from tpack.dataflow.cache import CacheData
from tpack.dataflow.combine import ConcatData, JoinData, RandomChooseData, RandomMixData
from tpack.dataflow.inspect import PrintData, TestDataSpeed
from tpack.dataflow.local_shuffle import LocallyShuffleData
from tpack.dataflow.mapping import FlatMapData, MapData, MapDataComponent, SelectComponent
from tpack.dataflow.mixup import CutMix, MixUp
from tpack.dataflow.repeat import FixedSizeData, RepeatedData, RepeatedDataPoint
from tpack.dataflow.shard import ShardData
from tpack.dataflow.sources import DataFromGenerator, DataFromIterable, DataFromList, FakeData

POINTS = [[k, str(k)] for k in range(COUNT)]


@dataclass(frozen=True)
class Member:
    """How to make a flow, and what its passes are like."""

    make: Any
    """A function that makes the flow; for a wrapper one that takes the flow to wrap."""
    length: int | None
    """The number of points of a pass; None where passes differ in length."""
    has_len: bool = True
    """Whether ``len(flow)`` is that number."""
    needs_len: bool = False
    """Whether it cannot be made around a flow of unknown length."""


def short():
    """Return a shuffled flow that is shorter than the others."""
    return DataFromList(POINTS[:4])


# A wrapper is given a flow of COUNT data points ``[k, str(k)]``.
SOURCES = {
    "list": Member(lambda: DataFromList(POINTS, shuffle=False), COUNT),
    "shuffled list": Member(lambda: DataFromList(POINTS), COUNT),
    "shuffled arrays": Member(lambda: DataFromArrays((np.arange(COUNT), np.arange(COUNT).astype(str))), COUNT),
    "iterable": Member(lambda: DataFromIterable(POINTS), COUNT),
    "generator": Member(lambda: DataFromGenerator(generate), COUNT, has_len=False),
    "generator of an iterable": Member(lambda: DataFromGenerator(POINTS), COUNT, has_len=False),
    "fake": Member(lambda: FakeData([(2, 3), ()], size=COUNT), COUNT),
    "same fake": Member(lambda: FakeData([(2, 3)], size=COUNT, random=False), COUNT),
    "adapted list": Member(lambda: AdaptedData(POINTS), COUNT),
    "adapted loader": Member(lambda: AdaptedData(Loader()), COUNT),
    **{name: Member(make, COUNT) for name, make in STORED.items()},
    **{name: Member(make, COUNT, has_len=False) for name, make in UNSIZED.items()},
}
WRAPPERS = {
    "proxy": Member(ProxyDataFlow, COUNT),
    "batch": Member(lambda ds: BatchData(ds, 3), 2),
    "batch with remainder": Member(lambda ds: BatchData(ds, 3, remainder=True), 3),
    "batch of lists": Member(lambda ds: BatchData(ds, 3, use_list=True), 2),
    "map": Member(lambda ds: MapData(ds, same), COUNT),
    "flat map": Member(lambda ds: FlatMapData(ds, twice), 2 * COUNT, has_len=False),
    "map component": Member(lambda ds: MapDataComponent(ds, str, 0), COUNT),
    "repeat": Member(lambda ds: RepeatedData(ds, 2), 2 * COUNT),
    "shorter": Member(lambda ds: FixedSizeData(ds, 5), 5),
    "longer": Member(lambda ds: FixedSizeData(ds, 10), 10),
    "longer, anew": Member(lambda ds: FixedSizeData(ds, 10, keep_state=False), 10),
    "speed": Member(lambda ds: TestDataSpeed(ds, 5), COUNT),
    "repeat points": Member(lambda ds: RepeatedDataPoint(ds, 3), 3 * COUNT),
    "cache": Member(CacheData, COUNT),
    "shuffled cache": Member(lambda ds: CacheData(ds, shuffle=True), COUNT),
    "blended batches": Member(lambda ds: MixUp(BatchData(MapData(ds, picture), 3), num_classes=7), 2),
    "batches with boxes": Member(lambda ds: CutMix(BatchData(MapData(ds, picture), 3), num_classes=7), 2),
    "select": Member(lambda ds: SelectComponent(ds, [1, 0, 1]), COUNT),
    "print": Member(lambda ds: PrintData(ds, num=2), COUNT),
    "concat": Member(lambda ds: ConcatData([ds, short()]), COUNT + 4),
    "concat, other order": Member(lambda ds: ConcatData([short(), ds]), COUNT + 4),
    "join": Member(lambda ds: JoinData([short(), ds]), 4),
    "join, other order": Member(lambda ds: JoinData([ds, short()]), 4),
    "mix": Member(lambda ds: RandomMixData([ds, short()]), COUNT + 4, needs_len=True),
    "choose": Member(lambda ds: RandomChooseData([(ds, 0.7), (short(), 0.3)]), None, has_len=False),
    "by shape": Member(lambda ds: BatchDataByShape(MapData(ds, widen), 2, 0), None, has_len=False),
    "shard": Member(lambda ds: ShardData(ds, 1, 3), -(-COUNT // 3)),
    "shard without remainder": Member(lambda ds: ShardData(ds, 3, 4, remainder="drop"), COUNT // 4),
    "shard with less": Member(lambda ds: ShardData(ds, 3, 4, remainder="keep"), COUNT // 4),
    "part of a local shuffle": Member(lambda ds: FixedSizeData(LocallyShuffleData(ds, 4, 2), 9), 9),
}
# Wrappers of wrappers, where a position has several parts.
CHAINS = {
    "batches over repeated fakes": Member(
        lambda: BatchData(RepeatedData(MapData(FakeData([(2,)], COUNT), same), 2), 4, remainder=True), 4
    ),
    "parts of shuffled passes": Member(lambda: FixedSizeData(DataFromList(POINTS), 5), 5),
    "beginnings of shuffled passes": Member(lambda: FixedSizeData(DataFromList(POINTS), 5, keep_state=False), 5),
    "beginnings of fake passes": Member(
        lambda: FixedSizeData(FakeData([(2,)], COUNT, random=False), 5, keep_state=False), 5
    ),
    "beginnings of caches": Member(
        lambda: FixedSizeData(CacheData(DataFromList(POINTS), shuffle=True), 10, keep_state=False), 10
    ),
    "short ends of caches": Member(
        lambda: FixedSizeData(CacheData(DataFromList(POINTS), shuffle=True), 3, keep_state=False), 3
    ),
    "joined mixes": Member(
        lambda: JoinData([RandomMixData([DataFromList(POINTS), short()]), RepeatedDataPoint(short(), 2)]), 8
    ),
    "joined concats": Member(
        lambda: JoinData([short(), ConcatData([DataFromList(POINTS[:2]), DataFromList(POINTS)])]), 4
    ),
    "batches of what files hold": Member(
        lambda: BatchData(FlatMapData(ShardData(DataFromList(POINTS), 0, 2), twice), 3, remainder=True),
        -(-2 * -(-COUNT // 2) // 3),
        has_len=False,
    ),
    "batches of a share": Member(
        lambda: BatchData(ShardData(DataFromList(POINTS), 0, 2), 3, remainder=True), -(-COUNT // 6)
    ),
    "chosen batches": Member(
        lambda: RandomChooseData([BatchData(DataFromList(POINTS), 2, remainder=True), JoinData([short(), short()])]),
        None,
        has_len=False,
    ),
    "shuffled tuples": Member(
        lambda: FixedSizeData(LocallyShuffleData(DataFromList([tuple(point) for point in POINTS]), 3), 6), 6
    ),
}


def shuffled():
    """Return what wrappers are tried on where positions matter."""
    return DataFromList([[np.int64(k), str(k)] for k in range(COUNT)])


def wrapped(inner):
    """Return the members for WRAPPERS, each around a flow that ``inner`` makes."""
    return {
        name: Member(lambda wrap=member.make: wrap(inner()), member.length, member.has_len)
        for name, member in WRAPPERS.items()
    }


def flow_types():
    """Return all subclasses of DataFlow that are loaded."""
    found, new = set(), {DataFlow}
    while new:
        found |= new
        new = {sub for kind in new for sub in kind.__subclasses__()} - found
    return found
