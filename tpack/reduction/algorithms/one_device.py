"""Reduce each gradient on one device, the same for all or in turn; or not at all.

The cost of a gradient is K - 1 copies in, one ``add_n``, one division, and K - 1 copies out. Between CPU devices the
copies are free, and the memory is the limit. Between GPUs, a single device puts all bytes on one link; devices in turn
share them among K links.
"""

from collections.abc import Sequence

from tpack.reduction.base import Reducer
from tpack.reduction.sums import copy_to_each, on_turn, sum_column
from tpack.tower.devices import resolve_device
from tpack.tower.grads import Column, ReduceOp
from tpack.utils.validation import check_arguments, check_instances


@check_arguments
class OneDeviceReducer(Reducer):
    """A reducer that sums every gradient on one device and copies the result to all towers.

    Args:
        device: the device of the sums, such as ``"/device:CPU:0"``; by default that of the first tower's gradient.

    Source:
        tensorpack's mode ``"cpu"`` of replicated training.
    """

    name = "one_device"

    def __init__(self, device: str | None = None) -> None:
        self._devices = None if device is None else [resolve_device(device)]

    def reduce_dense(self, columns: Sequence[Column], op: ReduceOp) -> list[Column]:
        """Sum each column on the one device."""
        reduced: list[Column] = []
        for column in columns:
            with on_turn(self._devices, column, 0):
                total = sum_column(column, op)
            reduced.append(copy_to_each(total, column))
        return reduced


@check_arguments
class RoundRobinReducer(Reducer):
    """A reducer that sums gradient N-1 on the first device, N-2 on the second, and so on round.

    The last gradient is the first to be ready, and the large layers at the end of a model are spread over all devices.

    Args:
        devices: the devices that take turns; by default those of the towers' gradients.

    Raises:
        ConfigError: ``devices`` is empty or not a list.

    Source:
        ``allreduce_grads_naive`` of tensorpack's graph builder, mode ``"gpu"`` of its replicated training.
    """

    name = "round_robin"

    def __init__(self, devices: Sequence[str] | None = None) -> None:
        if devices is not None:
            devices = [resolve_device(each) for each in check_instances(self, "devices", devices, str, least=1)]
        self._devices = devices

    def reduce_dense(self, columns: Sequence[Column], op: ReduceOp) -> list[Column]:
        """Sum the columns in turn, the last one first."""
        reduced: list[Column] = []
        for turn, column in enumerate(reversed(columns)):
            with on_turn(self._devices, column, turn):
                total = sum_column(column, op)
            reduced.append(copy_to_each(total, column))
        return reduced[::-1]


class IdentityReducer(Reducer):
    """A reducer that returns the gradients of each tower unchanged.

    Use it where nothing is to be reduced, as in asynchronous training or to measure the cost of a reduction. It is
    exact for one tower only; with more, towers keep different gradients and drift apart.
    """

    name = "identity"

    def reduce_dense(self, columns: Sequence[Column], op: ReduceOp) -> list[Column]:
        """Return the columns."""
        return list(columns)

    def reduce_sparse(self, columns: Sequence[Column], op: ReduceOp) -> list[Column]:
        """Return the columns."""
        return list(columns)
