"""``tf.contrib.all_reduce``: sums over devices, by the reducers of `tpack.reduction`.

Each function takes one tensor for each device, and returns their sum, or the result of ``un_op`` on it, on each of
them.
"""

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.errors import ReductionError
from tpack.reduction.algorithms.halving_doubling import HalvingDoublingReducer
from tpack.reduction.algorithms.nccl import NcclReducer
from tpack.reduction.algorithms.ring import RingReducer
from tpack.reduction.algorithms.shuffle import ShuffleReducer
from tpack.reduction.base import ReduceOp, Reducer
from tpack.tf1.name_table import look_up

_OWN = ("build_nccl_all_reduce", "build_recursive_hd_all_reduce", "build_ring_all_reduce", "build_shuffle_all_reduce")

__getattr__, __dir__, __all__ = look_up(__name__, {}, own=_OWN)


_SUMS = (tf.add, tf.math.add, tf.raw_ops.Add, tf.raw_ops.AddV2)


def build_ring_all_reduce(
    input_tensors: Sequence[tf.Tensor],
    num_workers: int,
    num_subchunks: int,
    gpu_perm: Sequence[int],
    red_op: Callable[..., tf.Tensor],
    un_op: Callable[[tf.Tensor], tf.Tensor] | None = None,
) -> list[tf.Tensor]:
    """Sum in a ring of all devices.

    Args:
        input_tensors: one for each device, those of the first worker first.
        num_workers: the number of workers.
        num_subchunks: the number of parts of each device's share.
        gpu_perm: the order of each worker's devices in the ring.
        red_op: ``tf.add``.
        un_op: a function of the sum; None for none.

    Raises:
        ReductionError: The workers have unequal numbers of devices, or ``gpu_perm`` is not an order of them.
    """
    each = len(gpu_perm)
    if sorted(gpu_perm) != list(range(each)) or num_workers * each != len(input_tensors):
        came = f"{len(input_tensors)} tensors, num_workers={num_workers} and gpu_perm={list(gpu_perm)}"
        raise ReductionError(f"build_ring_all_reduce got {came}: expected an order of the devices of each worker")
    order = [worker * each + place for worker in range(num_workers) for place in gpu_perm]
    summed = _reduce(RingReducer(num_subchunks), [input_tensors[i] for i in order], red_op, un_op)
    return [summed[order.index(i)] for i in range(len(order))]


def build_recursive_hd_all_reduce(
    input_tensors: Sequence[tf.Tensor], red_op: Callable[..., tf.Tensor], un_op: Callable[..., Any] | None = None
) -> list[tf.Tensor]:
    """Sum by halving and doubling over a power of two of devices."""
    return _reduce(HalvingDoublingReducer(), input_tensors, red_op, un_op)


def build_shuffle_all_reduce(
    input_tensors: Sequence[tf.Tensor],
    gather_devices: Sequence[str],
    red_op: Callable[..., tf.Tensor],
    un_op: Callable[..., Any] | None = None,
) -> list[tf.Tensor]:
    """Sum a shard on each of some devices."""
    return _reduce(ShuffleReducer(list(gather_devices)), input_tensors, red_op, un_op)


def build_nccl_all_reduce(
    input_tensors: Sequence[tf.Tensor], red_op: Callable[..., tf.Tensor], un_op: Callable[..., Any] | None = None
) -> list[tf.Tensor]:
    """Sum by NCCL; each tensor is on a GPU of its own."""
    return _reduce(NcclReducer(), input_tensors, red_op, un_op)


def _reduce(
    reducer: Reducer, tensors: Sequence[tf.Tensor], red_op: Callable[..., Any], un_op: Callable[..., Any] | None
) -> list[tf.Tensor]:
    if red_op not in _SUMS:
        raise ReductionError(f"got red_op={getattr(red_op, '__name__', red_op)!r}: expected tf.add, the devices' sum")
    summed = [tower[0] for tower in reducer.reduce([[tensor] for tensor in tensors], ReduceOp.SUM)]
    if un_op is None:
        return summed
    changed = []
    for tensor, total in zip(tensors, summed, strict=True):
        with tf.device(tensor.device):
            changed.append(un_op(total))
    return changed
