"""Where the result of a reduction or a broadcast goes: every way to say it, and the devices that it stands for.

A destination is a device, several of them, or something that lies on devices already: a variable, one that is mirrored,
the value of several devices, a tensor.
"""

from collections.abc import Iterable
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.compat import BaseVariable
from tpack.distribute.devices import device_key
from tpack.distribute.values import DistributedValues
from tpack.errors import ConfigError
from tpack.tower.devices import resolve_device

_PLACED = (BaseVariable, tf.Tensor, tf.IndexedSlices)


def check_destinations(destinations: Any) -> bool:
    """Tell whether a destination names any device.

    Args:
        destinations: what is asked about, of a kind that `validate_destinations` accepts.

    Returns:
        Whether there is a device; false for an empty list or name, and for a variable that nobody placed.

    Shapes:
        None apply.

    Raises:
        Nothing.

    Source:
        The function of this name in the seed's ``cross_tower_ops``.
    """
    if isinstance(destinations, DistributedValues):
        return bool(destinations.devices)
    if isinstance(destinations, _PLACED):
        return bool(destinations.device)
    if isinstance(destinations, list | tuple):
        return bool(destinations) and all(map(check_destinations, destinations))
    return bool(destinations)


def validate_destinations(destinations: Any) -> None:
    """Check that something is a destination.

    Args:
        destinations: a device, a list of devices, a variable, a tensor, or a `DistributedValues`, mirrored variables
            among them.

    Shapes:
        None apply.

    Raises:
        ConfigError: It is of another kind, or names no device.

    Source:
        The function of this name in the seed's ``cross_tower_ops``.
    """
    names = destinations if isinstance(destinations, list | tuple) else []
    if not isinstance(destinations, (DistributedValues, *_PLACED, str, list, tuple)) or not all(
        isinstance(name, str) for name in names
    ):
        raise ConfigError(
            "wanted a device, a list of devices, a variable, a tensor or a value of several devices as the "
            f"destinations, got {destinations!r}"
        )
    if not check_destinations(destinations):
        hint = ": it has no device, create it under tf.device" if isinstance(destinations, _PLACED) else ""
        raise ConfigError(f"destinations can not be empty, got {destinations!r}{hint}")


def get_devices_from(destinations: Any) -> list[str]:
    """Return the devices that a destination stands for.

    Args:
        destinations: what `validate_destinations` accepts.

    Returns:
        Their names as `device_key` spells them, in the order of the destination, each once. Names of GPUs become
        logical CPU devices on a machine without GPUs.

    Shapes:
        None apply.

    Raises:
        ConfigError: A name cannot be read.
        DeviceError: The machine has GPUs, and not one that is named.

    Source:
        The function of this name in the seed's ``cross_tower_ops``.
    """
    if isinstance(destinations, DistributedValues):
        return _unique(map(device_key, destinations.devices))
    if isinstance(destinations, _PLACED):
        return [device_key(destinations.device)]
    names = [destinations] if isinstance(destinations, str) else destinations
    return _unique(device_key(resolve_device(name)) for name in names)


def _unique(names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(names))
