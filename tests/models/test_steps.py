"""The last operation of a layer has the name ``output``, whatever it is."""

from typing import Any

import pytest
import tensorflow.compat.v1 as tf

from tpack.errors import WrongTypeError
from tpack.models.fc import FullyConnected
from tpack.models.registry import layer_register
from tpack.models.steps import activation_steps, run_steps, with_bias
from tpack.models.variables import VariableHolder
from tpack.tower.context import TowerContext

LOSSES = tf.GraphKeys.REGULARIZATION_LOSSES


@layer_register(use_scope=None)
def StepsReLU(x: Any, name: str | None = None) -> Any:  # noqa: N802
    return tf.nn.relu(x, name=name)


class Callable:
    """An activation that says nothing about its arguments."""

    __signature__ = "none"

    def __call__(self, x: Any) -> Any:
        return tf.nn.relu(x)


def run(*activations: Any) -> Any:
    with tf.variable_scope("a"), tf.variable_scope("layer"):
        return run_steps(tf.zeros([2]), [step for a in activations for step in activation_steps(a)])


@pytest.mark.parametrize(
    "activation",
    [tf.nn.relu, tf.nn.leaky_relu, tf.sigmoid, tf.identity, StepsReLU, lambda x, name=None: tf.tanh(x, name)],
)
def test_an_activation_that_takes_a_name_gets_it(graph: Any, activation: Any) -> None:
    output = run(tf.abs, activation)
    assert output.name == "a/layer/output:0"
    assert not [op for op in graph.get_operations() if op.type == "Identity" and activation is not tf.identity]


@pytest.mark.parametrize("activation", [lambda x: tf.nn.relu(x), Callable(), lambda x, name: tf.tanh(x)])
def test_one_that_does_not_use_it_is_followed_by_an_identity(graph: Any, activation: Any) -> None:
    output = run(activation)
    assert output.name == "a/layer/output:0"
    assert output.op.type == "Identity"


def test_the_name_may_be_at_the_top(graph: Any) -> None:
    assert run_steps(tf.zeros([2]), activation_steps(tf.nn.relu)).name == "output:0"


def test_no_activation_is_no_step() -> None:
    assert activation_steps(None) == []


@pytest.mark.parametrize("wrong", [{"activation": "relu"}, {"activity_regularizer": "l2"}])
def test_what_is_no_function_is_refused_before_the_layer_is_made(graph: Any, wrong: Any) -> None:
    (name,) = wrong
    with pytest.raises(WrongTypeError, match=f"FullyConnected got {name}='.*': expected a function or None"):
        FullyConnected("fc", tf.ones([2, 3]), 4, **wrong)
    assert tf.global_variables() == []


def test_output_is_regularised_except_in_prediction(graph: Any) -> None:
    for index, is_training in enumerate((True, False)):
        with TowerContext(f"t{index}", is_training=is_training):
            run_steps(tf.ones([2]), activation_steps(tf.nn.relu, tf.reduce_sum))
            run_steps(tf.ones([2]), activation_steps(None, lambda x: None))
            assert len(tf.get_collection(LOSSES)) == is_training
    run_steps(tf.ones([2]), activation_steps(None, tf.reduce_sum))
    with tf.Session() as session:
        assert session.run(tf.get_collection(LOSSES)) == [2, 2]


@pytest.mark.parametrize("data_format", ["NHWC", "NCHW"])
def test_bias_is_added_in_the_format_if_there_is_one(graph: Any, data_format: str) -> None:
    def double(x: Any, fmt: str, name: str | None) -> Any:
        return tf.multiply(x, 2.0, name=f"{fmt}_{name}")

    x = tf.ones([1, 2, 2, 2])
    (alone,) = with_bias(double, VariableHolder(W=1))(data_format)
    assert alone(x, "n").op.name == f"{data_format}_n"
    first, second = with_bias(double, VariableHolder(W=1, b=tf.constant([1.0, 5.0])))(data_format)
    with tf.Session() as session:
        sums = session.run(second(first(x, None), "sum"))
    axis = 1 if data_format == "NCHW" else 3
    assert sums.take(0, axis).tolist() == [[[3, 3], [3, 3]]]
    assert sums.take(1, axis).tolist() == [[[7, 7], [7, 7]]]
