"""The variables of a layer, and the holder of them."""

from typing import Any

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tpack.models.variables import AffineOptions, VariableHolder, WeightOptions
from tpack.tower.getters import compute_in


def test_options_reach_the_variables(graph: Any) -> None:
    options = WeightOptions(
        kernel_initializer=tf.ones_initializer(),
        bias_initializer=tf.constant_initializer(2.0),
        kernel_regularizer=tf.reduce_sum,
        bias_regularizer=tf.reduce_max,
    )
    variables = options.create(tf.float64, [2, 3], 4)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        kernel, bias = session.run(variables.all())
        assert session.run(tf.get_collection(tf.GraphKeys.REGULARIZATION_LOSSES)) == [6, 2]
    np.testing.assert_array_equal(kernel, np.ones((2, 3)))
    np.testing.assert_array_equal(bias, np.full(4, 2.0))
    assert kernel.dtype == bias.dtype == np.float64


def test_bias_is_left_out(graph: Any) -> None:
    WeightOptions(use_bias=False).create(tf.float32, [2, 3], 4)
    assert [v.op.name for v in tf.global_variables()] == ["W"]


def test_affine_variables_are_not_cast_where_a_model_is_computed_in_16_bits(graph: Any) -> None:
    with compute_in(tf.bfloat16):
        variables = AffineOptions(gamma_initializer=tf.constant_initializer(3.0)).create(2, tf.float32)
        assert AffineOptions(center=False, scale=False).create(2, tf.float32) == {}
    assert list(variables) == ["gamma", "beta"]
    assert all(tf.convert_to_tensor(v).dtype == tf.float32 for v in variables.values())


def test_variables_are_attributes_in_the_order_given() -> None:
    holder = VariableHolder(W=1, b=2)
    holder.gamma = 3
    assert (holder.W, holder.b, holder.gamma) == (1, 2, 3)
    assert holder.all() == [1, 2, 3]
    assert repr(holder) == "VariableHolder(W, b, gamma)"


def test_a_variable_that_is_not_there_lists_the_others() -> None:
    with pytest.raises(AttributeError, match="no variable 'beta' here, only W, b"):
        VariableHolder(W=1, b=2).beta  # noqa: B018


def test_a_variable_given_again_replaces_the_first() -> None:
    holder = VariableHolder(W=1)
    holder.W = 2
    assert holder.all() == [2]
