"""A function becomes a layer: names, inputs, argscope, logging, and finding it by its name."""

import functools
from typing import Any

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.log_lines import captured_log
from tpack.compat.runtime import eager_mode
from tpack.errors import ConfigError
from tpack.models.batch_norm import BatchNorm
from tpack.models.conv2d import Conv2D, Conv2DTranspose
from tpack.models.fc import FullyConnected
from tpack.models.registry import (
    argument_aliases,
    get_registered_layer,
    layer_register,
    register_alias,
    registered_layer_names,
)
from tpack.tfutils.argscope import argscope
from tpack.tower.context import TowerContext
from tpack.tower.getters import compute_in


@layer_register(log_shape=True)
def RegistryScale(x: Any, init: float = 1.0) -> Any:  # noqa: N802
    """Scale."""
    return x * tf.get_variable("factor", [], initializer=tf.constant_initializer(init))


@layer_register(use_scope=None)
def RegistryShift(x: Any, by: float = 1.0) -> Any:  # noqa: N802
    return x + tf.get_variable("shift", [], initializer=tf.constant_initializer(by))


@layer_register(use_scope=False)
def RegistryFlat(x: Any) -> Any:  # noqa: N802
    return tf.reshape(x, [-1], name="flat")


@layer_register()
def RegistrySum(xs: Any) -> Any:  # noqa: N802
    return tf.add_n(xs)


def test_name_is_the_variable_scope(graph: Any) -> None:
    with tf.variable_scope("a"):
        y = RegistryScale("s", tf.ones([2]), 3.0)
        z = RegistryShift("t", y)
        RegistryShift(z)
    assert [v.op.name for v in tf.global_variables()] == ["a/s/factor", "a/t/shift", "a/shift"]
    assert RegistryScale.__doc__ == "Scale."
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        assert session.run(z).tolist() == [4, 4]


def test_arguments_come_from_argscope(graph: Any) -> None:
    with argscope(RegistryScale, init=5.0), tf.Session() as session:
        five, two, three = (
            RegistryScale("a", tf.ones([])),
            RegistryScale("b", tf.ones([]), 2.0),
            RegistryScale("c", tf.ones([]), init=3.0),
        )
        session.run(tf.global_variables_initializer())
        assert session.run([five, two, three]) == [5, 2, 3]


def test_shapes_are_logged_once_for_layers_that_ask_for_it(graph: Any) -> None:
    with captured_log() as lines:
        with tf.variable_scope("a", reuse=tf.AUTO_REUSE):
            for _ in range(2):
                RegistryScale("s", tf.ones([2, 3]))
        RegistryShift(tf.ones([2]))
    assert lines == [f"{'a/s':<20} [2, 3] --> [2, 3]"]


def test_several_tensors_are_an_input(graph: Any) -> None:
    assert RegistrySum("s", [tf.ones([2]), tf.ones([2])]).shape == [2]


def test_variable_that_is_cast_where_it_is_used_is_an_input(graph: Any) -> None:
    with compute_in(tf.bfloat16):
        variable = tf.get_variable("v", [2])
        assert RegistryFlat(variable).dtype == tf.bfloat16
        assert RegistrySum("s", (variable, tf.ones([2], tf.bfloat16))).dtype == tf.bfloat16


def test_missing_name_shows_how_to_call(graph: Any) -> None:
    with pytest.raises(ConfigError, match=r"RegistryScale got <tf.Tensor.* first: expected its name"):
        RegistryScale(tf.ones([2]))
    with pytest.raises(ConfigError, match="got nothing"):
        RegistryScale()
    with pytest.raises(ConfigError, match="RegistryScale got an empty name"):
        RegistryScale("", tf.ones([2]))


@pytest.mark.parametrize("inputs", [None, [1.0, 2.0], [], 3])
def test_input_that_is_no_tensor_is_refused(graph: Any, inputs: Any) -> None:
    with pytest.raises(ConfigError, match=r"RegistryScale 's' got x=.*: expected a tensor, or a list of tensors"):
        RegistryScale("s", inputs)
    with pytest.raises(ConfigError, match="RegistryShift got x=.*: expected a tensor"):
        RegistryShift(inputs)
    assert graph.get_operations() == []


def test_unknown_argument_lists_near_names(graph: Any) -> None:
    with pytest.raises(ConfigError, match="RegistryScale has no argument 'inti'; near names: init"):
        RegistryScale("s", tf.ones([2]), inti=1.0)
    assert tf.global_variables() == []


def test_name_that_is_not_wanted_is_taken_with_a_warning(graph: Any) -> None:
    with captured_log() as lines:
        assert RegistryFlat("f", tf.ones([2, 2])).op.name == "f/flat"
    assert lines == ["RegistryFlat got the name 'f': expected none; use use_scope=None to register it"]
    assert RegistryFlat(tf.ones([2, 2])).op.name == "flat"


def test_layers_are_found_by_name() -> None:
    assert get_registered_layer("RegistryScale") is RegistryScale
    assert get_registered_layer("NoSuchLayer") is None
    assert "RegistryShift" in registered_layer_names()


def test_layer_is_found_by_another_name_too() -> None:
    assert register_alias("RegistryAlias", RegistryScale) is RegistryScale
    assert get_registered_layer("RegistryAlias") is RegistryScale
    assert RegistryScale.__name__ == "RegistryScale"


def test_layer_defined_again_replaces_itself_and_another_of_its_name_does_not() -> None:
    def define(prefix: str) -> Any:
        def RegistryTwice(x: Any) -> Any:  # noqa: N802
            return x

        RegistryTwice.__qualname__ = f"{prefix}RegistryTwice"
        return layer_register(use_scope=None)(RegistryTwice)

    define("a.")
    second = define("a.")
    assert get_registered_layer("RegistryTwice") is second
    define("b.")
    with pytest.raises(ConfigError, match=r"'RegistryTwice' is the name of 2 layers \(.*a\.Reg.*b\.Reg"):
        get_registered_layer("RegistryTwice")


def test_layer_takes_an_argument_by_both_names(graph: Any) -> None:
    @layer_register(use_scope=None)
    @argument_aliases(factor="scale")
    def AliasesScale(x: Any, scale: float = 1.0) -> Any:  # noqa: N802
        return x * scale

    with tf.Session() as session:
        assert session.run([AliasesScale(tf.ones([]), factor=2.0), AliasesScale(tf.ones([]), scale=3.0)]) == [2, 3]


def test_a_layer_tells_the_function_that_it_was_made_of(graph: Any) -> None:
    def inner(x: Any, size: int = 1) -> Any:
        return x * size

    @functools.wraps(inner)
    def outer(x: Any, *args: Any, shift: int = 0, **kwargs: Any) -> Any:
        return inner(x, *args, **kwargs) + shift

    outer.__name__ = "RegistryWrapped"
    layer = layer_register()(outer)
    assert layer.symbolic_function is outer
    y = layer("a", tf.ones([]), 2, shift=3)
    with argscope(layer, shift=5, size=4):
        z = layer("b", tf.ones([]))
    with tf.Session() as session:
        assert session.run([y, z]) == [5, 9]


@pytest.mark.parametrize("count", [4.0, np.float32(4), tf.Dimension(4)])
def test_whole_numbers_of_outputs_may_be_floats_or_dimensions(graph: Any, count: Any) -> None:
    image = tf.zeros([1, 8, 8, 3])
    for layer in (
        Conv2D("a", image, count, 3),
        Conv2DTranspose("b", image, count, 3),
        FullyConnected("c", image, count),
    ):
        assert 4 in layer.shape.as_list() and 4 in layer.variables.W.shape.as_list()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda x: BatchNorm("bn", x, center="no"), "^BatchNorm got center="),
        (lambda x: BatchNorm("bn", x, scale=None), "^BatchNorm got scale="),
        (lambda x: BatchNorm("bn", x, epsilon="small"), "^BatchNorm got epsilon="),
        (lambda x: BatchNorm("bn", x, epsilon=float("nan")), "^BatchNorm got epsilon="),
        (lambda x: BatchNorm("bn", x, momentum=True), "^BatchNorm got momentum="),
        (lambda x: BatchNorm("bn", x, axis="last"), "^BatchNorm got axis="),
        (lambda x: Conv2D("conv", x, "four", 3), "^Conv2D got filters=.*: expected an integer or a num"),
        (lambda x: Conv2D("conv", x, 4, 3, use_bias=1), "got use_bias=1: expected True or False"),
    ],
)
def test_flags_and_numbers_of_layers_are_checked(graph: Any, make: Any, message: str) -> None:
    with TowerContext("", is_training=True), pytest.raises(ConfigError, match=message):
        make(tf.ones([2, 4, 4, 3]))
    assert not tf.global_variables()


def test_numbers_may_be_tensors_where_they_could_before_and_users_annotations_are_theirs(graph: Any) -> None:
    @layer_register(use_scope=None)
    def RegistryAnnotated(x: Any, factor: float = 1.0) -> Any:  # noqa: N802
        return x * factor

    with TowerContext("", is_training=True):
        BatchNorm("bn", tf.ones([2, 3]), momentum=tf.constant(0.9), training=np.bool_(True))
    assert RegistryAnnotated(tf.ones([2]), factor=np.ones(2)).shape == [2]


def test_eager_mode_is_refused_with_what_to_do():
    with eager_mode(), pytest.raises(ConfigError, match=r"FullyConnected got a call in eager mode: .*tf.Graph"):
        FullyConnected("fc", np.zeros([2, 3], np.float32), 4)
