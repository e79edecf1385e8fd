"""The devices of a strategy's towers, from what its user says."""

from collections.abc import Sequence

from tpack.distribute.devices import device_key
from tpack.errors import ConfigError
from tpack.tower.devices import resolve_device, resolve_devices


def worker_devices_of(num_gpus_per_worker: int, devices: Sequence[str] | None) -> list[str]:
    """Return the device of each tower.

    Args:
        num_gpus_per_worker: how many towers, on as many GPUs; 0 for one on the CPU.
        devices: in place of that, the devices.

    Returns:
        Names of devices.

    Shapes:
        No tensors.

    Raises:
        ConfigError: Both are given, the number is negative, or the list is empty or has a device twice.
        DeviceError: There are GPUs, and not one that is asked for.

    Source:
        The strategies of TensorFlow's ``contrib.distribute`` take the number.
    """
    if devices is not None and num_gpus_per_worker:
        raise ConfigError(f"wanted devices or num_gpus_per_worker, got both: {devices!r} and {num_gpus_per_worker}")
    if devices is not None:
        return different_devices(devices)
    if num_gpus_per_worker < 0:
        raise ConfigError(f"wanted 0 GPUs per worker or more, got {num_gpus_per_worker}")
    return list(resolve_devices(num_gpus_per_worker)) if num_gpus_per_worker else [resolve_device(-1)]


def different_devices(devices: Sequence[str]) -> list[str]:
    """Return a list of devices with their names spelled as those of values.

    Args:
        devices: names.

    Returns:
        As many names.

    Shapes:
        No tensors.

    Raises:
        ConfigError: It is no list, there is none, or one twice.
        DeviceError: There are GPUs, and not one that is asked for.

    Source:
        Written for tpack.
    """
    names = [] if isinstance(devices, str) else [device_key(resolve_device(device)) for device in devices]
    if not names or len(set(names)) < len(names):
        raise ConfigError(f"wanted a list of one or more different devices, got {devices!r}")
    return names
