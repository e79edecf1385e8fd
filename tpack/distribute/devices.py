"""Device names as keys: one spelling for each device, so that values and variables are found by any of its names.

The devices of a strategy's towers, from what its user says.
"""

from collections.abc import Sequence

import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError
from tpack.tower.devices import canonical_device, resolve_device, resolve_devices


def device_key(name: str) -> str:
    """Return the one spelling of a device's name that values are stored under.

    Args:
        name: such as ``"/gpu:1"`` or ``"/job:localhost/replica:0/task:0/device:GPU:1"``; empty stays empty.

    Returns:
        ``"/device:GPU:1"``; with the job, replica and task in front for a device of a cluster.

    Shapes:
        No tensors.

    Raises:
        ConfigError: TensorFlow cannot read the name.

    Source:
        The seed ``distribute``, whose values canonicalise their devices.
    """
    spec = tf.DeviceSpec.from_string(canonical_device(name))
    if spec.device_type is not None and spec.device_index is None:
        spec = spec.replace(device_index=0)
    if spec.job in (None, "localhost"):
        spec = spec.replace(job=None, replica=None, task=None)
    return str(spec.to_string())


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
