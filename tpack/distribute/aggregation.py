"""From TensorFlow's way to say how variables and values are aggregated to the reducers'."""

from typing import Any

import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError
from tpack.reduction.gradients import ReduceOp

# By value, since TensorFlow 1 and 2 have an enumeration each, of the same values.
_KINDS = (tf.VariableAggregation, tf.compat.v2.VariableAggregation)
_REDUCE_OPS = {tf.VariableAggregation.SUM.value: ReduceOp.SUM, tf.VariableAggregation.MEAN.value: ReduceOp.MEAN}


def reduce_op_of(aggregation: Any) -> ReduceOp:
    """Return the reduction that an aggregation stands for.

    Args:
        aggregation: ``tf.VariableAggregation.SUM`` or ``tf.VariableAggregation.MEAN``, of TensorFlow 1 or 2.

    Raises:
        ConfigError: It is something else.
    """
    if not isinstance(aggregation, _KINDS) or aggregation.value not in _REDUCE_OPS:
        raise ConfigError(
            f"wanted tf.VariableAggregation.SUM or tf.VariableAggregation.MEAN as the aggregation, got {aggregation!r}"
        )
    return _REDUCE_OPS[aggregation.value]
