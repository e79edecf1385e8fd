"""Transposed convolution against numpy, in both formats; its variables, names and errors."""

from typing import Any

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.feature_maps import conv2d_transpose
from tests.helpers.layer_checks import FORMATS, assert_layer
from tpack.errors import ConfigError
from tpack.models.conv2d import Conv2DTranspose, Deconv2D
from tpack.models.linearwrap import LinearWrap
from tpack.tfutils.argscope import argscope


@pytest.mark.parametrize("data_format", FORMATS)
@pytest.mark.parametrize(
    ("kernel_size", "strides", "padding"),
    [((4, 4), (2, 2), "same"), ((3, 2), (2, 1), "valid"), ((2, 3), (3, 2), "valid"), ((3, 3), (1, 1), "same")],
)
def test_values_and_gradients(
    kernel_size: tuple[int, int], strides: tuple[int, int], padding: str, data_format: str, rng: np.random.Generator
) -> None:
    def oracle(x: np.ndarray, variables: Any) -> np.ndarray:
        return np.tanh(conv2d_transpose(x, variables["up/W"], strides, padding) + variables["up/b"])

    def build(x: Any, data_format: str) -> Any:
        return Conv2DTranspose("up", x, 3, kernel_size, strides, padding, data_format, activation=tf.tanh)

    assert_layer(build, rng.normal(size=(2, 4, 3, 5)), oracle, data_format)


def test_variables_have_tensorpacks_names_and_shapes(graph: Any) -> None:
    y = Deconv2D("up", tf.zeros([1, 2, 2, 6]), out_channel=12, kernel_shape=(3, 5), stride=2, nl=tf.nn.relu)
    assert {v.op.name: v.shape.as_list() for v in tf.trainable_variables()} == {"up/W": [3, 5, 12, 6], "up/b": [12]}
    assert y.variables.all() == tf.trainable_variables()
    assert (y.op.type, y.name, y.shape) == ("Relu", "up/output:0", [1, 4, 4, 12])


def test_both_names_are_one_layer(graph: Any) -> None:
    with argscope(Deconv2D, use_bias=False):
        Conv2DTranspose("up", tf.zeros([1, 2, 2, 6]), 12, 3)
        LinearWrap(tf.zeros([1, 2, 2, 6])).Deconv2D("again", 12, 3)
    assert [v.op.name for v in tf.trainable_variables()] == ["up/W", "again/W"]


@pytest.mark.parametrize(("data_format", "shape"), [("NHWC", [None, None, 3, 2]), ("NCHW", [None, 2, 3, None])])
def test_unknown_sizes_are_asked_for_when_it_runs(graph: Any, data_format: str, shape: list[int | None]) -> None:
    x = tf.placeholder(tf.float32, shape)
    y = Conv2DTranspose("up", x, 4, 3, 2, "valid", data_format=data_format)
    assert [n is None for n in y.shape.as_list()] == [n is None for n in shape]
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        fed = np.ones([n or 5 for n in shape])
        assert sorted(session.run(y, {x: fed}).shape) == sorted([5, 4, 7, 11])


@pytest.mark.parametrize(
    ("shape", "arguments", "message"),
    [
        ([None, 5], {}, r"Conv2DTranspose 'up' got an input of .*: expected 4 dimensions"),
        ([1, 2, 2, None], {}, r"Conv2DTranspose 'up' got an input .*: expected a known number of channels"),
        ([1, 2, 2, 4], {"filters": -1}, "got filters=-1: expected a positive whole number"),
        ([1, 2, 2, 4], {"padding": 1}, "^Conv2DTranspose got padding="),
        ([1, 2, 2, 4], {"strides": 0}, "got strides=0: expected positive integers"),
        ([1, 2, 2, 4], {"kernel_size": 0}, "got kernel_size=0: expected positive integers"),
        ([1, 2, 2, 4], {"dilation_rate": 2}, "Conv2DTranspose has no argument 'dilation_rate'"),
    ],
)
def test_bad_arguments_are_named_before_anything_is_made(
    graph: Any, shape: list[int | None], arguments: dict[str, Any], message: str
) -> None:
    x = tf.placeholder(tf.float32, shape)
    with pytest.raises(ConfigError, match=message):
        Conv2DTranspose("up", x, **{"filters": 6, "kernel_size": 3, **arguments})
    assert graph.get_operations() == [x.op]
