"""The reduction modes of trainers: the one place where their text is parsed; and tensorpack's functions on them.

A mode is a name, an all-reduce spec, a reducer, or None; below there are only objects. The default follows the kinds of
the devices: it moves the fewest bytes over each link of the usual machines, and is never NCCL.

Arguments, shapes and results of the functions are tensorpack's. Unlike the reducers, they return the gradients of one
tower unchecked. New code calls a `Reducer`; or, where towers share their variables, a `ColocatedReduction`.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeAlias

import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError, ReductionError
from tpack.reduction.algorithms.one_device import OneDeviceReducer, RoundRobinReducer
from tpack.reduction.base import Reducer
from tpack.reduction.gradients import check_columns
from tpack.reduction.names import ALGORITHMS, ReducerChoice, choose_by_heuristic, reducer_class
from tpack.reduction.spec import AllReduceSpec, SpecEntry, parse_all_reduce_spec, reducer_for_entries
from tpack.reduction.sums import on_device, on_device_of, sum_column
from tpack.tower.devices import list_gpus, resolve_device, resolve_devices
from tpack.tower.grads import Gradient, ReduceOp
from tpack.types import GradsAndVars
from tpack.utils import logger
from tpack.utils.validation import check_arguments, check_instances, mismatch

ReductionMode: TypeAlias = str | SpecEntry | list[SpecEntry] | Reducer | None
"""The forms of a mode."""

_OWN_NAMES: dict[str, Callable[[Sequence[str]], Reducer]] = {
    "auto": lambda devices: reducer_class("autotune.autotune:AutoReducer")(),
    "cpu": lambda devices: OneDeviceReducer(_first_cpu(devices)),
    "gpu": lambda devices: RoundRobinReducer(),
    "adasum": lambda devices: reducer_class("algorithms.adasum:AdasumReducer")(),
}
"""The modes beside the algorithms, which compute sums and means and are parts of specs."""

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
            (towers take turns), ``"adasum"`` (see `AdasumReducer`), the name of an algorithm (see `make_reducer`), an
            all-reduce spec (see `parse_all_reduce_spec`), a `Reducer`, or None to choose by the devices. On a machine
            without GPUs, CPU devices and copies replace GPUs and ``"nccl"``; the log says so.
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


@check_arguments
def allreduce_grads(
    all_grads: Sequence[Sequence[Gradient | None]], average: bool, mode: str = "nccl"
) -> Sequence[Sequence[Gradient]]:
    """Reduce gradients over K devices; each result is on the device of the gradient that it replaces.

    Args:
        all_grads: one list of gradients per device.
        average: average instead of sum.
        mode: ``"nccl"``, ``"collective"``, or another mode of `reducer_for_mode`.

    Shapes:
        all_grads: K x N; returned: K x N.

    Raises:
        ConfigError: An unknown mode.
        ReductionError: The gradients differ between the devices, or the mode does not support them.

    Source:
        tensorpack's graph builder.
    """
    # A variable that the cost does not depend on has no gradient.
    devices = [next((grad.device for grad in tower if grad is not None), "") for tower in all_grads]
    reducer = reducer_for_mode(mode, devices).reducer
    if len(all_grads) == 1:
        return all_grads
    with tf.name_scope("AllReduceGrads"):
        return reducer.reduce(all_grads, _op(average))


@check_arguments
def allreduce_grads_hierarchical(
    all_grads: Sequence[Sequence[Gradient | None]], devices: Sequence[str], average: bool = False
) -> list[list[Gradient]]:
    """Reduce gradients over two groups of devices, as suits a DGX-1; results are placed as by `allreduce_grads`.

    Args:
        all_grads: one list of gradients per device.
        devices: the K devices: an even number, or a single one, whose gradients are returned as they are.
        average: average instead of sum.

    Shapes:
        all_grads: K x N; devices: K; returned: K x N.

    Raises:
        ReductionError: The gradients differ between the devices, or the number of devices is odd or not that of the
            lists.

    Source:
        tensorpack's graph builder.
    """
    reducer = reducer_class("algorithms.composite:HierarchicalReducer")(devices)
    with tf.name_scope("AllReduceGradsHierarchical"):
        return reducer.reduce(all_grads, _op(average))


@check_arguments
def allreduce_grads_naive(
    all_grads: Sequence[Sequence[Gradient | None]], devices: Sequence[str] | None = None, average: bool = True
) -> Sequence[Gradient]:
    """Reduce gradients to one list, on the current device or on several devices in turn.

    Args:
        all_grads: one list of gradients per tower.
        devices: devices that take turns, the first for the last gradient; None for the current device.
        average: average instead of sum.

    Shapes:
        all_grads: K x N; returned: N.

    Raises:
        ReductionError: The gradients differ between the towers, or the list of devices is empty.

    Source:
        tensorpack's graph builder.
    """
    if devices is not None and not devices:
        expected = "a list of devices, or None for the current one"
        raise ReductionError(mismatch("allreduce_grads_naive", "devices", devices, expected))
    if len(all_grads) == 1:
        return all_grads[0]
    columns = check_columns(all_grads, _op(average))
    reduced = []
    with tf.name_scope("AllReduceNaive"):
        for turn, column in enumerate(reversed(columns)):
            if devices is None:
                reduced.append(sum_column(column, _op(average)))
            else:
                with on_device(resolve_device(devices[turn % len(devices)])):
                    reduced.append(sum_column(column, _op(average)))
    return reduced[::-1]


@check_arguments
def aggregate_grads_colocate(all_grads: Sequence[GradsAndVars], average: bool = True) -> GradsAndVars:
    """Reduce gradients of shared variables, each on the device of its variable.

    Args:
        all_grads: for each tower a list of (gradient, variable), with the same variables.
        average: average instead of sum.

    Shapes:
        all_grads: K x N x 2; returned: N x 2.

    Raises:
        ReductionError: The gradients or the variables differ between the towers.

    Source:
        tensorpack's graph builder.
    """
    if len(all_grads) == 1:
        return all_grads[0]
    with tf.name_scope("AggregateGradsColocate"):
        return ColocatedReduction().reduce(all_grads, _op(average))


class ColocatedReduction:
    """A reduction of K lists of (gradient, variable) to one list, each gradient on the device of its variable.

    With shared variables, only the one update needs the result, and no tower a copy. This is parameter-server training
    inside one machine: the placement of the variables decides where the sums run. It is not a `Reducer`, because it
    returns one list and not K.

    Source:
        ``aggregate_grads_colocate`` of tensorpack's graph builder.
    """

    name = "colocated"

    def reduce(self, tower_grads_and_vars: Sequence[GradsAndVars], op: ReduceOp = ReduceOp.MEAN) -> GradsAndVars:
        """Reduce the gradients of shared variables over the towers to one list; that of one tower is returned as is.

        Args:
            tower_grads_and_vars: for each tower a list of (gradient, variable), with the same variables.
            op: sum or mean over the towers.

        Shapes:
            tower_grads_and_vars: K x N x 2; returned: N x 2.

        Raises:
            ReductionError: The gradients are not a full rectangle of alike tensors, integers are to be averaged, or
                towers have different variables.
        """
        columns = check_columns([[grad for grad, _ in tower] for tower in tower_grads_and_vars], op)
        variables = [variable for _, variable in tower_grads_and_vars[0]]
        for k, tower in enumerate(tower_grads_and_vars):
            for n, (_, variable) in enumerate(tower):
                if variable.name != variables[n].name:
                    raise ReductionError(
                        f"variable {n} of tower {k} is {variable.name}, and that of tower 0 is {variables[n].name}: "
                        "expected variables that all towers share"
                    )
        if len(tower_grads_and_vars) == 1:
            return [(grad, variable) for grad, variable in tower_grads_and_vars[0]]
        reduced = []
        with tf.name_scope(self.name):
            for column, variable in zip(columns, variables, strict=True):
                with on_device_of(variable):
                    reduced.append((sum_column(column, op), variable))
        return reduced


def _op(average: bool) -> ReduceOp:
    return ReduceOp.MEAN if average else ReduceOp.SUM
