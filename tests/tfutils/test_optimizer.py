"""Optimizers around optimizers: what is inside does the work, and it is every optimizer of TensorFlow 1."""

from typing import Any

import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.optimizer_runs import assert_weights_equal, train_model
from tests.helpers.optimizers import OPTIMIZERS, REPRESENTATIVE
from tpack.errors import WrongTypeError
from tpack.tfutils.gradproc import CheckGradient, FilterNoneGrad, GlobalNormClip, ScaleGradient
from tpack.tfutils.optimizer import PostProcessOptimizer, ProxyOptimizer, apply_grad_processors


@pytest.mark.parametrize("name", REPRESENTATIVE)
def test_proxy_trains_like_what_it_wraps(name: str) -> None:
    expected = train_model(lambda _, pairs: OPTIMIZERS[name]().apply_gradients(pairs))
    assert_weights_equal(
        train_model(lambda _, pairs: ProxyOptimizer(OPTIMIZERS[name]()).apply_gradients(pairs)), expected
    )


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


def test_other_things_are_rejected() -> None:
    with pytest.raises(WrongTypeError, match="^ProxyOptimizer got opt="):
        ProxyOptimizer("adam")


@pytest.mark.parametrize("name", REPRESENTATIVE)
def test_processed_gradients_are_what_is_applied(name: str) -> None:
    def by_hand(variables: Any, pairs: Any) -> Any:
        clipped, _ = tf.clip_by_global_norm([gradient for gradient, _ in pairs], 0.5)
        halves = [clipped[0] * 0.5, clipped[1]]
        return OPTIMIZERS[name]().apply_gradients(zip(halves, variables, strict=True))

    def by_processors(variables: Any, pairs: Any) -> Any:
        processors = [FilterNoneGrad(), GlobalNormClip(0.5), ScaleGradient((".*/W", 0.5)), CheckGradient()]
        return apply_grad_processors(OPTIMIZERS[name](), processors).apply_gradients(pairs)

    assert_weights_equal(train_model(by_processors), train_model(by_hand))


def test_other_things_among_the_processors_are_rejected() -> None:
    with pytest.raises(WrongTypeError, match=r"^apply_grad_processors got gradprocs\[0\]="):
        apply_grad_processors(tf.train.GradientDescentOptimizer(0.1), [5])  # type: ignore[list-item]
