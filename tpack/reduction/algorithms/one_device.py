"""Reduce everything on one device: the simplest algorithm.

K - 1 copies of every gradient come in, one ``add_n`` and one division run, K - 1 copies go out. Between CPU devices the
copies cost nothing, and this is as fast as the memory. Between GPUs one link carries all of it: use `RoundRobinReducer`
there.
"""

from collections.abc import Sequence

from tpack.reduction.base import Column, ReduceOp, Reducer
from tpack.reduction.summing import sum_column
from tpack.reduction.sums import copy_to_each, on_device, on_device_of
from tpack.tower.devices import resolve_device


class OneDeviceReducer(Reducer):
    """Sum every gradient on one device and copy the result to all towers.

    Args:
        device: where to sum, ``"/device:CPU:0"`` for example; by default where the first tower has its gradient.

    Source:
        tensorpack's mode ``"cpu"`` of replicated training.
    """

    name = "one_device"

    def __init__(self, device: str | None = None) -> None:
        self._device = None if device is None else resolve_device(device)

    def _reduce_dense(self, columns: Sequence[Column], op: ReduceOp) -> list[Column]:
        reduced: list[Column] = []
        for column in columns:
            with on_device_of(column[0]) if self._device is None else on_device(self._device):
                total = sum_column(column, op)
            reduced.append(copy_to_each(total, column))
        return reduced
