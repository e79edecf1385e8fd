"""Costs of weights against numpy, in each tower for the variables that it uses."""

from typing import Any

import keras
import numpy as np
import pytest
import tensorflow.compat.v1 as tf
import tf_keras

import tpack.tf1 as tf1
from tests.helpers.log_lines import captured_log
from tpack.errors import ConfigError
from tpack.models.fc import FullyConnected
from tpack.models.regularize import (
    add_keras_losses,
    l1_regularizer,
    l2_regularizer,
    regularize_cost,
    regularize_cost_from_collection,
)
from tpack.tower.context import PredictTowerContext, TowerContext, TrainTowerContext

VALUE = np.array([[1.0, -2.0], [3.0, 0.0]])


@pytest.mark.parametrize(
    ("regularizer", "cost", "grad"),
    [
        (l1_regularizer(0.5), 3.0, 0.5 * np.sign(VALUE)),
        (l2_regularizer(0.5), 3.5, 0.5 * VALUE),
        (l1_regularizer(), 0.06, 0.01 * np.sign(VALUE)),
    ],
)
def test_regularizers(graph: Any, regularizer: Any, cost: float, grad: np.ndarray) -> None:
    for dtype in (tf.float64, tf.float32, tf.bfloat16):
        x = tf.constant(VALUE, dtype)
        y = regularizer(x)
        assert y.dtype == (tf.float64 if dtype == tf.float64 else tf.float32)
        with tf.Session() as session:
            got, slope = session.run([y, tf.cast(tf.gradients(y, x)[0], tf.float64)])
        np.testing.assert_allclose(got, cost, rtol=1e-6)
        np.testing.assert_allclose(slope, grad, rtol=1e-6 if dtype != tf.bfloat16 else 1e-2)


def make_variables() -> None:
    for name, trainable in (("fc0/W", True), ("fc0/b", True), ("fc1/W", True), ("fc1/W_frozen", False)):
        tf.get_variable(name, initializer=np.float32(3.0), trainable=trainable)


def evaluate(*tensors: Any) -> list[float]:
    with tf.Session() as session:
        session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
        return [float(value) for value in session.run(list(tensors))]


@pytest.mark.parametrize(("regex", "cost"), [("fc.*/W", 6), ("^fc0/", 6), (".*", 9), ("fc1/W$", 3), ("conv", 0)])
def test_cost_of_matching_trainable_variables(graph: Any, regex: str, cost: float) -> None:
    make_variables()
    with captured_log() as lines:
        total = regularize_cost(regex, tf.reduce_sum)
    assert evaluate(total) == [cost]
    assert total.op.name == ("regularize_cost" if cost else "empty_regularize_cost")
    assert f"finds {cost // 3} variables" in lines[0]


@pytest.mark.parametrize("own_variables", [False, True])
def test_each_tower_pays_for_its_own_variables(graph: Any, own_variables: bool) -> None:
    costs = []
    with captured_log() as lines:
        for index in range(3):
            vs_name = f"tower{index}" if own_variables and index else ""
            reuse = not own_variables and index > 0
            with TowerContext(f"tower{index}", True, vs_name, index=index, total=3, reuse=reuse) as tower:
                make_variables()
                costs.append(regularize_cost("^fc0/W", tf.reduce_sum, name="cost"))
                variables = tower.get_collection_in_tower(tf.GraphKeys.TRAINABLE_VARIABLES)
                grads = tf.gradients(costs[-1], variables)
                assert [
                    v.op.name.removeprefix(f"{vs_name}/")
                    for v, g in zip(variables, grads, strict=True)
                    if g is not None
                ] == ["fc0/W"]
    assert [cost.op.name for cost in costs] == [f"tower{index}/cost" for index in range(3)]
    assert evaluate(*costs) == [3, 3, 3]
    assert len(lines) == 1


def test_collection_holds_what_layers_gave_in_each_tower(graph: Any) -> None:
    costs = []
    for index in range(2):
        with TowerContext(f"t{index}", True, index=index, total=2, reuse=index > 0):
            FullyConnected(
                "fc",
                tf.ones([1, 2]),
                3,
                kernel_initializer=tf.ones_initializer(),
                kernel_regularizer=l2_regularizer(2.0),
            )
            costs.append(regularize_cost_from_collection())
    assert evaluate(*costs) == [6, 6]


def test_collection_may_hold_other_dtypes_or_nothing(graph: Any) -> None:
    empty = regularize_cost_from_collection("cost")
    totals = []
    for dtype in (tf.bfloat16, tf.float32, tf.float64):
        tf.add_to_collection(tf.GraphKeys.REGULARIZATION_LOSSES, tf.constant(2, dtype))
        totals.append(regularize_cost_from_collection())
    assert evaluate(empty, *totals) == [0, 2, 4, 6]
    assert [total.dtype for total in totals] == [tf.float32, tf.float32, tf.float64]
    assert empty.op.name == "empty_cost"


def test_zero_can_be_added_to_the_cost_of_a_float64_model(graph: Any) -> None:
    weight = tf.get_variable("W", [2], tf.float64, tf.ones_initializer())
    with TowerContext("", is_training=False):
        cost = tf.reduce_sum(weight) + regularize_cost("W", tf.reduce_sum) + regularize_cost_from_collection()
    assert evaluate(cost, regularize_cost("no such name", tf.reduce_sum)) == [2, 0]


def test_prediction_costs_nothing(graph: Any) -> None:
    with TowerContext("", is_training=False):
        make_variables()
        tf.add_to_collection(tf.GraphKeys.REGULARIZATION_LOSSES, tf.constant(1.0))
        assert evaluate(regularize_cost(".*", tf.reduce_sum), regularize_cost_from_collection()) == [0, 0]


KEY = tf.GraphKeys.REGULARIZATION_LOSSES


@pytest.mark.parametrize("module", [keras, tf_keras])
def test_losses_of_layers_and_models_are_collected(session8, module):
    layers, l2 = module.layers, module.regularizers.L2(0.5)
    with TrainTowerContext(""):
        dense = layers.Dense(2, kernel_regularizer=l2, kernel_initializer="ones")
        net = module.Sequential([layers.Dense(3, bias_regularizer=l2, bias_initializer="ones"), layers.Dense(1)])
        net(dense(tf.ones([1, 4])))
        losses = add_keras_losses(dense, net)
        assert tf.get_collection(KEY)[-2:] == losses
    session8.run(tf.global_variables_initializer())
    np.testing.assert_allclose(session8.run(losses), [4.0, 1.5])


def test_losses_that_are_there_are_not_added_again(session8):
    layer = tf1.layers.Dense(2, kernel_regularizer=keras.regularizers.L2(0.5), kernel_initializer="ones")
    with TrainTowerContext(""):
        layer(tf.ones([1, 4]))
        losses = add_keras_losses(layer)
        assert add_keras_losses(layer) == losses == tf.get_collection(KEY)
    session8.run(tf.global_variables_initializer())
    np.testing.assert_allclose(session8.run(losses), [4.0])


def test_a_prediction_tower_adds_nothing(graph):
    dense = keras.layers.Dense(2, kernel_regularizer="l2")
    with PredictTowerContext(""):
        dense(tf.ones([1, 4]))
        assert add_keras_losses(dense) == []
        assert tf.get_collection(KEY) == []


def test_what_is_no_layer_is_an_error(graph):
    with pytest.raises(ConfigError, match="got layers=3: expected Keras layers or models"):
        add_keras_losses(3)
