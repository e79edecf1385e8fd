"""Comparison of the workers' data: their length before the first step, and each pass over a `ShardData` after it.

A flow that is shorter in one worker is repeated there earlier, so the workers make equally many steps and nothing
fails, while some points train twice and others never. Flows below a `ShardData` have to be the same in all workers: a
difference is an error. Workers with data of their own may have more or fewer, which the log of the chief reports.
"""

import json
from collections.abc import Sequence
from typing import Any
from zlib import crc32

from tpack.callbacks.base import LONG_WAIT_SECS, Callback
from tpack.dataflow.base import flows_in, length_or_none
from tpack.dataflow.shard import shards_in
from tpack.dataflow.sources import DataFromList
from tpack.errors import ClusterError
from tpack.input_source.base import InputSource
from tpack.input_source.proxy import ProxyInput
from tpack.input_source.resumable import ResumableInput
from tpack.types import Peers
from tpack.utils import logger

_SOME_POINTS = 1000
"""The most points of a list that are compared."""
_REPEATED = (
    "All make the same steps, so shorter data are repeated more often. Use ShardData over the same data in all for "
    "equal shares."
)


def facts_of_shards(source: InputSource) -> dict[str, Any]:
    """Return the lengths of the flows below each `ShardData` of a source, and checksums of their lists of names."""
    facts: dict[str, Any] = {}
    for number, shard in enumerate(shards_in(source.dataflow) if source.dataflow is not None else ()):
        what = f"the data below ShardData {number + 1}"
        facts[f"{what}: points"] = length_or_none(shard.ds)
        for each in flows_in(shard.ds):
            if isinstance(each, DataFromList) and (checksum := _checksum(each)) is not None:
                facts[f"{what}: checksum of a list"] = checksum
    return facts


def _checksum(flow: DataFromList) -> int | None:
    """Return the checksum of some points of a list in its own order; None if they are not names or numbers."""
    count = len(flow)
    try:
        points = [flow.lst[place] for place in range(0, count, max(1, count // _SOME_POINTS))]
        return crc32(json.dumps(points).encode())
    except (TypeError, ValueError):
        return None


def report_lengths(source: InputSource, peers: Peers) -> bool:
    """Warn, in the chief, of data of the workers' own that are of different lengths; return whether they are."""
    flow = source.dataflow
    try:
        size = None if flow is not None and shards_in(flow) else source.size()
    except NotImplementedError:
        size = None
    sizes = peers.gather("the size of their data", size)
    known = [each for each in sizes if each is not None]
    # Shares that differ by one are those of data whose length is no multiple of the number of workers.
    is_uneven = bool(known) and max(known) > min(known) + 1
    if is_uneven and peers.rank == 0:
        logger.warning(f"The workers' data have different numbers of batches: {_of_each(sizes)}. {_REPEATED}")
    return is_uneven


class PassCheck(Callback):
    """Compare the passes that the workers have made over their data, after the steps of an epoch.

    Below a `ShardData` another number of points is an error, unless the flow is read in other processes, or the run was
    resumed within a pass. Elsewhere the chief warns once of data that end after other numbers of batches.

    Args:
        source: the data of this worker.
        peers: the workers.
        has_warned: whether their lengths are known to differ.
    """

    _chief_only = False

    def __init__(self, source: InputSource, peers: Peers, *, has_warned: bool) -> None:
        while isinstance(source, ProxyInput):
            source = source.input
        self._source = source
        self._shards = [] if source.dataflow is None else shards_in(source.dataflow)
        self._peers = peers
        self._has_warned = has_warned

    def _after_epoch(self) -> None:
        size = self._source.size_of_pass if isinstance(self._source, ResumableInput) else None
        own = [size, [shard.passes_made() for shard in self._shards]]
        told = self._peers.gather("the passes over their data", own, timeout_secs=LONG_WAIT_SECS)
        sizes, of_shards = zip(*told, strict=True)
        for passes in zip(*of_shards, strict=True):
            if (difference := first_other_pass(passes)) is not None:
                raise ClusterError(
                    f"the workers' data below ShardData differ, found after step {self.global_step}: {difference}; "
                    "expected the same data points in all workers, so that all read the same number"
                )
        known = [each for each in sizes if each is not None]
        if self._peers.rank == 0 and not self._has_warned and known and max(known) > min(known) + 1:
            self._has_warned = True
            logger.warning(f"The workers' data end after different numbers of batches: {_of_each(sizes)}. {_REPEATED}")


def first_other_pass(passes: Sequence[tuple[Sequence[Sequence[int]], int] | None]) -> str | None:
    """Return the first pass that has another number of data points in a worker, with the numbers; None if none has.

    Args:
        passes: of each worker, as `ShardData.passes_made` returns them.
    """
    if any(each is None for each in passes):
        return None
    runs = [[list(run) for run in each[0]] for each in passes if each is not None]
    taken = [each[1] for each in passes if each is not None]
    number = 1
    while all(runs):
        sizes = [own[0][0] for own in runs]
        if len(set(sizes)) > 1:
            return f"pass {number} has {_of_each(sizes)} as its share"
        count = min(own[0][1] for own in runs)
        number += count
        for own in runs:
            own[0][1] -= count
            if not own[0][1]:
                own.pop(0)
    # Some are still in this pass, which others have finished: they may have taken at most as much.
    least = min((own[0][0] for own in runs if own), default=None)
    if least is None or all(own or count <= least for own, count in zip(runs, taken, strict=True)):
        return None
    found = [f"{own[0][0]}" if own else f"{count} or more" for own, count in zip(runs, taken, strict=True)]
    return f"pass {number} has {_of_each(found)} as its share"


def _of_each(values: Sequence[Any]) -> str:
    return ", ".join(f"{'?' if value is None else value} in worker {rank}" for rank, value in enumerate(values))
