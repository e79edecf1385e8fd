"""Everything on one device, to test a program before it is distributed."""

from typing import Any

import tensorflow.compat.v1 as tf

from tpack.distribute.cross_tower_ops import devices_for
from tpack.distribute.multi_device import MultiDeviceStrategy
from tpack.distribute.strategy import VariableCreator
from tpack.distribute.values import Aggregation, Destinations, MapOutput, Mirrored, PerDevice, Value, Variable
from tpack.tower.devices import device_key, resolve_device
from tpack.utils.validation import check_arguments, check_text


@check_arguments
class OneDeviceStrategy(MultiDeviceStrategy):
    """One tower, with its variables, on one device. Variables are plain, and values are not wrapped.

    Args:
        device: the name of the device.
        prefetch_on_device: the elements of a dataset that wait on the device; see `PerDeviceDataset`.

    Raises:
        ConfigError: The name is malformed.
        DeviceError: The machine has GPUs, but not this one.

    Source:
        The seed ``distribute``.
    """

    def __init__(self, device: str, *, prefetch_on_device: bool | int | None = None) -> None:
        super().__init__(prefetch_on_device=prefetch_on_device)
        self._device = device_key(resolve_device(check_text(self, "device", device)))
        self._default_device = self._device

    @property
    def worker_devices(self) -> list[str]:
        """The device, alone."""
        return [self._device]

    def _create_variable(self, next_creator: VariableCreator, **kwargs: Any) -> Variable:
        (device,) = devices_for(kwargs.pop("colocate_with", None), [self._device])
        with tf.device(device):
            return next_creator(**kwargs)

    def _broadcast(self, tensor: Value, destinations: Destinations | None) -> Value:
        return tensor if destinations is None else _plain(super()._broadcast(tensor, destinations))

    def _reduce(self, aggregation: Aggregation, value: Value, destinations: Destinations | None) -> Value:
        if destinations is None and not isinstance(value, MapOutput | PerDevice):
            return value
        own = value if isinstance(value, PerDevice) else PerDevice({self._device: value})
        return _plain(super()._reduce(aggregation, own, destinations))

    def __repr__(self) -> str:
        return f"<OneDeviceStrategy on {self._device}>"


def _plain(value: Value) -> Value:
    """Return the part of a value of one device."""
    parts = list(value.index.values()) if isinstance(value, Mirrored) else []
    return parts[0] if len(parts) == 1 else value
