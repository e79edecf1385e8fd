"""The fully connected layer against numpy; its variables, names and errors."""

from typing import Any

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.layer_checks import assert_layer
from tpack.errors import ConfigError
from tpack.models.fc import FullyConnected


@pytest.mark.parametrize("shape", [(3, 5), (3, 2, 2, 3), (4,)])
def test_values_and_gradients(shape: tuple[int, ...], rng: np.random.Generator) -> None:
    def oracle(x: np.ndarray, variables: Any) -> np.ndarray:
        return np.tanh(x.reshape(len(x), -1) @ variables["fc/W"] + variables["fc/b"])

    assert_layer(lambda x, _: FullyConnected("fc", x, 4, activation=tf.tanh), rng.normal(size=shape), oracle)


def test_variables_have_tensorpacks_names_and_shapes(graph: Any) -> None:
    y = FullyConnected("fc0", tf.zeros([2, 3, 4]), out_dim=5, nl=tf.nn.relu)
    assert {v.op.name: v.shape.as_list() for v in tf.trainable_variables()} == {"fc0/W": [12, 5], "fc0/b": [5]}
    assert y.variables.all() == tf.trainable_variables()
    assert (y.op.type, y.name) == ("Relu", "fc0/output:0")


def test_no_more_operations_than_needed(graph: Any) -> None:
    y = FullyConnected("fc", tf.zeros([2, 3]), 5, use_bias=False)
    assert (y.op.type, y.name) == ("MatMul", "fc/output:0")
    assert "Reshape" not in {op.type for op in graph.get_operations() if op.name.startswith("fc/R")}


def test_regularizers_and_initializers_are_used(graph: Any) -> None:
    two, three = tf.constant_initializer(2.0), tf.constant_initializer(3.0)
    regularizers = {f"{what}_regularizer": tf.reduce_sum for what in ("kernel", "bias", "activity")}
    FullyConnected("fc", tf.ones([1, 4]), 5, kernel_initializer=two, bias_initializer=three, **regularizers)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        assert session.run(tf.get_collection(tf.GraphKeys.REGULARIZATION_LOSSES)) == [40, 15, 55]


def test_bfloat16_input_asks_for_bfloat16_variables(graph: Any) -> None:
    y = FullyConnected("fc", tf.ones([1, 4], tf.bfloat16), 5)
    assert {v.dtype.base_dtype for v in y.variables.all()} == {tf.bfloat16}


@pytest.mark.parametrize(
    ("x", "units", "message"),
    [
        (
            lambda: tf.placeholder(tf.float32, [None, None, 3]),
            5,
            r"FullyConnected 'fc' got an input .*: expected known dimensions",
        ),
        (lambda: tf.placeholder(tf.float32), 5, "got an input of shape <unknown>"),
        (lambda: tf.placeholder(tf.float32, []), 5, r"got an input of shape \(\)"),
        (lambda: tf.placeholder(tf.int32, [1, 2]), 5, "got an input of int32 .*: expected floating-point"),
        (lambda: tf.placeholder(tf.float32, [1, 2]), True, "^FullyConnected got units="),
    ],
)
def test_bad_arguments_are_named(graph: Any, x: Any, units: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        FullyConnected("fc", x(), units)
    assert len(graph.get_operations()) == 1
