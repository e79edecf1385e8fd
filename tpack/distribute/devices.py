"""Device names as keys: one spelling for each device, so that values and variables are found by any of its names."""

import tensorflow.compat.v1 as tf

from tpack.tower.devices import canonical_device


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
