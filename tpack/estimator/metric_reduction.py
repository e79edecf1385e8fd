"""Add up the variables in which towers accumulate metrics.

A metric of TensorFlow is a few sums, of hits and of examples for instance, from which its value is computed. Each tower
has its own; added together they are the sums over the whole batch. They are added to those of the first tower, and the
others are set to zero, so that doing it once more changes nothing.
"""

from collections.abc import Sequence
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError
from tpack.reduction.summing import sum_tensors


def reduce_metric_variables(tower_variables: Sequence[Sequence[Any]]) -> Any:
    """Add all towers' metric variables to those of the first tower, and set the others to zero.

    Args:
        tower_variables: K lists of N variables, each list in the order of creation.

    Returns:
        An operation. It runs after the control dependencies that are open.

    Shapes:
        K x N variables; the n-th of all towers have the same shape.

    Raises:
        ConfigError: Towers have different numbers of variables, or of different shapes or dtypes.

    Source:
        The reduction of metrics in the seeds of ``replicate_model_fn``, which knows the towers' variables by their
        positions in one collection.
    """
    if len(tower_variables) == 1:
        return tf.no_op(name="no_eval_metric_reduction")
    _check_alike(tower_variables)
    with tf.name_scope("reduce_metrics"):
        return tf.group(*(_reduce(*column) for column in zip(*tower_variables, strict=True)))


def _reduce(main: Any, *others: Any) -> Any:
    with tf.device(main.device):
        values = [variable.read_value() for variable in others]
        added = main.assign_add(sum_tensors(values) if len(values) > 1 else values[0], read_value=False)
    zeroed = []
    with tf.control_dependencies([added]):
        for variable in others:
            with tf.device(variable.device):
                zeroed.append(variable.assign(tf.zeros(variable.shape, variable.dtype.base_dtype), read_value=False))
    return tf.group(*zeroed)


def _check_alike(tower_variables: Sequence[Sequence[Any]]) -> None:
    main = tower_variables[0]
    for index, variables in enumerate(tower_variables):
        if len(variables) != len(main):
            raise ConfigError(
                "each call of model_fn must make the same eval_metric_ops: tower 0 has "
                f"{len(main)} metric variable(s), tower {index} has {len(variables)}"
            )
        for one, other in zip(main, variables, strict=True):
            if one.shape != other.shape or one.dtype.base_dtype != other.dtype.base_dtype:
                raise ConfigError(
                    f"each call of model_fn must make the same eval_metric_ops: tower 0 has {one!r} where tower "
                    f"{index} has {other!r}"
                )
