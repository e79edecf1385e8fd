from typing import Any

import pytest
import tensorflow.compat.v1 as tf

from tpack.distribute.values import reduce_op_of
from tpack.errors import ConfigError
from tpack.tower.grads import ReduceOp


@pytest.mark.parametrize("kind", [tf.VariableAggregation, tf.compat.v2.VariableAggregation])
def test_sum_and_mean_are_known(kind: Any) -> None:
    assert reduce_op_of(kind.SUM) is ReduceOp.SUM
    assert reduce_op_of(kind.MEAN) is ReduceOp.MEAN


@pytest.mark.parametrize(
    "other", [tf.VariableAggregation.NONE, tf.VariableAggregation.ONLY_FIRST_TOWER, "mean", None, []]
)
def test_others_are_refused(other: Any) -> None:
    with pytest.raises(ConfigError, match="aggregation got .*: expected tf.VariableAggregation.SUM or"):
        reduce_op_of(other)
