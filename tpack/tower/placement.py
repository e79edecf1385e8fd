"""Where variables go when several towers share them."""

from collections.abc import Sequence
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.tower.devices import resolve_device
from tpack.tower.least_loaded import LeastLoaded
from tpack.utils import logger

VARIABLE_OP_TYPES = frozenset({"Variable", "VariableV2", "VarHandleOp"})


class LeastLoadedDeviceSetter:
    """Device function: variables go to the least loaded of several devices, everything else to one.

    Loads are bytes. A variable whose shape is not fully defined counts as nothing, with one warning.

    Args:
        worker_device: the device for computation.
        ps_devices: the devices for variables.

    Raises:
        ConfigError: ``ps_devices`` is empty or holds a name that cannot be read.
        DeviceError: The machine has GPUs, and not one of these.

    Example:
        with tf.device(LeastLoadedDeviceSetter("/gpu:0", ["/gpu:0", "/gpu:1"])):
            ...

    Source:
        The class of the same name in the seed ``graph_builder_utils``, which knows only ref variables and counts
        elements.
    """

    def __init__(self, worker_device: str, ps_devices: Sequence[str]) -> None:
        self.worker_device = resolve_device(worker_device)
        self._load = LeastLoaded([resolve_device(device) for device in ps_devices])
        self._warned = False

    @property
    def ps_devices(self) -> list[str]:
        """The devices for variables."""
        return list(self._load.devices)

    @property
    def ps_sizes(self) -> list[int]:
        """The bytes of variables on each device so far."""
        return list(self._load.sizes)

    def __call__(self, op: Any) -> str:
        """Return the device for ``op``; a device that was asked for explicitly stays."""
        if op.device:
            return str(op.device)
        if op.type in VARIABLE_OP_TYPES:
            return self.place_with_balance(op)
        return self.worker_device

    def place_with_balance(self, op: Any) -> str:
        """Return the least loaded device after adding the bytes of the variable ``op`` to it."""
        return self._load.take(self._size_bytes(op))

    def _size_bytes(self, op: Any) -> int:
        shape, dtype = _variable_shape_and_dtype(op)
        num_elements = shape.num_elements()
        if num_elements is not None:
            return int(num_elements * dtype.size)
        if not self._warned:
            self._warned = True
            logger.warning(
                f"Variable {op.name} has the shape {shape}, which is not fully defined: LeastLoadedDeviceSetter counts "
                "it and others like it as nothing."
            )
        return 0

    def __str__(self) -> str:
        return f"LeastLoadedDeviceSetter-{self.worker_device}"


def _variable_shape_and_dtype(op: Any) -> tuple[Any, Any]:
    """Return what the variable made by ``op`` holds; the output of a VarHandleOp is only its handle."""
    if op.type == "VarHandleOp":
        return tf.TensorShape(op.get_attr("shape")), op.get_attr("dtype")
    return op.outputs[0].shape, op.outputs[0].dtype.base_dtype
