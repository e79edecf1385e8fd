"""Reduce each gradient on one device, and different gradients on different devices.

The devices take turns, beginning with the last gradient: it is ready first, and the large layers at the end of a model
are spread over all devices. The bytes moved in total are those of `OneDeviceReducer`, shared among K links.
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager

from tpack.errors import ConfigError
from tpack.reduction.base import Column, ReduceOp, Reducer
from tpack.reduction.summing import sum_column
from tpack.reduction.sums import copy_to_each, on_device, on_device_of
from tpack.tower.devices import resolve_device


class RoundRobinReducer(Reducer):
    """Sum gradient N-1 on the first device, N-2 on the second, and so on round; copy each result to all towers.

    Args:
        devices: the devices that take turns; by default those of the towers' gradients.

    Raises:
        ConfigError: ``devices`` is empty or no list.

    Source:
        ``allreduce_grads_naive`` of tensorpack's graph builder, mode ``"gpu"`` of its replicated training.
    """

    name = "round_robin"

    def __init__(self, devices: Sequence[str] | None = None) -> None:
        if devices is not None and (isinstance(devices, str) or not devices):
            raise ConfigError(f"wanted a list of devices, or None for those of the gradients, got {devices!r}")
        self._devices = None if devices is None else [resolve_device(device) for device in devices]

    def _reduce_dense(self, columns: Sequence[Column], op: ReduceOp) -> list[Column]:
        reduced: list[Column] = []
        for turn, column in enumerate(reversed(columns)):
            with self._owner(turn, column):
                total = sum_column(column, op)
            reduced.append(copy_to_each(total, column))
        return reduced[::-1]

    def _owner(self, turn: int, column: Column) -> AbstractContextManager[None]:
        if self._devices is None:
            return on_device_of(column[turn % len(column)])
        return on_device(self._devices[turn % len(self._devices)])
