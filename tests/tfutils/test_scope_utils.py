"""Decorators and blocks for scopes."""

import gc
import weakref
from typing import Any

import pytest
import tensorflow.compat.v1 as tf

from tpack.tfutils.scope_utils import auto_reuse_variable_scope, cached_name_scope, under_name_scope


@auto_reuse_variable_scope
def layer(name: str = "W") -> Any:
    """Make a layer."""
    return tf.get_variable(name, [2], use_resource=True)


def test_second_call_in_a_scope_reuses_variables(graph: Any) -> None:
    with tf.variable_scope("a"):
        first = layer()
    with tf.variable_scope("a"):
        assert layer() is first
    with tf.variable_scope("b"):
        assert layer() is not first
    assert [v.op.name for v in tf.global_variables()] == ["a/W", "b/W"]
    assert layer.__doc__ == "Make a layer."


def test_second_call_that_wants_more_variables_fails(graph: Any) -> None:
    layer()
    with pytest.raises(ValueError, match="V does not exist"):
        layer("V")


def test_call_that_failed_does_not_count(graph: Any) -> None:
    with pytest.raises(TypeError):
        layer(3)  # type: ignore[arg-type]
    assert layer().op.name == "W"


def test_reuse_around_the_first_call_stays(graph: Any) -> None:
    with tf.variable_scope("a"):
        first = tf.get_variable("W", [2], use_resource=True)
    with tf.variable_scope("a", reuse=True):
        assert layer() is first


def test_each_graph_has_its_own_first_call_and_is_not_kept() -> None:
    with tf.Graph().as_default() as one:
        layer()
    with tf.Graph().as_default() as other:
        assert layer().graph is other
    alive = weakref.ref(one)
    del one
    gc.collect()
    assert alive() is None


def test_name_scope_is_the_functions_name_or_the_one_given(graph: Any) -> None:
    @under_name_scope()
    def loss() -> Any:
        return tf.constant(1.0, name="x")

    @under_name_scope("other")
    def named() -> Any:
        return tf.constant(1.0, name="x")

    assert [loss().op.name, loss().op.name, named().op.name] == ["loss/x", "loss_1/x", "other/x"]
    assert loss.__name__ == "loss"


@pytest.mark.parametrize(("top_level", "parent"), [(True, ""), (False, "a/")])
def test_cached_scope_is_the_same_each_time(graph: Any, top_level: bool, parent: str) -> None:
    with tf.name_scope("a"):
        for wanted in ("x", "x_1"):
            with cached_name_scope("summary", top_level) as scope:
                assert scope == f"{parent}summary/"
                assert tf.constant(1, name="x").op.name == f"{parent}summary/{wanted}"
        assert tf.constant(1, name="y").op.name == "a/y"


def test_a_call_may_name_another_name_scope(graph: Any) -> None:
    @under_name_scope()
    def loss(x: Any = 1) -> str:
        return str(tf.constant(x, name="op").op.name)

    @under_name_scope("outer")
    def own(name_scope: str) -> str:
        return f"{name_scope} {tf.constant(1, name='op').op.name}"

    assert [loss(2), loss(name_scope="other"), loss(name_scope=None)] == ["loss/op", "other/op", "loss_1/op"]
    assert own(name_scope="mine") == "mine outer/op"
