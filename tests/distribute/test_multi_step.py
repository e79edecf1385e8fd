"""Loops of steps: what they run, what they give out, and that it is what the same steps do one by one."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.strategies import MEAN, NONE, SUM, mirrored, started, tower_number, values
from tpack.distribute.contexts import get_tower_context
from tpack.distribute.default_strategy import DEFAULT_STRATEGY
from tpack.distribute.multi_step import MultiStepContext
from tpack.distribute.strategies import OneDeviceStrategy
from tpack.errors import ConfigError, TowerMismatchError, WrongTypeError

STRATEGIES = {
    "default": lambda: DEFAULT_STRATEGY,
    "one device": lambda: OneDeviceStrategy("/cpu:0"),
    "mirrored": mirrored,
    "mirrored on one": lambda: mirrored(1),
}


def numbers():
    return tf.data.Dataset.range(1, 1000).map(lambda x: tf.cast(x, tf.float32))


def make_iterator(strategy):
    return (
        tf.data.make_one_shot_iterator(numbers())
        if strategy.is_default
        else (strategy.distribute_dataset(numbers).make_one_shot_iterator())
    )


def train(x):
    """Take a step towards half of the number, from 1 on."""
    weight = tf.get_variable("w", [], initializer=tf.ones_initializer())
    loss = tf.square(weight - 0.5 * x)
    return tf.train.GradientDescentOptimizer(0.1).minimize(loss), loss


@pytest.mark.parametrize("strategy", STRATEGIES.values(), ids=STRATEGIES)
def test_a_loop_of_steps_is_those_steps(session8, strategy):
    strategy = strategy()
    with strategy.scope():
        iterator = make_iterator(strategy)
        context = strategy.run_steps_on_dataset(
            lambda _, x: strategy.call_for_each_tower(lambda x: train(x)[0], x), iterator, iterations=3
        )
    started(session8)
    weight, position = 1.0, 0
    for _ in range(2):
        session8.run(context.run_op)
        for _ in range(3):
            batch = 1.0 + position + np.arange(strategy.num_towers)
            weight -= np.mean(0.2 * (weight - 0.5 * batch))
            position += strategy.num_towers
        (variable,) = tf.trainable_variables()
        for value in values(session8, variable):
            np.testing.assert_allclose(value, weight, rtol=1e-6)


def test_a_step_takes_the_parts_of_a_tuple(session8):
    strategy = mirrored()
    with strategy.scope():
        iterator = strategy.distribute_dataset(
            lambda: tf.data.Dataset.zip((numbers(), numbers()))
        ).make_one_shot_iterator()

        def step(context, x, y):
            context.set_last_step_output("sum", strategy.call_for_each_tower(tf.add, x, y), SUM)

        context = strategy.run_steps_on_dataset(step, iterator, 2, {"sum": 0.0})
    assert session8.run([context.run_op, context.last_step_outputs["sum"]])[1] == 2 * (3 + 4)


def test_outputs_are_those_of_the_last_step(session8):
    strategy = mirrored()

    def tower(context, x):
        context.set_last_step_output("from towers", x, SUM)
        context.set_non_tensor_output("tower", get_tower_context().tower_id)
        return x

    def step(context, x):
        each = strategy.call_for_each_tower(tower, context, x)
        context.set_last_step_output("mean", each, MEAN)
        context.set_last_step_output("each", each)
        context.set_non_tensor_output("towers", 2)

    with strategy.scope():
        start = {"from towers": 0.0, "mean": 0.0, "each": [0.0, 0.0]}
        context = strategy.run_steps_on_dataset(step, make_iterator(strategy), 3, start)
        each = strategy.unwrap(context.last_step_outputs["each"])
    assert context.non_tensor_outputs == {"tower": [0, 1], "towers": 2}
    outputs = context.last_step_outputs
    got = session8.run([context.run_op, outputs["from towers"], outputs["mean"], *each])
    assert got[1:] == [11, 5.5, 5, 6]


def test_the_data_end_in_the_middle_of_a_loop(session8):
    strategy = mirrored()
    with strategy.scope():
        iterator = strategy.distribute_dataset(lambda: numbers().take(5)).make_one_shot_iterator()
        context = strategy.run_steps_on_dataset(
            lambda _, x: strategy.call_for_each_tower(lambda x: train(x)[0], x), iterator, 3
        )
    started(session8)
    with pytest.raises(tf.errors.OutOfRangeError):
        session8.run(context.run_op)
    (variable,) = tf.trainable_variables()
    assert session8.run(variable) != 1


@pytest.mark.parametrize("start", [{}, {"x": [0.0, 0.0, 0.0]}, {"x": [0.0, 0.0], "y": 0.0}])
def test_what_is_given_out_has_an_initial_value(graph, start):
    strategy = mirrored()

    def step(context, x):
        context.set_last_step_output("x", x)

    with strategy.scope(), pytest.raises(ConfigError, match="expected initial_loop_values for each value .*{'x': 2}"):
        strategy.run_steps_on_dataset(step, make_iterator(strategy), 1, start)


def test_a_tower_says_by_which_aggregation(graph):
    strategy = mirrored()

    def tower(context):
        context.set_last_step_output("x", tower_number(), NONE)

    with strategy.scope(), pytest.raises(ConfigError, match="a tower gives out 'x': say by which aggregation"):
        strategy.call_for_each_tower(tower, MultiStepContext())


def test_towers_give_out_values_of_the_same_names(graph):
    strategy = mirrored()

    def tower(context):
        context.set_last_step_output(f"x{get_tower_context().tower_id}", tower_number(), MEAN)

    with strategy.scope(), pytest.raises(TowerMismatchError, match=r"got \['x0', 'x1'\]: expected the same name"):
        strategy.call_for_each_tower(tower, MultiStepContext())


@pytest.mark.parametrize(("fn", "iterations", "message"), [(None, 1, "fn=None"), (print, 0, "iterations=0")])
def test_arguments_are_checked(graph, fn, iterations, message):
    strategy = mirrored()
    with strategy.scope(), pytest.raises(ConfigError, match=f"run_steps_on_dataset got {message}"):
        strategy.run_steps_on_dataset(fn, make_iterator(strategy), iterations)


def test_outputs_have_names_that_are_text(graph):
    with pytest.raises(WrongTypeError, match="MultiStepContext got name=5: expected text"):
        MultiStepContext().set_last_step_output(5, 1.0)
