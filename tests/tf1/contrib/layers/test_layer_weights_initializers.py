"""Initial values by the number of inputs and outputs."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.contrib_layers import run
from tpack.errors import WrongTypeError
from tpack.tf1.contrib import layers


@pytest.mark.parametrize(("mode", "fan"), [("FAN_IN", 9 * 40), ("FAN_OUT", 9 * 60), ("FAN_AVG", 9 * 50)])
def test_the_variance_is_the_factor_by_the_fan(graph, mode, fan):
    made = [
        layers.variance_scaling_initializer(3.0, mode, uniform, seed=1)([3, 3, 40, 60]) for uniform in (True, False)
    ]
    uniform, normal = run(made)
    assert np.abs(uniform).max() == pytest.approx(np.sqrt(3 * 3.0 / fan), rel=1e-3)
    # TensorFlow's factor of 1.3 makes up for what is cut at two deviations.
    assert np.abs(normal).max() == pytest.approx(2 * np.sqrt(1.3 * 3.0 / fan), rel=0.02)
    for value in (uniform, normal):
        assert value.std() == pytest.approx(np.sqrt(3.0 / fan), rel=0.02)


def test_xavier_and_parts_of_a_variable(graph):
    values = run([layers.xavier_initializer(seed=1)([50, 150]), layers.xavier_initializer_conv2d(False, 1)([5])])
    assert np.abs(values[0]).max() == pytest.approx(np.sqrt(6 / 200), rel=1e-3)
    assert values[1].shape == (5,)
    with tf.variable_scope("p", partitioner=tf.fixed_size_partitioner(2)):
        parts = tf.get_variable("w", [100, 100], initializer=layers.xavier_initializer())
    assert np.abs(run(tf.convert_to_tensor(parts))).max() == pytest.approx(np.sqrt(6 / 200), rel=1e-2)


def test_what_cannot_be_is_refused():
    with pytest.raises(WrongTypeError, match="expected FAN_IN"):
        layers.variance_scaling_initializer(mode="fan")
    with pytest.raises(WrongTypeError, match="floating-point"):
        layers.xavier_initializer(dtype=tf.int32)
