"""Sum the gradients of towers that share their variables, each on the device of its variable."""

from collections.abc import Sequence
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError
from tpack.reduction.columns import is_sparse
from tpack.reduction.reduce_op import ReduceOp
from tpack.reduction.summing import sum_column


def sum_tower_gradients(tower_grads: Sequence[Sequence[tuple[Any, Any]]]) -> list[tuple[Any, Any]]:
    """Sum K towers' gradients of each variable.

    Gradients that are ``IndexedSlices`` in all towers stay so; where only some are, they are made dense.

    Args:
        tower_grads: K lists of (gradient or None, variable) pairs of the same variables.

    Returns:
        One pair for each variable that has a gradient in any tower, in the order in which they are met.

    Shapes:
        K x N x 2 to at most N x 2.

    Raises:
        ConfigError: No variable has a gradient.

    Source:
        The aggregation of gradients in the seeds of ``replicate_model_fn``.
    """
    columns: dict[int, tuple[Any, list[Any]]] = {}
    for pairs in tower_grads:
        for grad, variable in pairs:
            if grad is not None:
                columns.setdefault(id(variable), (variable, []))[1].append(grad)
    if not columns:
        names = ", ".join(variable.op.name for _, variable in tower_grads[0]) or "none"
        raise ConfigError(f"no tower has a gradient of any variable to train; the first tower's variables are: {names}")
    with tf.name_scope("gradient_aggregating"):
        return [(_sum_on_device(grads, variable.device), variable) for variable, grads in columns.values()]


def _sum_on_device(grads: list[Any], device: str) -> Any:
    with tf.device(device):
        if any(map(is_sparse, grads)) and not all(map(is_sparse, grads)):
            grads = [tf.convert_to_tensor(grad) for grad in grads]
        return sum_column(grads, ReduceOp.SUM)
