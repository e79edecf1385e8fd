"""Optimizers around optimizers: what is inside does the work, and it is every optimizer of TensorFlow 1."""

from typing import Any

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.optimizers import OPTIMIZERS, make_model
from tpack.errors import ConfigError, GraphBuildError
from tpack.tfutils.gradproc import CheckGradient, FilterNoneGrad, GlobalNormClip, ScaleGradient
from tpack.tfutils.optimizer import PostProcessOptimizer, ProxyOptimizer, apply_grad_processors
from tpack.tfutils.tensor_summary import rms


def train(make_step: Any, num_steps: int = 5) -> list[Any]:
    """Train the model in a new graph with the step that `make_step(variables, grads)` builds; return the weights."""
    with tf.Graph().as_default(), tf.Session() as session:
        variables, grads = make_model("model", seed=0)
        step = make_step(variables, list(zip(grads, variables, strict=True)))
        session.run(tf.global_variables_initializer())
        for _ in range(num_steps):
            session.run(step)
        return session.run(variables)


def check_equal(actual: list[Any], expected: list[Any]) -> None:
    for a, b in zip(actual, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_proxy_trains_like_what_it_wraps(name: str) -> None:
    expected = train(lambda _, pairs: OPTIMIZERS[name]().apply_gradients(pairs))
    check_equal(train(lambda _, pairs: ProxyOptimizer(OPTIMIZERS[name]()).apply_gradients(pairs)), expected)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_processed_gradients_are_what_is_applied(name: str) -> None:
    def by_hand(variables: Any, pairs: Any) -> Any:
        clipped, _ = tf.clip_by_global_norm([gradient for gradient, _ in pairs], 0.5)
        halves = [clipped[0] * 0.5, clipped[1]]
        return OPTIMIZERS[name]().apply_gradients(zip(halves, variables, strict=True))

    def by_processors(variables: Any, pairs: Any) -> Any:
        processors = [FilterNoneGrad(), GlobalNormClip(0.5), ScaleGradient((".*/W", 0.5)), CheckGradient()]
        return apply_grad_processors(OPTIMIZERS[name](), processors).apply_gradients(pairs)

    check_equal(train(by_processors), train(by_hand))


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_post_processing_follows_each_update(name: str) -> None:
    def normalise(variable: Any) -> Any:
        return variable.assign(variable / rms(variable))

    weights = train(lambda _, pairs: PostProcessOptimizer(OPTIMIZERS[name](), normalise).apply_gradients(pairs))
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


@pytest.mark.parametrize(
    "wrap",
    [
        ProxyOptimizer,
        lambda opt: apply_grad_processors(opt, []),
        lambda opt: PostProcessOptimizer(opt, lambda var: None),
    ],
)
def test_minimize_counts_the_global_step_once(session8: Any, wrap: Any) -> None:
    step = tf.train.create_global_step()
    variable = tf.get_variable("v", initializer=1.0, use_resource=True)
    train_op = wrap(tf.train.GradientDescentOptimizer(0.5)).minimize(variable * variable, global_step=step)
    session8.run(tf.global_variables_initializer())
    for _ in range(3):
        session8.run(train_op)
    assert session8.run([step, variable]) == [3, 0]


def test_proxy_shows_the_slots_and_gradients_of_what_it_wraps(graph: Any) -> None:
    inner = tf.train.AdamOptimizer(0.1)
    proxy = ProxyOptimizer(inner)
    variable = tf.get_variable("v", initializer=1.0, use_resource=True)
    pairs = proxy.compute_gradients(variable * 3, [variable])
    assert [v for _, v in pairs] == [variable]
    proxy.apply_gradients(pairs)
    assert proxy.get_slot_names() == ["m", "v"]
    assert proxy.get_slot(variable, "m") is inner.get_slot(variable, "m")
    assert proxy.variables() == inner.variables()
    assert len(proxy.variables()) == 4
    assert proxy.get_name() == "ProxyOptimizer"


def test_other_optimizers_and_processors_are_rejected() -> None:
    with pytest.raises(GraphBuildError, match="wanted a tf.compat.v1.train.Optimizer to wrap, got 'adam'"):
        ProxyOptimizer("adam")
    with pytest.raises(ConfigError, match="wanted a list of GradientProcessor objects, got 5"):
        apply_grad_processors(tf.train.GradientDescentOptimizer(0.1), [5])  # type: ignore[list-item]
