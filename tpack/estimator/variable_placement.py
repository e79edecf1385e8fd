"""Where the towers of a replicated model_fn put the variables that they share."""

import enum
from collections.abc import Sequence
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError
from tpack.tower.placement import VARIABLE_OP_TYPES


class VariablePlacement(enum.Enum):
    """The rules for shared variables."""

    ONE_DEVICE = "one device"
    """All on one: the GPU where there is one tower, else the CPU."""

    ROUND_ROBIN = "round robin"
    """Each on the device after that of the variable before it."""


class RoundRobin:
    """Devices that are given out in turn.

    Args:
        devices: names.

    Raises:
        ConfigError: There is none.
    """

    def __init__(self, devices: Sequence[str]) -> None:
        if not devices:
            raise ConfigError("wanted at least one device to put variables on, got an empty list")
        self.devices = tuple(devices)
        self.num_given = 0

    def take(self) -> str:
        """Return the next device."""
        device = self.devices[self.num_given % len(self.devices)]
        self.num_given += 1
        return device


class SharedVariablesSetter:
    """Device function: variables go to the next of several devices, everything else to one.

    What an operation was asked to have, stays. Only variables advance the turn.

    Args:
        worker_device: the device for computation.
        variable_devices: the turns, which towers share.

    Source:
        The device setter of the seeds of ``replicate_model_fn``.
    """

    def __init__(self, worker_device: str, variable_devices: RoundRobin) -> None:
        self.worker_device = worker_device
        self.variable_devices = variable_devices

    def __call__(self, op: Any) -> str:
        """Return the device for ``op``."""
        device = self.variable_devices.take() if op.type in VARIABLE_OP_TYPES else self.worker_device
        merged = tf.DeviceSpec.from_string(device).make_merged_spec(tf.DeviceSpec.from_string(op.device or ""))
        return str(merged.to_string())
