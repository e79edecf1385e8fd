"""Reduce gradients of variables that all towers share: one result for each variable, where the variable is.

With shared variables, no tower needs a copy of the result; only the one update does. This is parameter-server training
inside one machine: the placement of the variables decides where the sums run.
"""

from collections.abc import Sequence
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.errors import ReductionError
from tpack.reduction.gradients import check_columns
from tpack.reduction.reduce_op import ReduceOp
from tpack.reduction.summing import sum_column
from tpack.reduction.sums import on_device_of


class ColocatedReduction:
    """Reduce K lists of (gradient, variable) to one list, each gradient on the device of its variable.

    It is no `Reducer`, because it returns one list and not K.

    Source:
        ``aggregate_grads_colocate`` of tensorpack's graph builder.
    """

    name = "colocated"

    def reduce(
        self, tower_grads_and_vars: Sequence[Sequence[tuple[Any, Any]]], op: ReduceOp = ReduceOp.MEAN
    ) -> list[tuple[Any, Any]]:
        """Reduce the gradients of shared variables over the towers.

        Args:
            tower_grads_and_vars: for each tower a list of (gradient, variable), with the same variables.
            op: sum or mean over the towers.

        Returns:
            A list of (gradient, variable). With one tower, its own.

        Shapes:
            tower_grads_and_vars: K x N x 2; returned: N x 2.

        Raises:
            ReductionError: The gradients are no full rectangle of alike tensors, integers are to be averaged, or towers
                have different variables.
        """
        columns = check_columns([[grad for grad, _ in tower] for tower in tower_grads_and_vars], op)
        variables = [variable for _, variable in tower_grads_and_vars[0]]
        for k, tower in enumerate(tower_grads_and_vars):
            for n, (_, variable) in enumerate(tower):
                if variable.name != variables[n].name:
                    raise ReductionError(
                        f"variable {n} of tower {k} is {variable.name}, and that of tower 0 is {variables[n].name}: "
                        "wanted variables that all towers share"
                    )
        if len(tower_grads_and_vars) == 1:
            return [(grad, variable) for grad, variable in tower_grads_and_vars[0]]
        reduced = []
        with tf.name_scope(self.name):
            for column, variable in zip(columns, variables, strict=True):
                with on_device_of(variable):
                    reduced.append((sum_column(column, op), variable))
        return reduced
