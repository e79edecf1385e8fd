"""Optimizers in towers, across towers and outside of every strategy, through the strategy and through the wrapper."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.device_values import start
from tests.helpers.tower_grads import cpu_devices
from tpack.distribute.contexts import get_tower_context
from tpack.distribute.default_strategy import DEFAULT_STRATEGY
from tpack.distribute.optimizer import DistributedOptimizer
from tpack.distribute.strategies import MirroredStrategy, OneDeviceStrategy, ParameterServerStrategy
from tpack.distribute.strategy import DistributionStrategy
from tpack.errors import GraphBuildError, StrategyError, WrongTypeError
from tpack.tfutils.optimizer import PostProcessOptimizer

K = 2
STRATEGIES: dict[str, Callable[[], DistributionStrategy]] = {
    "mirrored": lambda: MirroredStrategy(cpu_devices(K)),
    "parameter server": lambda: ParameterServerStrategy(devices=cpu_devices(K)),
    "one device": lambda: OneDeviceStrategy("/cpu:1"),
}
# Each tower's loss is (weight - target)**2, with the targets 1 and 3 of two towers: the mean of their gradients is the
# gradient for the target 2.
RATE, FIRST, MEAN_TARGET = 0.25, 8.0, 2.0


def _weight() -> Any:
    return tf.get_variable("weight", [], initializer=tf.constant_initializer(FIRST), use_resource=True)


def _expected(num_steps: int) -> float:
    weight = FIRST
    for _ in range(num_steps):
        weight -= RATE * 2 * (weight - MEAN_TARGET)
    return weight


def _loss(weight: Any) -> Any:
    context = get_tower_context()
    target = MEAN_TARGET if context is None or context.is_single_tower else 1.0 + 2 * context.tower_id
    return tf.square(weight - target)


def _check(session: Any, train_op: Any, counter: Any = None) -> None:
    start(session)
    weights = [v for v in tf.global_variables() if v.op.name == "weight"]
    assert len(weights) == 1
    parts = getattr(weights[0], "components", weights)
    for number in range(1, 4):
        session.run(train_op)
        np.testing.assert_allclose(session.run(parts), [_expected(number)] * len(parts), rtol=1e-6)
        assert counter is None or session.run(counter) == number


@pytest.mark.parametrize("name", STRATEGIES)
def test_the_wrapper_minimizes_in_towers(name: str, session8: Any) -> None:
    strategy = STRATEGIES[name]()

    def tower() -> Any:
        step = tf.train.get_or_create_global_step()
        return DistributedOptimizer(tf.train.GradientDescentOptimizer(RATE)).minimize(_loss(_weight()), step)

    with strategy.scope():
        train_op = strategy.group(strategy.call_for_each_tower(tower))
    _check(session8, train_op, tf.train.get_global_step())


@pytest.mark.parametrize("name", STRATEGIES)
def test_the_strategy_applies_gradients_in_towers_and_across_them(name: str, session8: Any) -> None:
    strategy = STRATEGIES[name]()
    optimizer = tf.train.GradientDescentOptimizer(RATE / 2)

    def tower() -> Any:
        pairs = optimizer.compute_gradients(_loss(_weight()))
        return strategy.apply_gradients(optimizer, pairs, name="half"), pairs

    with strategy.scope():
        first, pairs = strategy.call_for_each_tower(tower)
        with tf.control_dependencies(strategy.unwrap(first)):
            train_op = strategy.apply_gradients(optimizer, pairs)
    assert first.name == "half"
    _check(session8, train_op)


@pytest.mark.parametrize("across", [False, True])
def test_outside_of_every_strategy_nothing_is_different(across: bool, session8: Any) -> None:
    optimizer = DistributedOptimizer(tf.train.GradientDescentOptimizer(RATE))
    step = tf.train.get_or_create_global_step()
    if across:
        with DEFAULT_STRATEGY.scope():
            train_op = optimizer.minimize(_loss(_weight()), step)
    else:
        train_op = optimizer.minimize(_loss(_weight()), step)
    _check(session8, train_op, step)


@pytest.mark.parametrize("name", STRATEGIES)
def test_gradients_are_summed_once_however_often_an_optimizer_is_wrapped(name: str, session8: Any) -> None:
    strategy = STRATEGIES[name]()

    def tower() -> Any:
        loss = tf.losses.mean_squared_error(0.0, _weight(), reduction=tf.losses.Reduction.SUM)
        twice = DistributedOptimizer(DistributedOptimizer(tf.train.GradientDescentOptimizer(1 / 64)))
        inside = PostProcessOptimizer(DistributedOptimizer(tf.train.GradientDescentOptimizer(1 / 64)), lambda _: None)
        first = twice.minimize(loss)
        with tf.control_dependencies([first]):
            return strategy.apply_gradients(inside, inside.compute_gradients(loss))

    with strategy.scope():
        train_op = strategy.group(strategy.call_for_each_tower(tower))
    start(session8).run(train_op)
    (weight,) = tf.trainable_variables()
    # Each step takes 2 * K * weight / 64 away; the second one uses gradients of the weight before the first.
    left = FIRST * (1 - 2 * 2 * strategy.num_towers / 64)
    parts = getattr(weight, "components", [weight])
    assert session8.run(parts) == [left] * len(parts)


def test_slots_and_counters_are_those_of_all_devices(session8: Any) -> None:
    strategy = STRATEGIES["mirrored"]()
    optimizer = DistributedOptimizer(tf.train.AdamOptimizer(RATE))
    with strategy.scope():
        weight = _weight()
        optimizer.apply_gradients([(tf.constant(1.0), weight)])
    variables = {variable.op.name: variable for variable in optimizer.variables()}
    assert variables.keys() == {"weight/Adam", "weight/Adam_1", "beta1_power", "beta2_power"}
    assert all(variable.devices == strategy.worker_devices for variable in variables.values())
    for variable in (weight, weight.components[1]):
        assert optimizer.get_slot(variable, "m") is variables["weight/Adam"]
    session8.run(tf.variables_initializer(optimizer.variables()))
    assert (
        session8.run(tf.report_uninitialized_variables([v for w in variables.values() for v in w.components])).size == 0
    )
    assert optimizer.get_slot(weight, "other") is None


def test_other_strategies_and_optimizers_are_refused(graph: Any) -> None:
    strategy, other = STRATEGIES["mirrored"](), STRATEGIES["one device"]()
    optimizer = tf.train.GradientDescentOptimizer(RATE)
    with pytest.raises(StrategyError, match='need to be inside "with distribution_strategy.scope'):
        strategy.apply_gradients(optimizer, [])
    with other.scope(), pytest.raises(StrategyError, match="mixing different DistributionStrategy objects"):
        strategy.apply_gradients(optimizer, [])
    with strategy.scope():
        with pytest.raises(GraphBuildError, match="expected a tf.compat.v1.train.Optimizer"):
            strategy.apply_gradients("adam", [])
        with pytest.raises(GraphBuildError, match=r"none of 0 variable\(s\) has a gradient"):
            strategy.apply_gradients(optimizer, [])
    with pytest.raises(WrongTypeError, match="^DistributedOptimizer got optimizer="):
        DistributedOptimizer("adam")
