"""The modes by which scripts ask trainers for a reduction: the one place where such text is read.

A mode is a name, an all-reduce spec, a reducer, or None. Further down there are only objects. The default moves the
fewest bytes over each link that the usual machines have, and is never NCCL.
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
from tpack.utils.validation import check_arguments, check_instances

ReductionMode: TypeAlias = str | SpecEntry | list[SpecEntry] | Reducer | None
"""What scripts may ask for."""

_OWN_NAMES: dict[str, Callable[[Sequence[str]], Reducer]] = {
    "auto": lambda devices: reducer_class("autotune.autotune:AutoReducer")(),
    "cpu": lambda devices: OneDeviceReducer(_first_cpu(devices)),
    "gpu": lambda devices: RoundRobinReducer(),
}
"""The modes that are no algorithms."""

REDUCTION_MODES = (*_OWN_NAMES, *ALGORITHMS)
"""Every mode of one word that `reducer_for_mode` knows."""

_COPYING = "round_robin"
"""The algorithm in the place of NCCL where there are no GPUs: what `choose_by_heuristic` takes for CPU devices."""

_SPEC_MARKS = frozenset("#:/")


@check_arguments
def reducer_for_mode(mode: ReductionMode, devices: Sequence[str]) -> ReducerChoice:
    """Return the reducer that a mode stands for.

    Args:
        mode: ``"auto"`` (measured when the gradients are known), ``"cpu"`` (sum on the first CPU device), ``"gpu"``
            (towers take turns), the name of an algorithm (see `make_reducer`), an all-reduce spec (see
            `parse_all_reduce_spec`), a `Reducer`, or None to choose by the devices. Where there are no GPUs, CPU
            devices stand in for them, and copies for ``"nccl"``; a line in the log says so.
        devices: the device of each tower.

    Returns:
        The reducer and the reason as text.

    Shapes:
        devices: K names, one for each tower.

    Raises:
        ConfigError: There is no such mode, or the spec cannot be read. The message says what there is.
        ReductionError: The algorithm cannot serve this number of towers.

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
        raise ConfigError(
            f"expected one of {', '.join(REDUCTION_MODES)}, an all-reduce spec, a Reducer or None as the mode, "
            f"got {mode!r}"
        )
    entries = parse_all_reduce_spec(mode)
    if any("nccl" in entry.algorithm for entry in entries) and _stand_in_for_gpus(devices):
        logger.info(
            f"There are no GPUs for NCCL here: in mode {mode!r}, towers on CPU devices reduce by copies instead."
        )
        entries = tuple(replace(e, algorithm=e.algorithm.replace("nccl", _COPYING)) for e in entries)
    return ReducerChoice(reducer_for_entries(entries, devices), reason)


def _is_spec(mode: object) -> bool:
    """Tell whether a mode is meant as an all-reduce spec, of which the name of an algorithm is the simplest."""
    if isinstance(mode, str):
        return mode in ALGORITHMS or not _SPEC_MARKS.isdisjoint(mode)
    return isinstance(mode, tuple | list | AllReduceSpec)


def _stand_in_for_gpus(devices: Sequence[str]) -> bool:
    """Tell whether there are no GPUs, neither here nor among the devices of the towers."""
    return not list_gpus() and all(tf.DeviceSpec.from_string(device).device_type != "GPU" for device in devices)


def _first_cpu(devices: Sequence[str]) -> str:
    """Return the first CPU device of the task where the first tower is."""
    first = tf.DeviceSpec.from_string(devices[0] if devices else "")
    return str(first.replace(device_type="CPU", device_index=0).to_string())


def reducer_for_towers(gpus: int | Sequence[int], mode: ReductionMode) -> ReducerChoice:
    """Return the reducer that a mode stands for, and why it is taken.

    Args:
        gpus: how many towers, or the numbers of their GPUs.
        mode: what a script has asked for.
    """
    return reducer_for_mode(mode, resolve_devices(gpus))
