"""Pack many gradients of a tower into few vectors, reduce those, and unpack them.

A packer groups gradients. The members of a group have one dtype and are concatenated on the device of the first; a
group of one is left as it is. There are three packers: all gradients of a tower in packs of one size
(`ConcatAndSplitPacker`), runs of small ones (`AggregateSmallTensorPacker`), and those that become ready together
(`BucketPacker`).

Each packer has a reducer. It calls the inner reducer once, with the packs of all groups, so that algorithms with a
fixed launch order see all of them.
"""

import abc
from collections.abc import Callable, Sequence
from typing import TypeAlias

import tensorflow.compat.v1 as tf

from tpack.errors import ReductionError
from tpack.reduction.base import Reducer, ReducerWrapper
from tpack.reduction.chunking import concat_flat, cut, split_flat
from tpack.reduction.gradients import check_columns, transposed
from tpack.reduction.sums import on_device_of
from tpack.tower.grads import Column, Gradient, ReduceOp, is_sparse, static_bytes
from tpack.types import GradsAndVars
from tpack.utils.validation import check_arguments, check_count

Groups: TypeAlias = Sequence[Sequence[int]]
"""The indices of the columns of each group; each column is in exactly one."""


class TensorPacker(abc.ABC):
    """A packer of the (gradient, variable) lists of K towers.

    `unpack` is for the last lists that `pack` packed; the other methods use only the settings. A subclass defines
    `group`; it overrides `_pack_group`, `_unpack_group` and `_packs_per_group` if a group becomes several packs.
    """

    _packs_per_group = 1

    def __init__(self) -> None:
        self._towers: list[GradsAndVars] = []
        self._groups: Groups = []

    def pack(self, grouped_grads_and_vars: Sequence[GradsAndVars]) -> list[GradsAndVars]:
        """Pack each tower's list of (gradient, variable) into a list of (pack, None), on the tower's device.

        A gradient left as it is keeps its variable.

        Shapes:
            grouped_grads_and_vars: K x N x 2; returned: K x number of packs x 2.

        Raises:
            ReductionError: The gradients differ between the towers, or one is ``IndexedSlices``.
        """
        towers = [list(tower) for tower in grouped_grads_and_vars]
        columns = check_columns([[grad for grad, _ in tower] for tower in towers], ReduceOp.SUM)
        for n, column in enumerate(columns):
            if is_sparse(column[0]):
                raise ReductionError(
                    f"gradient {n} ({column[0].name}) is IndexedSlices: expected dense tensors to pack"
                )
        self._towers, self._groups = list(towers), self.group(columns)
        packed = self.pack_towers([[grad for grad, _ in tower] for tower in towers], self._groups)
        firsts = [group[0] for group in self._groups for _ in range(self._packs_per_group)]
        return [
            [(pack, tower[n][1] if pack is tower[n][0] else None) for n, pack in zip(firsts, packs, strict=True)]
            for tower, packs in zip(towers, packed, strict=True)
        ]

    def unpack(self, summed_device_grad_packs: Sequence[GradsAndVars]) -> list[GradsAndVars]:
        """Split each tower's list of reduced (pack, anything) into the (gradient, variable) list that `pack` got.

        Results are on the devices of the gradients that they replace.

        Shapes:
            summed_device_grad_packs: K x number of packs x 2; returned: K x N x 2.

        Raises:
            ReductionError: The number of towers or of packs differs from the result of `pack`.
        """
        expected = [len(self._groups) * self._packs_per_group] * len(self._towers)
        got = [len(packs) for packs in summed_device_grad_packs]
        if not expected or got != expected:
            needed = f"{expected}, as pack() returned" if expected else "a call of pack() first"
            raise ReductionError(f"unpack got {got} packs by tower: expected {needed}")
        packs = [[pack for pack, _ in tower] for tower in summed_device_grad_packs]
        unpacked = self.unpack_towers(packs, [[grad for grad, _ in tower] for tower in self._towers], self._groups)
        return [
            [(grad, variable) for grad, (_, variable) in zip(grads, tower, strict=True)]
            for grads, tower in zip(unpacked, self._towers, strict=True)
        ]

    @abc.abstractmethod
    def group(self, columns: Sequence[Column]) -> Groups:
        """Return groups of columns of one dtype each."""

    def pack_towers(self, towers: Sequence[Sequence[tf.Tensor]], groups: Groups) -> list[list[tf.Tensor]]:
        """Return the packs of each tower in the order of the groups."""
        with tf.name_scope("pack"):
            return [[pack for group in groups for pack in self._pack_group([t[n] for n in group])] for t in towers]

    def unpack_towers(
        self, packs: Sequence[Sequence[tf.Tensor]], towers: Sequence[Sequence[tf.Tensor]], groups: Groups
    ) -> list[list[tf.Tensor]]:
        """Return the gradients of each tower, with the devices and shapes of ``towers``, which was packed."""
        unpacked = [list(tower) for tower in towers]
        with tf.name_scope("unpack"):
            for own, grads in zip(packs, unpacked, strict=True):
                remaining = iter(own)
                for group in groups:
                    packs_of_group = [next(remaining) for _ in range(self._packs_per_group)]
                    originals = [grads[n] for n in group]
                    for n, grad in zip(group, self._unpack_group(packs_of_group, originals), strict=True):
                        grads[n] = grad
        return unpacked

    def _pack_group(self, grads: Sequence[tf.Tensor]) -> list[tf.Tensor]:
        """Return one tower's gradients of one group as ``_packs_per_group`` tensors."""
        if len(grads) == 1:
            return list(grads)
        with on_device_of(grads[0]):
            return [concat_flat(grads)]

    def _unpack_group(self, packs: Sequence[tf.Tensor], originals: Sequence[tf.Tensor]) -> list[tf.Tensor]:
        """Undo `_pack_group` after the reduction."""
        if len(originals) == 1:
            return list(packs)
        with on_device_of(packs[0]):
            return split_flat(packs[0], originals)


class TensorPackingReducer(ReducerWrapper):
    """A wrapper that packs the dense gradients of each tower and unpacks the results; ``inner`` gets sparse ones.

    Args:
        inner: reduces the packs.
        kind: what the packer does, for the name.
        packer: the packer.
    """

    def __init__(self, inner: Reducer, kind: str, packer: TensorPacker) -> None:
        super().__init__(inner, kind)
        self._packer = packer

    def reduce_dense(self, columns: Sequence[Column], op: ReduceOp) -> list[Column]:
        """Reduce the packs of all columns together."""
        groups, towers = self._packer.group(columns), transposed(columns)
        packs = transposed(self._packer.pack_towers(towers, groups))
        reduced = transposed(self.inner.reduce_columns(packs, op))
        return list(transposed(self._packer.unpack_towers(reduced, towers, groups)))


@check_arguments
class ConcatAndSplitPacker(TensorPacker):
    """A packer that concatenates all gradients of a tower and cuts the result into packs of one size.

    Unlike `GradientPacker`, it has no conditions: it packs unknown static shapes, several dtypes (each in its own
    packs), and fewer elements than packs, of which the last are empty. The cost is the same: nothing is reduced before
    the last gradient is ready, and two more passes over the memory.

    Args:
        num_packs: the number of packs per dtype; their sizes differ by one at most.

    Raises:
        ConfigError: ``num_packs`` is less than 1.

    Example:
        ::

            packer = ConcatAndSplitPacker(num_packs=2)
            packs = packer.pack(grads_and_vars_of_towers)
            grads_and_vars_of_towers = packer.unpack(my_reduction(packs))

    Source:
        The packer of this name in the seed's ``cross_tower_ops``.
    """

    def __init__(self, num_packs: int = 1) -> None:
        check_count(self, "num_packs", num_packs)
        super().__init__()
        self._packs_per_group = num_packs

    def group(self, columns: Sequence[Column]) -> Groups:
        """Return the columns of each dtype."""
        groups: dict[tf.DType, list[int]] = {}
        for n, column in enumerate(columns):
            groups.setdefault(column[0].dtype.base_dtype, []).append(n)
        return list(groups.values())

    def _pack_group(self, grads: Sequence[tf.Tensor]) -> list[tf.Tensor]:
        with on_device_of(grads[0]):
            return cut(concat_flat(grads), self._packs_per_group)

    def _unpack_group(self, packs: Sequence[tf.Tensor], originals: Sequence[tf.Tensor]) -> list[tf.Tensor]:
        with on_device_of(packs[0]):
            return split_flat(tf.concat(list(packs), axis=0), originals)


@check_arguments
class ConcatAndSplitPackingReducer(TensorPackingReducer):
    """A wrapper that packs the dense gradients by `ConcatAndSplitPacker`.

    Args:
        inner: reduces the packs.
        num_packs: the number of packs per dtype.

    Raises:
        ConfigError: ``num_packs`` is less than 1.

    Source:
        The seed's ``AllReduceCrossTowerOps`` with ``num_packs``.
    """

    def __init__(self, inner: Reducer, num_packs: int = 1) -> None:
        super().__init__(inner, "concat_split", ConcatAndSplitPacker(num_packs))


@check_arguments
class AggregateSmallTensorPacker(TensorPacker):
    """A packer of each run of consecutive small gradients of one dtype into one vector, in the place of the run.

    Most gradients of a network are small (biases, normalization), and each has the fixed cost of a reduction. Joining
    them saves that and copies little. The neighbours in a run become ready at about the same time, so reduction still
    starts before the backward pass ends. Large gradients and those of unknown size are not packed.

    Args:
        agg_small_grads_max_bytes: the largest size of a packed gradient, in bytes.
        agg_small_grads_max_group: the most gradients in one vector.

    Raises:
        ConfigError: A limit is less than 1.

    Source:
        The packer of this name in the seed's ``cross_tower_ops``, which packs float32 only and puts the packs first.
    """

    def __init__(self, agg_small_grads_max_bytes: int = 1048576, agg_small_grads_max_group: int = 16) -> None:
        super().__init__()
        self._max_bytes = check_count(self, "agg_small_grads_max_bytes", agg_small_grads_max_bytes)
        self._max_group = check_count(self, "agg_small_grads_max_group", agg_small_grads_max_group)

    def group(self, columns: Sequence[Column]) -> Groups:
        """Return runs of small columns, and single large ones."""
        groups: list[list[int]] = []
        dtype_of_run = None
        for n, column in enumerate(columns):
            dtype = column[0].dtype.base_dtype if static_bytes(column) <= self._max_bytes else None
            if dtype is not None and dtype == dtype_of_run and len(groups[-1]) < self._max_group:
                groups[-1].append(n)
            else:
                groups.append([n])
            dtype_of_run = dtype
        return groups


@check_arguments
class AggregateSmallTensorPackingReducer(TensorPackingReducer):
    """A wrapper that packs the dense gradients by `AggregateSmallTensorPacker`.

    Args:
        inner: reduces the packs and the large gradients.
        agg_small_grads_max_bytes: as for the packer.
        agg_small_grads_max_group: as for the packer.

    Raises:
        ConfigError: A limit is less than 1.

    Source:
        The seed's ``AllReduceCrossTowerOps`` with ``agg_small_grads_max_bytes``.
    """

    def __init__(
        self, inner: Reducer, agg_small_grads_max_bytes: int = 1048576, agg_small_grads_max_group: int = 16
    ) -> None:
        packer = AggregateSmallTensorPacker(agg_small_grads_max_bytes, agg_small_grads_max_group)
        super().__init__(inner, "small_tensors", packer)


ReadyOrder = Callable[[Sequence[Gradient]], Sequence[int]]
"""Takes the N gradients of a tower and returns their indices, the first to become ready first."""


def last_created_first(grads: Sequence[Gradient]) -> list[int]:
    """Return the reverse of the list's order, in which variables were created."""
    return list(range(len(grads)))[::-1]


@check_arguments
class BucketPacker(TensorPacker):
    """A packer of gradients of one dtype into vectors of up to ``bucket_bytes``, in the order of their readiness.

    Gradients are never cut: one larger than a bucket, or of unknown size, is its own bucket. The packs are in reverse
    order, the first to become ready last, because reducers begin there.

    Args:
        bucket_bytes: the size of a full bucket, in bytes.
        ready_order: returns the order of the gradients, given those of the first tower.

    Raises:
        ConfigError: ``bucket_bytes`` is less than 1.
    """

    def __init__(self, bucket_bytes: int, ready_order: ReadyOrder = last_created_first) -> None:
        check_count(self, "bucket_bytes", bucket_bytes)
        super().__init__()
        self._bucket_bytes = bucket_bytes
        self._ready_order = ready_order

    def group(self, columns: Sequence[Column]) -> Groups:
        """Return the buckets; refuse a ``ready_order`` that does not hold each column once."""
        order = list(self._ready_order([column[0] for column in columns]))
        if sorted(order) != list(range(len(columns))):
            raise ReductionError(f"ready_order returned {order}: expected {len(columns)} gradients, each once")
        buckets: list[list[int]] = []
        # One bucket per dtype is open, so that gradients of other dtypes in between do not end it.
        opened: dict[str, list[int]] = {}
        for n in order:
            dtype = columns[n][0].dtype.base_dtype.name
            size = sum(static_bytes(columns[m]) for m in [*opened.get(dtype, ()), n])
            if dtype in opened and size <= self._bucket_bytes:
                opened[dtype].append(n)
            else:
                opened[dtype] = [n]
                buckets.append(opened[dtype])
        # A bucket is ready when its last member is.
        return sorted(buckets, key=lambda bucket: order.index(bucket[-1]), reverse=True)


@check_arguments
class BucketReducer(TensorPackingReducer):
    """A wrapper that reduces each bucket of dense gradients on its own, as soon as its last member is ready.

    The reduction overlaps with the rest of the backward pass. Small buckets start early but pay the fixed cost of a
    reduction more often; large ones start late.

    All algorithms reduce each tensor by itself. Those that launch operations in a fixed order (collective operations,
    NCCL) take the buckets in the order in which they become ready. An inner reducer that packs defeats the overlap.

    Args:
        inner: reduces the buckets.
        bucket_bytes: the size of a full bucket, in bytes.
        ready_order: returns the order in which gradients become ready, by default the reverse of the list's.

    Raises:
        ConfigError: ``bucket_bytes`` is less than 1.

    Example:
        ::

            reducer = BucketReducer(RoundRobinReducer(), 4 * 2**20)

    Source:
        A to-do of the seed's ``cross_tower_ops``; PyTorch's ``DistributedDataParallel`` works like this.
    """

    def __init__(self, inner: Reducer, bucket_bytes: int, *, ready_order: ReadyOrder = last_created_first) -> None:
        super().__init__(inner, "buckets", BucketPacker(bucket_bytes, ready_order))
