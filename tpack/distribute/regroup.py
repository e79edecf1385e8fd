"""From one value for each device to values of all devices, and back."""

from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any

from tpack.distribute.devices import device_key
from tpack.distribute.values import DistributedValues, MapOutput, Mirrored, PerDevice
from tpack.errors import ConfigError, StrategyError, TowerMismatchError


def regroup(per_device: Mapping[str, Any], wrap_class: Callable[..., Any] = PerDevice) -> Any:
    """Turn a map from devices to structures into one structure of values of all devices.

    Args:
        per_device: lists, tuples, named tuples and dicts, nested in any way and alike on all devices.
        wrap_class: what is made of values that differ between devices: `PerDevice` or `Mirrored`.

    Returns:
        The structure. An object that is the same one on all devices is itself; what is on each device the part of one
        variable is that variable.

    Shapes:
        Any; tensors are not looked at.

    Raises:
        ConfigError: There is no device.
        TowerMismatchError: The structures differ, or parts of variables are mixed up.

    Source:
        The function of the same name that belongs to the seed ``distribute``.
    """
    if not per_device:
        raise ConfigError("wanted the values of at least one device, got none")
    values = list(per_device.values())
    first = values[0]
    if isinstance(first, list | tuple):
        _check_alike(per_device, type(first), len)
        parts = [regroup(dict(zip(per_device, part, strict=True)), wrap_class) for part in zip(*values, strict=True)]
        return type(first)(*parts) if hasattr(first, "_fields") else type(first)(parts)
    if isinstance(first, dict):
        _check_alike(per_device, type(first), set)
        parts = [(key, regroup({d: v[key] for d, v in per_device.items()}, wrap_class)) for key in first]
        return _like(first, parts)
    return _regroup_leaf(per_device, wrap_class)


def select_device(device: str, structured: Any) -> Any:
    """Take the part of one device out of a structure.

    Args:
        device: the device.
        structured: values of all devices, and others, in nested lists, tuples and dicts.

    Returns:
        The structure with the device's value in place of each `DistributedValues`.

    Shapes:
        Any; tensors are not looked at.

    Raises:
        StrategyError: A value has no part on the device.

    Source:
        The function of the same name that belongs to the seed ``distribute``.
    """

    def select(value: Any) -> Any:
        return value.get(device) if isinstance(value, DistributedValues) else value

    return _map(select, structured)


def select_device_mirrored(device: str, structured: Any) -> Any:
    """Take the part of one device out of a structure that is the same for all devices.

    Args:
        device: the device.
        structured: `Mirrored` values, and plain ones, in nested lists, tuples and dicts.

    Returns:
        The structure with the device's value in place of each `Mirrored`.

    Shapes:
        Any; tensors are not looked at.

    Raises:
        StrategyError: A value is not mirrored, or has no part on the device.

    Source:
        The function of the same name that belongs to the seed ``distribute``.
    """

    def select(value: Any) -> Any:
        if isinstance(value, DistributedValues) and not isinstance(value, Mirrored):
            raise StrategyError(f"wanted values that are mirrored across towers, got {value!r}: reduce it first")
        return value.get(device) if isinstance(value, DistributedValues) else value

    return _map(select, structured)


def _map(select: Callable[[Any], Any], structured: Any) -> Any:
    if isinstance(structured, list | tuple):
        parts = [_map(select, value) for value in structured]
        return type(structured)(*parts) if hasattr(structured, "_fields") else type(structured)(parts)
    if isinstance(structured, dict):
        return _like(structured, [(key, _map(select, value)) for key, value in structured.items()])
    return select(structured)


def _like(example: dict[Any, Any], items: list[tuple[Any, Any]]) -> Any:
    """Return an ordered dict for one, and a plain dict for one of any other kind, which may be made in another way."""
    return OrderedDict(items) if isinstance(example, OrderedDict) else dict(items)


def _check_alike(per_device: Mapping[str, Any], kind: type, size: Callable[[Any], Any]) -> None:
    devices = list(per_device)
    first = per_device[devices[0]]
    for device in devices[1:]:
        other = per_device[device]
        if not isinstance(other, kind) or size(other) != size(first):
            raise TowerMismatchError(
                f"wanted the same structure on all devices: {devices[0]} has {first!r:.200}, {device} has "
                f"{other!r:.200}"
            )


def _regroup_leaf(per_device: Mapping[str, Any], wrap_class: Callable[..., Any]) -> Any:
    first, *others = per_device.values()
    is_same = all(other is first for other in others)
    container = _container(first)
    if container is None:
        return first if is_same and not isinstance(first, MapOutput) else wrap_class(per_device)
    for device, part in per_device.items():
        if _container(part) is not container or container.get(device) is not part:
            raise TowerMismatchError(
                f"wanted on each device its part of {container!r}: {device_key(device)} has {part!r}"
            )
    return container


def _container(value: Any) -> Any:
    """Return the variable of all devices that a variable is a part of, or None."""
    reference = getattr(value, "_distributed_container", None)
    return None if reference is None or isinstance(value, DistributedValues) else reference()
