"""Exchange of a bucket of dense gradients between workers: directly, in parts, or in two levels.

In two levels, W workers are G groups of g. Each group adds in parts, so that a worker has the sum of its group for one
part; the owners of that part in all groups exchange it in parts too; and in the group each hands it to the others. A
worker sends 2 ((g - 1) + (G - 1)) messages in place of 2 (W - 1), with as many bytes, in four hops in place of two.
Where W has no divisor near its square root, some groups have one worker more, which owns no part.
"""

import functools
import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

import tensorflow.compat.v1 as tf

from tpack.multi_worker.gradient_buckets import Route, cut, joined, num_pieces, parted
from tpack.multi_worker.worker_group import WorkerGroup
from tpack.reduction.sums import add_pair, divide, on_device, sum_tensors, widened, wider
from tpack.tower.grads import ReduceOp
from tpack.utils import logger

LevelChoice: TypeAlias = Literal[1, 2, "machines"] | None
Way: TypeAlias = Literal["directly", "in_parts", "in_two_levels"]
Groups: TypeAlias = tuple[tuple[int, ...], ...]
Noting: TypeAlias = Callable[[WorkerGroup, Sequence[tf.Tensor]], list[tf.Operation]]

# Of "Two levels" in docs/scaling.md: two and four processes on two cores. Each hop counts as much as
# all of an exchange's fixed time, so that two levels are not taken where they might be slower.
MESSAGE_SECS, HOP_SECS, SECS_PER_BYTE = 0.42e-3, 1.32e-3, 0.36e-9


def groups_of(group: WorkerGroup, levels: LevelChoice) -> Groups:
    """Return the groups of an exchange in two levels, as ranks; all workers in one for a single level.

    The machines are the groups if they are asked for, or if there are several, with as many workers each, and no choice
    was made. Otherwise a group has as many neighbours as the largest divisor of W up to its square root; or, if that is
    less than half of the square root, as the square root, and some have one more.

    Args:
        group: the workers.
        levels: see `Exchange`.
    """
    whole = whole_group(group.size)
    if levels == 1:
        return whole
    on_machine: dict[int, list[int]] = {}
    for rank, machine in enumerate(group.machines):
        on_machine.setdefault(machine, []).append(rank)
    machines = tuple(map(tuple, on_machine.values()))
    sizes = sorted({len(each) for each in machines})
    if levels != 2 and len(machines) > 1 and sizes[-1] > 1:
        if len(sizes) == 1:
            return machines
        if levels == "machines":
            logger.info(f"Machines have {sizes} workers, not equally many: gradients are exchanged in one level.")
    if levels == "machines":
        return whole
    root = math.isqrt(group.size)
    size = max(n for n in range(1, root + 1) if group.size % n == 0)
    size = size if 2 * size >= root else root
    if size == 1:
        return whole
    count = group.size // size
    ends = [number * size + min(number, group.size % size) for number in range(count + 1)]
    return tuple(tuple(range(begin, end)) for begin, end in itertools.pairwise(ends))


def takes_two_levels(size_bytes: int, groups: Groups, levels: LevelChoice) -> bool:
    """Return whether a bucket is exchanged in two levels.

    If they were asked for, it is, unless it goes directly with no more messages. If nothing was asked for, it is where
    messages, hops and bytes take less time.

    Args:
        size_bytes: the size of the bucket on the network.
        groups: those of `groups_of`.
        levels: see `Exchange`.
    """
    if len(groups) == 1:
        return False
    workers, size = sum(map(len, groups)), max(map(len, groups))
    messages = 2 * (size - 1 + len(groups) - 1) * num_pieces(size_bytes, num_owners(groups))
    route = Route.of_bucket(size_bytes, workers)
    hops = 1 if route.is_direct else 2
    messages_of_one = (workers - 1) * hops * route.num_chunks
    if levels is not None:
        return not route.is_direct or messages < messages_of_one
    sent = 2 * (workers - 1) / workers * size_bytes
    saved_bytes = (workers - 1) * size_bytes - sent if route.is_direct else 0.0
    saved_secs = (messages_of_one - messages) * MESSAGE_SECS + saved_bytes * SECS_PER_BYTE
    return saved_secs > (4 - hops) * HOP_SECS


def num_owners(groups: Groups) -> int:
    """Return the number of workers of each group that own a part, the first ones."""
    return min(map(len, groups))


def whole_group(workers: int) -> Groups:
    """Return all workers in one group, for a single level."""
    return (tuple(range(workers)),)


def groups_for(size_bytes: int, groups: Groups, levels: LevelChoice) -> Groups:
    """Return the groups of a bucket: those given where it takes two levels, otherwise all workers in one."""
    return groups if takes_two_levels(size_bytes, groups, levels) else whole_group(sum(map(len, groups)))


def way_of(size_bytes: int, groups: Groups) -> tuple[Way, int]:
    """Return how a bucket travels, and the number of pieces, each of which does so.

    Args:
        size_bytes: the size of the bucket on the network.
        groups: those of two levels; all workers in one for a single level.
    """
    if len(groups) > 1:
        return "in_two_levels", num_pieces(size_bytes, num_owners(groups))
    route = Route.of_bucket(size_bytes, len(groups[0]))
    return "directly" if route.is_direct else "in_parts", route.num_chunks


class Levels(NamedTuple):
    """Ranks with which a worker exchanges in two levels.

    Attributes:
        inside: its group.
        owners: those of its group that own a part.
        across: those of all groups that own its part; none if it owns no part.
    """

    inside: Sequence[int]
    owners: Sequence[int]
    across: Sequence[int]


def levels_of(rank: int, groups: Groups) -> Levels:
    """Return the ranks with which a worker exchanges in two levels."""
    inside = next(ranks for ranks in groups if rank in ranks)
    owners = inside[: num_owners(groups)]
    across = [ranks[inside.index(rank)] for ranks in groups] if rank in owners else []
    return Levels(inside, owners, across)


def note_nothing(group: WorkerGroup, arrived: Sequence[tf.Tensor]) -> list[tf.Operation]:
    """Return no operations for what has arrived; the default of `Bucket`."""
    return []


@dataclass(frozen=True)
class Bucket:
    """Dense gradients of one dtype: joined, exchanged, and split again.

    Attributes:
        group: the workers.
        op: sum or mean.
        name: that of the queues.
        dtype_on_wire: returns the dtype in which numbers of a dtype are sent.
        groups: those of two levels; all workers in one for a single level.
        is_copied: see `variables_change_in_place`.
        note_arrived: called with the group and a tensor for each rank, which is there when the worker's part has
            arrived, alone or in the sum of its group; returns operations to run.
        has_wide_sums: see `Exchange`; for a single level.
    """

    group: WorkerGroup
    op: ReduceOp
    name: str
    dtype_on_wire: Callable[[tf.DType], tf.DType]
    groups: Groups
    is_copied: bool
    note_arrived: Noting = note_nothing
    has_wide_sums: bool = False

    def reduce(self, grads: Sequence[tf.Tensor]) -> list[tf.Tensor]:
        """Reduce N tensors."""
        group, dtype = self.group, grads[0].dtype.base_dtype
        with on_device(group.device()):
            own = tf.cast(joined(grads, is_copied=self.is_copied), self.dtype_on_wire(dtype))
        size_bytes = int(own.shape.num_elements()) * own.dtype.size
        way, num_chunks = way_of(size_bytes, self.groups)
        ways = {"directly": self._directly, "in_parts": self._in_parts, "in_two_levels": self._in_two_levels}
        exchange = ways[way]
        chunks = [
            exchange(f"{self.name}/{number}", chunk, dtype)
            for number, chunk in enumerate(cut(own, num_chunks, group.device()))
        ]
        sums, sends = [each for chunk in chunks for each in chunk.sums], [op for chunk in chunks for op in chunk.sends]
        with on_device(group.device()):
            total = tf.cast(tf.concat(sums, axis=0), dtype)
            with tf.control_dependencies([*sends, *self.note_arrived(group, chunks[0].arrived)]):
                return parted(total, grads)

    def _directly(self, name: str, own: tf.Tensor, dtype: tf.DType) -> "_Chunk":
        """Send a vector to all workers and add theirs, as all of them do, in the order of the ranks."""
        group = self.group
        sends = [group.put(f"{name}/whole", o, [own]) for o in group.others]
        summands = [own if o == group.rank else self._take(f"{name}/whole", o, own) for o in range(group.size)]
        with on_device(group.device()):
            total = functools.reduce(add_pair, map(wider if self.has_wide_sums else widened, summands))
            return _Chunk([tf.cast(divide(total, self.op.divisor(group.size)), dtype)], sends, summands)

    def _in_parts(self, name: str, own: tf.Tensor, dtype: tf.DType) -> "_Chunk":
        """Send part o to worker o, add the W parts that are this worker's, and send the sum to all."""
        ranks = range(self.group.size)
        added = self._add_part(name, own, ranks, ranks, self.op.divisor(self.group.size))
        sums, sends = self._hand_out(name, added.total, added.parts, ranks, ranks)
        return _Chunk(sums, [*added.sends, *sends], added.summands)

    def _in_two_levels(self, name: str, own: tf.Tensor, dtype: tf.DType) -> "_Chunk":
        """Add a part in the group, exchange its sum with its owners in other groups, and hand it out in the group."""
        rank = self.group.rank
        inside, owners, across = levels_of(rank, self.groups)
        # A sum of 16 bits between the levels could be too large for them. Others are divided once, as in one level.
        divisor_inside = self.op.divisor(max(map(len, self.groups))) if own.dtype.size == 2 else 1
        divisor = self.op.divisor(self.group.size) / divisor_inside
        of_group = self._add_part(f"{name}/inside", own, inside, owners, divisor_inside)
        sends, whole = list(of_group.sends), None
        if rank in owners:
            of_all = self._add_part(f"{name}/across", of_group.total, across, across, divisor)
            pieces, more_sends = self._hand_out(f"{name}/across", of_all.total, of_all.parts, across, across)
            sends += [*of_all.sends, *more_sends]
            with on_device(self.group.device()):
                whole = tf.concat(pieces, axis=0)
        sums, more_sends = self._hand_out(f"{name}/inside", whole, of_group.parts, inside, owners)
        # Without a part of its own a worker gets the sums alone, which have all parts in them.
        of_groups = of_all.summands if rank in owners else [sums[0]] * len(self.groups)
        arrived = [own] * self.group.size
        for ranks, summand in zip(self.groups, of_groups, strict=True):
            for o in ranks:
                arrived[o] = summand
        for o, summand in zip(inside, of_group.summands or [sums[0]] * len(inside), strict=True):
            arrived[o] = own if o == rank else summand
        return _Chunk(sums, [*sends, *more_sends], arrived)

    def _add_part(
        self, name: str, own: tf.Tensor, ranks: Sequence[int], owners: Sequence[int], divisor: float
    ) -> "_Part":
        """Send a part of a vector to each owner; as one, add those that several workers send, in the order of ranks."""
        group = self.group
        parts = cut(own, len(owners), group.device())
        sends = [group.put(f"{name}/part", o, [part]) for o, part in zip(owners, parts, strict=True) if o != group.rank]
        if group.rank not in owners:
            return _Part(parts, (), own, sends)
        mine = parts[owners.index(group.rank)]
        summands = [mine if o == group.rank else self._take(f"{name}/part", o, mine) for o in ranks]
        with on_device(group.device()):
            added = [wider(each) for each in summands] if self.has_wide_sums else summands
            return _Part(parts, summands, tf.cast(sum_tensors(added, divisor), mine.dtype), sends)

    def _hand_out(
        self,
        name: str,
        total: tf.Tensor | None,
        parts: Sequence[tf.Tensor],
        ranks: Sequence[int],
        owners: Sequence[int],
    ) -> tuple[list[tf.Tensor], list[tf.Operation]]:
        """Send an owner's sum to the others; return those of all owners, each like its part, and the sends."""
        group = self.group
        sends = [] if total is None else [group.put(f"{name}/sum", o, [total]) for o in ranks if o != group.rank]
        sums = [
            self._take(f"{name}/sum", o, part) if total is None or o != group.rank else total
            for o, part in zip(owners, parts, strict=True)
        ]
        return sums, sends

    def _take(self, name: str, sender: int, like: tf.Tensor) -> tf.Tensor:
        (taken,) = self.group.take(name, sender, [like.dtype], [like.shape])
        with on_device(self.group.device()):
            return tf.identity(taken)


@dataclass(frozen=True)
class _Part:
    """The own part of a vector, added over several workers, and the parts of all owners.

    A worker that owns none has no summands, and its vector in place of the sum.
    """

    parts: Sequence[tf.Tensor]
    summands: Sequence[tf.Tensor]
    total: tf.Tensor
    sends: Sequence[tf.Operation]


@dataclass(frozen=True)
class _Chunk:
    """A piece of a bucket that has been exchanged."""

    sums: Sequence[tf.Tensor]
    sends: Sequence[tf.Operation]
    arrived: Sequence[tf.Tensor]
