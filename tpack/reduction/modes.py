"""The names by which scripts ask for a reduction: the one place where such text is read.

Further down there are only objects. The default moves the fewest bytes over each link that the usual machines have, and
is never NCCL.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError
from tpack.reduction.base import Reducer
from tpack.reduction.collective import CollectiveReducer
from tpack.reduction.hierarchical import HierarchicalReducer
from tpack.reduction.nccl import NcclReducer
from tpack.reduction.one_device import OneDeviceReducer
from tpack.reduction.round_robin import RoundRobinReducer

_REDUCERS: dict[str, Callable[[Sequence[str]], Reducer]] = {
    "cpu": lambda devices: OneDeviceReducer(_first_cpu(devices)),
    "gpu": lambda devices: RoundRobinReducer(),
    "nccl": lambda devices: NcclReducer(),
    "collective": lambda devices: CollectiveReducer(),
    "hierarchical": HierarchicalReducer,
    "one_device": lambda devices: OneDeviceReducer(),
    "round_robin": lambda devices: RoundRobinReducer(),
}

REDUCTION_MODES = tuple(_REDUCERS)
"""Every mode that `reducer_for_mode` knows."""


class ReducerChoice(NamedTuple):
    """A reducer, and why it was taken, for the log."""

    reducer: Reducer
    reason: str


def reducer_for_mode(mode: str | Reducer | None, devices: Sequence[str]) -> ReducerChoice:
    """Return the reducer that a mode stands for.

    Args:
        mode: ``"cpu"`` (sum on the first CPU device), ``"gpu"`` or ``"round_robin"`` (towers take turns),
            ``"one_device"`` (sum where the first tower is), ``"hierarchical"``, ``"collective"``, ``"nccl"``, a
            `Reducer`, or None to choose by the devices.
        devices: the device of each tower.

    Returns:
        The reducer and the reason as text.

    Shapes:
        devices: K names, one for each tower.

    Raises:
        ConfigError: There is no such mode. The message lists those there are.
        ReductionError: ``"hierarchical"`` cannot serve this number of towers.

    Source:
        The modes of tensorpack's ``SyncMultiGPUTrainerReplicated``.
    """
    if isinstance(mode, Reducer):
        return ReducerChoice(mode, f"the reducer {mode.name} was given")
    if mode is None:
        return _default(devices)
    if not isinstance(mode, str) or mode not in _REDUCERS:
        raise ConfigError(f"wanted one of {', '.join(REDUCTION_MODES)}, a Reducer or None as the mode, got {mode!r}")
    return ReducerChoice(_REDUCERS[mode](devices), f"mode {mode!r} was asked for")


def _default(devices: Sequence[str]) -> ReducerChoice:
    kinds = {tf.DeviceSpec.from_string(device).device_type for device in devices}
    if kinds == {"GPU"} and len(devices) == 8:
        reason = "eight GPUs are usually linked in two groups of four, and each total then crosses between them once"
        return ReducerChoice(HierarchicalReducer(devices), reason)
    if kinds == {"GPU"}:
        return ReducerChoice(RoundRobinReducer(), f"the links of {len(devices)} GPU(s) share the copies evenly")
    return ReducerChoice(RoundRobinReducer(), "copies between CPU devices share memory, so summing by turns is fastest")


def _first_cpu(devices: Sequence[str]) -> str:
    """Return the first CPU device of the task where the first tower is."""
    first = tf.DeviceSpec.from_string(devices[0] if devices else "")
    return str(first.replace(device_type="CPU", device_index=0).to_string())
