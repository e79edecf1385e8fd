"""Reduce inside two groups of devices and cross between the groups once.

On machines such as the DGX-1, the first and the second four GPUs are each fully linked, with few links between the
fours. For each gradient one device of each half is the leader. The first leader sums its half; the second receives that
sum, adds its own half and sends the total back; each leader copies the total to its half. Each total crosses between
the halves once each way, for any K. Leaders rotate from gradient to gradient.

In the seed both leaders sum at the same time, and the two sums are added. Passing the first sum on reads and writes
less memory and saves one operation.
"""

from collections.abc import Sequence

import tensorflow.compat.v1 as tf

from tpack.errors import ReductionError
from tpack.reduction.base import Reducer
from tpack.reduction.sums import copy_to_each, on_turn, sum_tensors
from tpack.tower.devices import resolve_device
from tpack.tower.grads import Column, ReduceOp
from tpack.utils.validation import check_arguments


@check_arguments
class HierarchicalReducer(Reducer):
    """A reducer that sums in two halves of the towers with a leader each, for an even number of towers.

    Args:
        devices: the device of each tower; by default those of the gradients.

    Raises:
        ReductionError: The number of devices is odd and not 1, which needs no reduction.

    Source:
        ``allreduce_grads_hierarchical`` of tensorpack's graph builder, after tensorflow/benchmarks.
    """

    name = "hierarchical"

    def __init__(self, devices: Sequence[str] | None = None) -> None:
        if devices is not None and len(devices) != 1:
            _check_towers(len(devices))
        self._devices = None if devices is None else [resolve_device(device) for device in devices]

    def check(self, columns: Sequence[Column]) -> None:
        """Refuse an odd number of towers, and a number other than that of ``devices``."""
        num_towers = len(columns[0])
        _check_towers(num_towers)
        if self._devices is not None and len(self._devices) != num_towers:
            made_for = f"{len(self._devices)}, for its devices {', '.join(self._devices)}"
            raise ReductionError(f"HierarchicalReducer got the gradients of {num_towers} towers: expected {made_for}")

    def reduce_dense(self, columns: Sequence[Column], op: ReduceOp) -> list[Column]:
        """Sum each column over both halves; the leaders of the halves rotate."""
        return [self._reduce_column(n, column, op) for n, column in enumerate(columns)]

    def _reduce_column(self, n: int, column: Column, op: ReduceOp) -> Column:
        half = len(column) // 2
        first, second = n % half, n % half + half
        with on_turn(self._devices, column, first):
            partial = sum_tensors(column[:half])
        with on_turn(self._devices, column, second):
            total = sum_tensors([partial, *column[half:]], op.divisor(len(column)))
        with on_turn(self._devices, column, first):
            returned = tf.identity(total)
        return copy_to_each(returned, column[:half]) + copy_to_each(total, column[half:])


def _check_towers(num_towers: int) -> None:
    if num_towers < 2 or num_towers % 2:
        raise ReductionError(f"HierarchicalReducer got {num_towers} towers: expected an even number of at least 2")
