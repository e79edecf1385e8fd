"""The reduction modes of trainers: the one place where their text is parsed.

A mode is a name, an all-reduce spec, a reducer, or None; below there are only objects. The default moves the fewest
bytes over each link of the usual machines, and is never NCCL.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeAlias

import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError
from tpack.reduction.algorithms.one_device import OneDeviceReducer, RoundRobinReducer
from tpack.reduction.autotune.heuristic import ReducerChoice, choose_by_heuristic
from tpack.reduction.base import Reducer
from tpack.reduction.names import ALGORITHMS, reducer_class
from tpack.reduction.spec import AllReduceSpec, SpecEntry, parse_all_reduce_spec, reducer_for_entries
from tpack.tower.devices import list_gpus, resolve_devices
from tpack.utils import logger
from tpack.utils.validation import check_arguments, check_instances, mismatch

ReductionMode: TypeAlias = str | SpecEntry | list[SpecEntry] | Reducer | None
"""The forms of a mode."""

_OWN_NAMES: dict[str, Callable[[Sequence[str]], Reducer]] = {
    "auto": lambda devices: reducer_class("autotune.autotune:AutoReducer")(),
    "cpu": lambda devices: OneDeviceReducer(_first_cpu(devices)),
    "gpu": lambda devices: RoundRobinReducer(),
}
"""The modes beside the algorithms."""

REDUCTION_MODES = (*_OWN_NAMES, *ALGORITHMS)
"""Every mode of one word."""

_COPYING = "round_robin"
"""The substitute for NCCL without GPUs: what `choose_by_heuristic` takes for CPU devices."""

_SPEC_MARKS = frozenset("#:/")


@check_arguments
def reducer_for_mode(mode: ReductionMode, devices: Sequence[str]) -> ReducerChoice:
    """Return the reducer of a mode, and the reason as text.

    Args:
        mode: ``"auto"`` (measured when the gradients are known), ``"cpu"`` (sum on the first CPU device), ``"gpu"``
            (towers take turns), the name of an algorithm (see `make_reducer`), an all-reduce spec (see
            `parse_all_reduce_spec`), a `Reducer`, or None to choose by the devices. On a machine without GPUs, CPU
            devices and copies replace GPUs and ``"nccl"``; the log says so.
        devices: the device of each tower.

    Shapes:
        devices: K names, one per tower.

    Raises:
        ConfigError: An unknown mode or a malformed spec. The message lists the modes.
        ReductionError: The algorithm does not support this number of towers.

    Source:
        The modes of tensorpack's ``SyncMultiGPUTrainerReplicated``, and the specs of TensorFlow's
        ``MultiWorkerAllReduce``.
    """
    check_instances("reducer_for_mode", "devices", devices, object, least=1, expected="a list of names of devices")
    if isinstance(mode, Reducer):
        return ReducerChoice(mode, f"the reducer {mode.name} was given")
    if mode is None:
        return choose_by_heuristic(devices)
    reason = f"mode {mode!r} was asked for"
    if isinstance(mode, str) and mode in _OWN_NAMES:
        return ReducerChoice(_OWN_NAMES[mode](devices), reason)
    if not _is_spec(mode):
        expected = f"one of {', '.join(REDUCTION_MODES)}, an all-reduce spec, a Reducer or None"
        raise ConfigError(mismatch("reducer_for_mode", "mode", mode, expected))
    entries = parse_all_reduce_spec(mode)
    if any("nccl" in entry.algorithm for entry in entries) and not _have_gpus(devices):
        logger.info(f"Mode {mode!r} needs GPUs for NCCL, and there are none: towers on CPU devices reduce by copies.")
        entries = tuple(replace(e, algorithm=e.algorithm.replace("nccl", _COPYING)) for e in entries)
    return ReducerChoice(reducer_for_entries(entries, devices), reason)


def _is_spec(mode: object) -> bool:
    """Tell whether a mode is an all-reduce spec; the name of an algorithm is the simplest."""
    if isinstance(mode, str):
        return mode in ALGORITHMS or not _SPEC_MARKS.isdisjoint(mode)
    return isinstance(mode, tuple | list | AllReduceSpec)


def _have_gpus(devices: Sequence[str]) -> bool:
    """Tell whether there are GPUs, here or among the devices of the towers."""
    return bool(list_gpus()) or any(tf.DeviceSpec.from_string(device).device_type == "GPU" for device in devices)


def _first_cpu(devices: Sequence[str]) -> str:
    """Return the first CPU device of the first tower's task."""
    first = tf.DeviceSpec.from_string(devices[0] if devices else "")
    return str(first.replace(device_type="CPU", device_index=0).to_string())


def reducer_for_towers(gpus: int | Sequence[int], mode: ReductionMode) -> ReducerChoice:
    """Return the reducer of a mode for a number of towers, or for the numbers of their GPUs; see `reducer_for_mode`."""
    return reducer_for_mode(mode, resolve_devices(gpus))
