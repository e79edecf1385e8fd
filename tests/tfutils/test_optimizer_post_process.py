"""What is done to each variable after its gradient was applied, whichever optimizer is inside."""

from typing import Any

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.optimizer_runs import train_model
from tests.helpers.optimizers import OPTIMIZERS, REPRESENTATIVE
from tpack.tfutils.optimizer import PostProcessOptimizer, VariableAssignmentOptimizer
from tpack.tfutils.optimizer_clone import clone_optimizer
from tpack.tfutils.summary import rms


@pytest.mark.parametrize("name", REPRESENTATIVE)
def test_post_processing_follows_each_update(name: str) -> None:
    def normalise(variable: Any) -> Any:
        return variable.assign(variable / rms(variable))

    weights = train_model(lambda _, pairs: PostProcessOptimizer(OPTIMIZERS[name](), normalise).apply_gradients(pairs))
    np.testing.assert_allclose([np.sqrt((w**2).mean()) for w in weights], 1, rtol=1e-5)


@pytest.mark.parametrize("colocate", [True, False])
def test_post_processing_is_colocated_when_asked(session8: Any, colocate: bool) -> None:
    with tf.device("/device:CPU:3"):
        variable = tf.get_variable("v", initializer=1.0, use_resource=True)
    made = []

    def post(var: Any) -> Any:
        made.append(var.assign(5.0, read_value=False))
        return made[0]

    step = PostProcessOptimizer(tf.train.GradientDescentOptimizer(1.0), post, colocate).minimize(variable * 2)
    assert made[0].device == ("/device:CPU:3" if colocate else "")
    session8.run(tf.global_variables_initializer())
    session8.run(step)
    assert session8.run(variable) == 5


def test_post_processing_without_operations_still_updates(session8: Any) -> None:
    variable = tf.get_variable("v", initializer=1.0, use_resource=True)
    opt = PostProcessOptimizer(tf.train.GradientDescentOptimizer(1.0), lambda var: None)
    step = opt.apply_gradients([(tf.constant(2.0), variable)], name="apply")
    assert step.name == "apply"
    session8.run(tf.global_variables_initializer())
    session8.run(step)
    assert session8.run(variable) == -1


@pytest.mark.parametrize("name", REPRESENTATIVE)
def test_assigned_values_follow_each_update(name: str) -> None:
    def clip_dense(variable: Any) -> Any:
        return tf.clip_by_value(variable, -0.1, 0.1) if variable.op.name.endswith("W") else None

    def step(_: Any, pairs: Any) -> Any:
        return clone_optimizer(VariableAssignmentOptimizer(OPTIMIZERS[name](), clip_dense)).apply_gradients(pairs)

    def plain(_: Any, pairs: Any) -> Any:
        return OPTIMIZERS[name]().apply_gradients(pairs)

    weights, expected = train_model(step, 1), train_model(plain, 1)
    np.testing.assert_allclose(weights[0], np.clip(expected[0], -0.1, 0.1), rtol=1e-6)
    np.testing.assert_allclose(weights[1], expected[1], rtol=1e-6)


def test_assignment_is_part_of_the_step_and_counts_it(session8: Any) -> None:
    step = tf.train.create_global_step()
    variable = tf.get_variable("v", initializer=1.0, use_resource=True)
    optimizer = VariableAssignmentOptimizer(tf.train.GradientDescentOptimizer(0.5), tf.round)
    train_op = optimizer.minimize(variable * 3, global_step=step)
    session8.run(tf.global_variables_initializer())
    for expected in (0, -2, -4):
        session8.run(train_op)
        assert session8.run(variable) == expected
    assert session8.run(step) == 3
