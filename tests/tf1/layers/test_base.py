"""The base of layers: scopes, reuse, collections and losses as TensorFlow has them, and what a user's layer can ask."""

import copy
from typing import Any

import numpy as np
import pytest
import tensorflow

import tpack.tf1 as tf
from tests.helpers import tf1_layer_cases as cases
from tests.helpers.tf1_oracle import assert_same, numbers, original, run_case
from tpack.errors import ConfigError
from tpack.tower.context import TowerContext


@pytest.mark.parametrize("name", ["objects", "reused", "scoped", "derived"])
def test_layers_equal_the_original(name: str) -> None:
    assert_same(run_case(tf, cases.CASES[name]), original(cases.__file__)[name])


@pytest.mark.parametrize("name", cases.REFUSED)
def test_what_the_original_refuses_is_refused_by_an_error_of_its_kind(name: str) -> None:
    result = run_case(tf, cases.CASES[name])
    assert result.error
    assert_same(result, original(cases.__file__)[name])


class Counting(tf.layers.Layer):
    def build(self, input_shape: Any) -> None:
        self.factor = self.add_weight("factor", [2], regularizer=tf.reduce_sum)
        self.count = self.add_variable("count", [], initializer=tf.zeros_initializer(), trainable=False)

    def call(self, inputs: Any) -> Any:
        self.add_loss(tf.reduce_mean(inputs), inputs=inputs)
        self.add_loss([tf.reduce_sum(self.factor), None])
        self.add_update(tf.assign_add(self.count, tf.reduce_sum(inputs)))
        self.add_update([tf.assign_add(self.count, 1.0)])
        return inputs * self.factor


def test_a_layer_tells_what_it_has(graph: Any) -> None:
    layer = Counting()
    assert (layer.built, layer.graph, layer.dtype, layer.weights) == (False, None, None, [])
    x, y = numbers(tf, [3, 2]), numbers(tf, [4, 2])
    layer(x), layer(y)
    assert (layer.built, layer.graph, layer.dtype) == (True, graph, "float32")
    assert (layer.name, layer.scope_name) == ("counting_1", "counting")
    assert layer.trainable_weights == layer.trainable_variables == [layer.factor]
    assert layer.non_trainable_weights == layer.non_trainable_variables == [layer.count]
    assert layer.weights == layer.variables == [layer.factor, layer.count]
    assert layer.count_params() == 3
    of_x, of_none, of_y, of_none_again, of_factor = layer.losses
    assert [of_factor, of_x, of_none, of_y, of_none_again] == tf.losses.get_regularization_losses()
    assert layer.get_losses_for(x) == [of_x]
    assert set(layer.get_losses_for(None)) == {of_none, of_none_again, of_factor}
    assert layer.updates == tf.get_collection(tf.GraphKeys.UPDATE_OPS)
    assert layer.get_updates_for(y) == layer.updates[2:3]
    assert layer.get_updates_for(None) == [layer.updates[1], layer.updates[3]]


def test_a_layer_that_is_not_trained_has_no_updates(graph: Any) -> None:
    layer = Counting(trainable=False)
    layer(numbers(tf, [3, 2]))
    assert layer.updates == tf.get_collection(tf.GraphKeys.UPDATE_OPS) == []
    assert layer.trainable_weights == []
    assert layer.non_trainable_weights == layer.weights
    assert tf.trainable_variables() == []


def test_copies_of_a_layer_have_variables_of_their_own(graph: Any) -> None:
    layer = tf.layers.Dense(3)
    twin = copy.deepcopy(layer)
    layer(numbers(tf, [2, 3]))
    twin(numbers(tf, [2, 3]))
    assert [v.op.name for v in tf.global_variables()] == [
        "dense/kernel",
        "dense/bias",
        "dense_1/kernel",
        "dense_1/bias",
    ]


def test_a_layer_in_a_loop_has_its_variables_and_losses_outside(graph: Any) -> None:
    layer = tf.layers.Dense(2, kernel_regularizer=tf.nn.l2_loss)
    y = tf.while_loop(lambda i, _: i < 3, lambda i, y: (i + 1, layer(y)), (0, numbers(tf, [2, 2])))[1]
    (loss,) = tf.losses.get_regularization_losses()
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        value, kernel, got = session.run([numbers(tf, [2, 2]), layer.kernel, y])
        np.testing.assert_allclose(got, value @ kernel @ kernel @ kernel, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(session.run(loss), (kernel**2).sum() / 2, rtol=1e-6)


def test_a_tower_for_prediction_adds_no_losses_and_no_updates(graph: Any) -> None:
    def model() -> Any:
        x = tf.layers.dense(numbers(tf, [2, 2]), 2, kernel_regularizer=tf.nn.l2_loss)
        return tf.layers.batch_normalization(x, training=True)

    with TowerContext("", is_training=True):
        model()
    before = [len(tf.get_collection(key)) for key in (tf.GraphKeys.REGULARIZATION_LOSSES, tf.GraphKeys.UPDATE_OPS)]
    assert before == [1, 2]
    with TowerContext("predict", is_training=False, reuse=True):
        model()
    assert before == [len(tf.get_collection(k)) for k in (tf.GraphKeys.REGULARIZATION_LOSSES, tf.GraphKeys.UPDATE_OPS)]


def test_outside_of_a_graph_the_error_says_what_to_do() -> None:
    assert tensorflow.executing_eagerly()
    with pytest.raises(ConfigError, match="outside of a graph"):
        tf.layers.Dense(3)(np.ones([2, 3], "float32"))


def test_a_class_that_does_not_say_its_shapes_is_named() -> None:
    with tf.Graph().as_default(), pytest.raises(NotImplementedError, match="Layer does not say what shape"):
        tf.layers.Layer().compute_output_shape([2])
