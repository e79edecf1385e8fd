"""The reduction functions of tensorpack, on top of the reducers.

Arguments, shapes and results are tensorpack's. Unlike the reducers, they return the gradients of one tower unchecked,
as in tensorpack. New code calls a `Reducer`; or, where towers share their variables, a `ColocatedReduction`.
"""

from collections.abc import Sequence

import tensorflow.compat.v1 as tf

from tpack.errors import ReductionError
from tpack.reduction.gradients import check_columns
from tpack.reduction.modes import reducer_for_mode
from tpack.reduction.names import reducer_class
from tpack.reduction.sums import on_device, on_device_of, sum_column
from tpack.tower.devices import resolve_device
from tpack.tower.grads import Gradient, ReduceOp
from tpack.types import GradsAndVars
from tpack.utils.validation import check_arguments, mismatch


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
