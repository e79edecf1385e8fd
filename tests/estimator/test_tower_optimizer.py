"""Towers' gradients are applied once, by the first tower's optimizer, and alone the wrapper does nothing."""

import gc
import weakref

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers import replicated_models
from tests.helpers.sessions import cpu_session
from tests.helpers.strategies import started
from tpack.distribute.contexts import get_tower_context
from tpack.errors import ConfigError, WrongTypeError
from tpack.estimator.replicate_model_fn import replicate_model_fn
from tpack.estimator.spec import EstimatorSpec, ModeKeys
from tpack.estimator.tower_optimizer import TowerOptimizer
from tpack.graph_builder.towers import build_towers
from tpack.tfutils.optimizer_clone import clone_optimizer
from tpack.tower.context import TowerContext

SGD = tf.train.GradientDescentOptimizer


def quadratic(features):
    """Return the variable x and the loss (mean(features) - x) ** 2 / 2."""
    x = tf.get_variable("x", [], initializer=tf.zeros_initializer())
    return x, tf.reduce_mean(tf.square(tf.reduce_mean(features) - x)) / 2


def replicated(model_fn, num_towers=2, **options):
    return replicate_model_fn(model_fn, devices=replicated_models.devices(num_towers), **options)


def run(model_fn, features, steps=1, **options):
    """Return the values of all global variables after some steps of a replicated model."""
    with tf.Graph().as_default(), cpu_session() as session:
        tf.train.get_or_create_global_step()
        spec = replicated(model_fn, **options)(tf.constant(features), None, mode=ModeKeys.TRAIN)
        session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
        for _ in range(steps):
            session.run(spec.train_op)
        return session.run({variable.op.name: variable for variable in tf.global_variables()})


@pytest.mark.parametrize("wrap", [lambda: TowerOptimizer(SGD(0.5)), lambda: TowerOptimizer(lambda: SGD(0.5))])
@pytest.mark.parametrize("around", ["nothing", "a trainer's tower", "one device"])
def test_alone_it_is_the_optimizer_inside(graph, wrap, around):
    def model(features, mode):
        x, loss = quadratic(features)
        optimizer = wrap()
        train_op = optimizer.minimize(loss, tf.train.get_or_create_global_step())
        assert optimizer.get_slot_names() == []
        assert optimizer.get_slot(x, "momentum") is None
        assert optimizer.variables() == []
        assert optimizer.get_name() == "GradientDescent"
        assert TowerOptimizer.has_been_used() == (around == "one device")
        return EstimatorSpec(mode, None, loss, train_op)

    features = tf.constant([2.0, 4.0])
    if around == "nothing":
        spec = model(features, ModeKeys.TRAIN)
    elif around == "a trainer's tower":
        with TowerContext("", is_training=True):
            spec = model(features, ModeKeys.TRAIN)
    else:
        spec = replicated(model, 1)(features, None, mode=ModeKeys.TRAIN)
    with cpu_session() as session:
        session.run(tf.global_variables_initializer())
        session.run(spec.train_op)
        assert session.run([*tf.trainable_variables(), tf.train.get_global_step()]) == [1.5, 1]


def test_in_the_towers_of_a_trainer_each_applies_its_own(session8):
    def tower():
        number = get_tower_context().tower_id + 1
        x = tf.get_variable("x", [], initializer=tf.zeros_initializer())
        return TowerOptimizer(SGD(1.0)).minimize(x * number), x

    outputs = build_towers(tower, ["/cpu:0", "/cpu:1"], [True, True]).outputs
    started(session8).run([train_op for train_op, _ in outputs])
    assert session8.run([x for _, x in outputs]) == [-1, -2]


def test_several_optimizers_and_losses():
    """Two optimizers of one loss, and a third with a loss and variables of its own, in two forms of making them."""
    shared = TowerOptimizer(lambda: SGD(1.0))

    def model(features, mode):
        x, loss = quadratic(features)
        y = tf.get_variable("y", [], initializer=tf.zeros_initializer())
        second = tf.reduce_mean(features) * y
        first_op = TowerOptimizer(SGD(0.5)).minimize(loss, var_list=[x])
        with tf.control_dependencies([first_op]):
            second_op = shared.minimize(second, tf.train.get_global_step(), var_list=[y])
        with tf.control_dependencies([second_op]):
            third_op = TowerOptimizer(SGD(0.25)).minimize(second, var_list=[y])
        return EstimatorSpec(mode, None, loss, third_op)

    values = run(model, np.float32([1, 2, 3, 6]))
    # The gradient of x is the mean of (x - 1.5) and (x - 4.5); that of y is 3, for each optimizer.
    assert values == {"global_step": 1, "x": 1.5, "y": -3 * 1.25}


def test_update_ops_of_all_towers_come_first():
    """What is open as control dependencies runs, and before the update."""

    def model(features, mode):
        x, loss = quadratic(features)
        total = tf.get_variable("total", [], initializer=tf.zeros_initializer(), trainable=False)
        seen = tf.get_variable("seen", [], initializer=tf.zeros_initializer(), trainable=False)
        with tf.control_dependencies([total.assign_add(tf.reduce_sum(features)).op]):
            grads = TowerOptimizer(SGD(1.0)).compute_gradients(loss, var_list=[x])
        # Made outside of the block, so that it does not depend on the update itself.
        constant = tf.constant(2.0)
        with tf.control_dependencies([seen.assign_add(1.0).op]):
            train_op = TowerOptimizer(SGD(1.0)).apply_gradients([(constant, v) for _, v in grads], name="step")
        assert train_op.name == "step"
        return EstimatorSpec(mode, None, loss, train_op)

    values = run(model, np.float32([1, 2, 3, 4]), steps=3)
    # The gradients that are applied are constants, so what was open where they were computed does not run.
    assert values == {"global_step": 0, "x": -2 * 2 * 3, "total": 0, "seen": 2 * 3}


def test_a_loss_may_be_a_function():
    def model(features, mode):
        x, loss = quadratic(features)
        train_op = TowerOptimizer(SGD(1.0)).minimize(lambda: tf.square(tf.reduce_mean(features) - x) / 2)
        return EstimatorSpec(mode, None, loss, train_op)

    assert run(model, np.float32([1, 1, 3, 3]))["x"] == 2


def test_slots_and_counters_are_made_once():
    def model(features, mode):
        x, loss = quadratic(features)
        return EstimatorSpec(mode, None, loss, TowerOptimizer(tf.train.AdamOptimizer(0.1)).minimize(loss))

    values = run(model, np.float32([1, 1, 3, 3]), steps=2)
    assert set(values) == {"global_step", "x", "x/Adam", "x/Adam_1", "beta1_power", "beta2_power"}
    np.testing.assert_allclose(values["beta1_power"], 0.9**3, rtol=1e-6)


def test_a_clone_has_an_optimizer_of_its_own(graph):
    for original in (TowerOptimizer(tf.train.MomentumOptimizer(1.0, 0.9)), TowerOptimizer(lambda: SGD(1.0))):
        clone = clone_optimizer(original)
        assert clone._optimizer() is not original._optimizer()
        assert type(clone._optimizer()) is type(original._optimizer())


def test_a_function_is_called_once_for_each_graph():
    made = []
    optimizer = TowerOptimizer(lambda: made.append(SGD(0.1)) or made[-1])
    for expected in (1, 2):
        with tf.Graph().as_default():
            x = tf.get_variable("x", [])
            for _ in range(2):
                optimizer.minimize(tf.square(x))
        assert len(made) == expected


def test_it_does_not_keep_a_graph_alive():
    optimizer = TowerOptimizer(lambda: SGD(0.1))
    with tf.Graph().as_default() as graph:
        assert optimizer.get_name() == "GradientDescent"
        known = weakref.ref(graph)
    del graph
    gc.collect()
    assert known() is None


def test_what_is_no_optimizer_is_refused(graph):
    with pytest.raises(WrongTypeError, match="^TowerOptimizer got optimizer_or_optimizer_fn="):
        TowerOptimizer(0.1)
    with pytest.raises(ConfigError, match="returned 0.1: expected an optimizer"):
        TowerOptimizer(lambda: 0.1).get_name()


def test_different_optimizer_calls_are_refused():
    def model(features, mode):
        x, loss = quadratic(features)
        is_first = not tf.get_default_graph().get_name_scope()
        train_op = TowerOptimizer(SGD(0.1)).minimize(loss)
        if is_first:
            train_op = TowerOptimizer(SGD(0.1)).minimize(loss)
        return EstimatorSpec(mode, None, loss, train_op)

    with pytest.raises(ConfigError, match="the same optimizers in the same order"):
        run(model, np.float32([1, 2]))
