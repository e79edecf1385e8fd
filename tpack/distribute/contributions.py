"""What each device brings to a reduction: one tensor there, made of what a value of several devices holds for it.

Most often that is the tensor itself. A list of them (`MapOutput`) is summed on its device first; a number, a variable
or a tensor of another device is brought there.
"""

from typing import Any, NamedTuple

import tensorflow.compat.v1 as tf

from tpack.distribute.devices import device_key
from tpack.distribute.values import DistributedValues, MapOutput
from tpack.errors import ConfigError
from tpack.reduction.gradients import ReduceOp
from tpack.reduction.sums import on_device, sum_column


class Contributions(NamedTuple):
    """The summands of a reduction by device, and the number of values that they were made of."""

    by_device: dict[str, Any]
    num_values: int

    @property
    def is_plain(self) -> bool:
        """Whether each device brings one value, so that the mean over devices is that over the values."""
        return self.num_values == len(self.by_device)


def gather_contributions(value: DistributedValues) -> Contributions:
    """Return what each device brings; a device with an empty list brings nothing.

    Args:
        value: what is to be reduced.

    Raises:
        ConfigError: No device brings anything.
    """
    by_device: dict[str, Any] = {}
    num_values = 0
    for device in value.devices:
        brought = value.get(device)
        parts = list(brought.get()) if isinstance(brought, MapOutput) else [brought]
        if parts:
            num_values += len(parts)
            by_device[device_key(device)] = _sum_on_device(parts, device_key(device))
    if not by_device:
        raise ConfigError(f"wanted a value to reduce, got {value!r}, which is empty on every device")
    return Contributions(by_device, num_values)


def copy_to_device(value: Any, device: str) -> Any:
    """Return a value on a device: itself if it is there.

    Args:
        value: a tensor, ``IndexedSlices``, a variable, or a number or array.
        device: its name as `device_key` spells it; empty where nothing is asked for.

    Returns:
        A tensor, or ``IndexedSlices``.

    Raises:
        ConfigError: It is something else.
    """
    with on_device(device):
        value = as_dense_or_slices(value)
        if device_key(value.device) == device:
            return value
        if isinstance(value, tf.IndexedSlices):
            parts = (value.values, value.indices, value.dense_shape)
            return tf.IndexedSlices(*(None if part is None else tf.identity(part) for part in parts))
        return tf.identity(value)


def as_dense_or_slices(value: Any) -> Any:
    """Return a tensor or ``IndexedSlices`` of tensors as they are, and a variable, number or array as a tensor.

    Raises:
        ConfigError: It is something else.
    """
    if isinstance(value, tf.Tensor):
        return value
    try:
        return _of_tensors(value) if isinstance(value, tf.IndexedSlices) else tf.convert_to_tensor(value)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"wanted a tensor, IndexedSlices, a variable or a number, got {value!r}") from error


def _of_tensors(slices: Any) -> Any:
    """Return slices whose indices and shape, which users write as lists, are tensors."""
    parts = (slices.values, slices.indices, slices.dense_shape)
    if all(part is None or isinstance(part, tf.Tensor) for part in parts):
        return slices
    return tf.IndexedSlices(*(None if part is None else tf.convert_to_tensor(part) for part in parts))


def _sum_on_device(parts: list[Any], device: str) -> Any:
    placed = [copy_to_device(part, device) for part in parts]
    if len(placed) == 1:
        return placed[0]
    with on_device(device):
        return sum_column(placed, ReduceOp.SUM)
