"""From TensorFlow's way to say how variables and values are aggregated to the reducers'."""

from typing import Any

import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError
from tpack.reduction.reduce_op import ReduceOp

_REDUCE_OPS = {tf.VariableAggregation.SUM: ReduceOp.SUM, tf.VariableAggregation.MEAN: ReduceOp.MEAN}


def reduce_op_of(aggregation: Any) -> ReduceOp:
    """Return the reduction that an aggregation stands for.

    Args:
        aggregation: ``tf.VariableAggregation.SUM`` or ``tf.VariableAggregation.MEAN``.

    Raises:
        ConfigError: It is something else.
    """
    if not isinstance(aggregation, tf.VariableAggregation) or aggregation not in _REDUCE_OPS:
        raise ConfigError(
            f"wanted tf.VariableAggregation.SUM or tf.VariableAggregation.MEAN as the aggregation, got {aggregation!r}"
        )
    return _REDUCE_OPS[aggregation]
