"""Dense layers, dropout and flattening: equal to TensorFlow's own, and what tpack adds to them."""

from typing import Any

import numpy as np
import pytest

import tpack.tf1 as tf
from tests.helpers import tf1_layer_cases as cases
from tests.helpers.tf1_oracle import assert_same, original, run_case
from tpack.errors import ConfigError
from tpack.step.step_seeds import let_seeds_follow_steps
from tpack.tower.context import TowerContext


@pytest.mark.parametrize("name", cases.names_of("dense", "dropout", "flatten", "by name"))
def test_layers_equal_the_original(name: str) -> None:
    assert_same(run_case(tf, cases.CASES[name]), original(cases.__file__)[name])


def test_sparse_inputs_are_multiplied(graph: Any, rng: np.random.Generator) -> None:
    x = tf.SparseTensor([[0, 2], [1, 0]], tf.constant([2.0, -1.0]), [2, 3])
    layer = tf.layers.Dense(4, bias_initializer=tf.ones_initializer())
    with tf.Session() as session:
        y = layer(x)
        session.run(tf.global_variables_initializer())
        got, kernel = session.run([y, layer.kernel])
    np.testing.assert_allclose(got, [2 * kernel[2] + 1, 1 - kernel[0]], rtol=1e-6)


def test_arrays_and_whole_floats_are_taken(graph: Any) -> None:
    assert tf.layers.dense(np.ones([2, 3]), 8 / 2).shape.as_list() == [2, 4]


@pytest.mark.parametrize("units", [2.5, 0, -1, "4", True])
def test_units_must_be_a_positive_number(graph: Any, units: Any) -> None:
    with pytest.raises(ConfigError, match="Dense got units"):
        tf.layers.Dense(units)


def test_dropout_in_training_follows_the_step(graph: Any) -> None:
    tf.set_random_seed(7)
    let_seeds_follow_steps()
    step = tf.train.get_or_create_global_step()
    with TowerContext("", is_training=True):
        known = tf.layers.dropout(tf.ones([200]), training=True)
        later = tf.layers.dropout(tf.ones([200]), training=tf.placeholder_with_default(True, []), seed=3)
    values = []
    for number in (5, 6, 5):
        with tf.Session() as session:
            step.load(number, session)
            values.append(session.run([known, later]))
    np.testing.assert_array_equal(values[0], values[2])
    assert all((one != other).any() for one, other in zip(values[0], values[1], strict=True))
    assert (values[0][0] != values[0][1]).any()


@pytest.mark.parametrize(
    ("layer", "shape"),
    [(tf.layers.Dense(4), [None, 3]), (tf.layers.Flatten(), [None, 3, 5]), (tf.layers.Dropout(), [None, 3])],
)
def test_shape_of_the_output_is_told_without_a_graph(graph: Any, layer: Any, shape: Any) -> None:
    made = type(layer)(4) if isinstance(layer, tf.layers.Dense) else type(layer)()
    assert made(tf.placeholder(tf.float32, shape)).shape.as_list() == layer.compute_output_shape(shape).as_list()
