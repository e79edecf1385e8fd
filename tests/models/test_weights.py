"""The two variables of a layer, and the number of what comes out."""

from typing import Any

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError
from tpack.models.weights import WeightOptions, check_units


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


@pytest.mark.parametrize("units", [3, np.int64(3)])
def test_integers_of_all_kinds_are_numbers_of_units(units: Any) -> None:
    assert check_units("Conv2D", "filters", units) == 3


@pytest.mark.parametrize("units", [0, -1, 2.0, "3", None, True])
def test_other_things_are_not(graph: Any, units: Any) -> None:
    with pytest.raises(ConfigError, match="Conv2D wants a positive number of filters, got"):
        check_units("Conv2D", "filters", units)
