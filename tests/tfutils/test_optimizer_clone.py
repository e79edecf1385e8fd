"""Clones of an optimizer behave like optimizers that were built separately."""

from typing import Any

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.optimizers import OPTIMIZERS, REPRESENTATIVE, make_model
from tpack.errors import GraphBuildError
from tpack.tfutils.gradproc import GlobalNormClip
from tpack.tfutils.optimizer import PostProcessOptimizer, ProxyOptimizer, apply_grad_processors
from tpack.tfutils.optimizer_clone import clone_optimizer

WRAPPERS = {
    "bare": lambda opt: opt,
    "proxy": ProxyOptimizer,
    "gradient processor": lambda opt: apply_grad_processors(opt, [GlobalNormClip(1.0)]),
    "two wrappers": lambda opt: PostProcessOptimizer(ProxyOptimizer(opt), lambda var: var.assign(var * 0.9)),
}


def train_two_models(optimizers: list[Any]) -> list[Any]:
    """Train one model with each optimizer for 5 steps, all in the same steps; return all variables' values."""
    models = [make_model(f"model{k}", seed=k) for k in range(2)]
    steps = [
        opt.apply_gradients(zip(grads, variables, strict=True))
        for opt, (variables, grads) in zip(optimizers, models, strict=True)
    ]
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for _ in range(5):
            session.run(steps)
        return session.run([variable for variables, _ in models for variable in variables])


@pytest.mark.parametrize(
    ("name", "wrapper"),
    [*((name, "bare") for name in REPRESENTATIVE), *(("adam", wrapper) for wrapper in WRAPPERS if wrapper != "bare")],
)
def test_clones_train_like_separate_optimizers(name: str, wrapper: str) -> None:
    def build() -> Any:
        return WRAPPERS[wrapper](OPTIMIZERS[name]())

    with tf.Graph().as_default():
        expected = train_two_models([build(), build()])
    with tf.Graph().as_default():
        original = build()
        actual = train_two_models([clone_optimizer(original), clone_optimizer(original)])
        assert original.variables() == []
    for a, b in zip(actual, expected, strict=True):
        np.testing.assert_array_equal(a, b)


def test_clone_of_a_used_optimizer_starts_without_state(graph: Any) -> None:
    original = tf.train.AdamOptimizer(0.1)
    variables, grads = make_model("model", seed=0)
    original.apply_gradients(zip(grads, variables, strict=True))
    state = list(original.variables())
    clone = clone_optimizer(original)
    assert clone.variables() == []
    clone.apply_gradients(zip(grads, variables, strict=True))
    assert len(clone.variables()) == len(state)
    assert not {v.name for v in clone.variables()} & {v.name for v in state}
    assert list(original.variables()) == state


def test_clones_share_the_learning_rate_variable(session8: Any) -> None:
    rate = tf.get_variable("learning_rate", initializer=1.0, trainable=False, use_resource=True)
    original = tf.train.GradientDescentOptimizer(rate)
    variables = [tf.Variable(0.0, use_resource=True) for _ in range(2)]
    steps = [clone_optimizer(original).apply_gradients([(tf.constant(1.0), variable)]) for variable in variables]
    session8.run(tf.global_variables_initializer())
    session8.run(steps)
    session8.run(rate.assign(10.0))
    session8.run(steps)
    assert session8.run(variables) == [-11, -11]


class Holder(tf.train.Optimizer):
    """An optimizer that holds others in every way that clones must follow."""

    def __init__(self, inner: Any) -> None:
        super().__init__(False, "Holder")
        self.first = self.again = inner
        self.nested = {"list": [inner, (inner, 3)], "number": 5}
        self.own_container = Container(inner)
        self.itself = self


class Container(list):
    def __init__(self, inner: Any) -> None:
        super().__init__([inner])


def test_clone_follows_containers_and_keeps_identities() -> None:
    inner = tf.train.GradientDescentOptimizer(0.1)
    original = Holder(inner)
    clone = clone_optimizer(original)
    assert type(clone) is Holder
    assert clone.itself is clone
    assert clone.first is not inner
    assert clone.first is clone.again is clone.nested["list"][0] is clone.nested["list"][1][0]
    assert clone.nested["list"][1][1] == 3
    assert clone.nested["number"] == 5
    assert clone.own_container is original.own_container
    assert original.first is original.nested["list"][0] is inner


def test_clone_has_its_own_containers() -> None:
    original = Holder(tf.train.GradientDescentOptimizer(0.1))
    clone = clone_optimizer(original)
    clone.nested["list"].append("more")
    assert len(original.nested["list"]) == 2


def test_clone_of_an_optimizer_in_a_checkpoint_is_tracked_apart(graph: Any) -> None:
    original = tf.train.AdamOptimizer(0.1)
    variables, grads = make_model("model", seed=0)
    checkpoint = tf.train.Checkpoint(opt=original)
    original.apply_gradients(zip(grads, variables, strict=True))
    clone = clone_optimizer(original)
    assert checkpoint.opt is original
    assert not any(name.startswith("_self_") for name in vars(clone))
    clone.apply_gradients(zip(grads, variables, strict=True))
    assert tf.train.Checkpoint(opt=clone).opt is clone


class OwnScopeOptimizer(tf.train.AdamOptimizer):
    """An optimizer as later TensorFlow versions allow: with its counters in a variable scope of its own."""

    def __init__(self) -> None:
        super().__init__(0.1)
        self._use_own_namescope_for_non_slot_vars = True
        with tf.variable_scope(None, default_name=self._name) as self._non_slot_variable_scope:
            pass


def test_clones_name_their_counters_in_scopes_of_their_own(graph: Any) -> None:
    original = OwnScopeOptimizer()
    scopes = {clone_optimizer(original)._non_slot_variable_scope.name for _ in range(2)}
    assert len(scopes | {original._non_slot_variable_scope.name}) == 3


def test_other_optimizers_are_refused() -> None:
    with pytest.raises(GraphBuildError, match=r"optimizer\(\) returned .*: expected a tf\.compat.*Optimizer; use"):
        clone_optimizer(NotAnOptimizer())
    with pytest.raises(GraphBuildError, match=r"SGD.*: expected a tf\..*, since those of Keras cannot"):
        clone_optimizer(tf.keras.optimizers.SGD(0.1))


class NotAnOptimizer:
    pass
