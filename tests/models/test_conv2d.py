"""Convolution against numpy, in both formats, with every option; its variables, names and errors."""

from typing import Any

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.feature_maps import conv2d
from tests.helpers.layer_checks import FORMATS, assert_layer
from tpack.errors import ConfigError
from tpack.models.conv2d import Conv2D
from tpack.tfutils.argscope import argscope

CASES: dict[str, dict[str, Any]] = {
    "same": {"kernel_size": 3},
    "valid, stride": {"kernel_size": (3, 2), "strides": (2, 1), "padding": "valid"},
    "same, stride": {"kernel_size": 3, "strides": 2},
    "dilated": {"kernel_size": 3, "dilation_rate": 2},
    "dilated, stride": {"kernel_size": (2, 3), "dilation_rate": (2, 1), "strides": (1, 2), "padding": "valid"},
    "dilated, same, stride": {"kernel_size": 3, "dilation_rate": 2, "strides": 2},
    "groups": {"kernel_size": 3, "split": 2, "strides": 2},
    "depthwise, dilated": {"kernel_size": 2, "split": 4, "dilation_rate": (1, 2)},
    "groups, dilated, stride": {"kernel_size": 2, "split": 2, "dilation_rate": 2, "strides": 2, "padding": "valid"},
    "numbers": {"kernel_size": 3, "strides": 2, "padding": [[1, 2], [0, 3]]},
    "numbers, dilated": {"kernel_size": 2, "padding": [[3, 0], [1, 2]], "dilation_rate": 2},
    "numbers, groups": {"kernel_size": 3, "padding": [[1, 1], [2, 0]], "split": 2},
}


@pytest.mark.parametrize("data_format", FORMATS)
@pytest.mark.parametrize("case", CASES)
def test_values_and_gradients(case: str, data_format: str, rng: np.random.Generator) -> None:
    options = CASES[case]

    def oracle(x: np.ndarray, variables: Any) -> np.ndarray:
        def pair(name: str) -> tuple[int, int]:
            value = options.get(name, 1)
            return value if isinstance(value, tuple) else (value, value)

        padding = options.get("padding", "same")
        convolved = conv2d(x, variables["conv/W"], pair("strides"), padding, pair("dilation_rate"))
        return np.tanh(convolved + variables["conv/b"])

    def build(x: Any, data_format: str) -> Any:
        return Conv2D("conv", x, 8, data_format=data_format, activation=tf.tanh, **options)

    assert_layer(build, rng.normal(size=(2, 7, 6, 4)), oracle, data_format)


def test_variables_have_tensorpacks_names_and_shapes(graph: Any) -> None:
    x = tf.placeholder(tf.float32, [None, None, None, 6])
    with tf.variable_scope("group0"):
        y = Conv2D("conv0", x, 12, (3, 5), split=3)
    assert y.shape.as_list() == [None, None, None, 12]
    assert {v.op.name: v.shape.as_list() for v in tf.trainable_variables()} == {
        "group0/conv0/W": [3, 5, 2, 12],
        "group0/conv0/b": [12],
    }
    assert y.variables.all() == tf.trainable_variables()
    assert y.variables.W.op.name == "group0/conv0/W"


def test_bias_can_be_left_out(graph: Any) -> None:
    y = Conv2D("c", tf.zeros([1, 2, 2, 3]), 4, 1, use_bias=False)
    assert [v.op.name for v in y.variables.all()] == ["c/W"]
    assert y.op.type == "Conv2D"


@pytest.mark.parametrize(
    ("options", "types"),
    [
        ({"use_bias": False}, ["Conv2D"]),
        ({}, ["Conv2D", "BiasAdd"]),
        ({"activation": tf.nn.relu}, ["Conv2D", "BiasAdd", "Relu"]),
        ({"activation": lambda x: tf.nn.relu(x)}, ["Conv2D", "BiasAdd", "Relu", "Identity"]),
        ({"data_format": "NCHW", "padding": "valid", "split": 3, "dilation_rate": 2}, ["Conv2D", "BiasAdd"]),
        ({"padding": 1}, ["Pad", "Conv2D", "BiasAdd"]),
        ({"padding": 1, "data_format": "NCHW"}, ["Pad", "Conv2D", "BiasAdd"]),
    ],
)
def test_output_has_its_name_at_no_more_operations_than_needed(
    graph: Any, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any], types: list[str]
) -> None:
    monkeypatch.setattr("tpack.models.data_format.is_onednn_enabled", lambda: True)
    y = Conv2D("c", tf.zeros([1, 3, 3, 3]), 3, 1, **options)
    made = [
        op.type for op in graph.get_operations() if op.name.startswith("c/") and not op.name.startswith(("c/W", "c/b"))
    ]
    helpers = {"Const", "ReadVariableOp"}
    assert [kind for kind in made if kind not in helpers] == types
    assert y.name == "c/output:0"


def test_older_argument_names(graph: Any) -> None:
    ones = tf.ones_initializer()
    with argscope(Conv2D, nl=tf.nn.relu, W_init=ones):
        y = Conv2D("c", tf.ones([1, 3, 3, 2]), out_channel=4, kernel_shape=3, stride=2, padding="VALID", b_init=ones)
        z = Conv2D("d", tf.ones([1, 3, 3, 2]), 4, 3, activation=None, padding="SAME")
    assert (y.op.type, z.op.type) == ("Relu", "BiasAdd")
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        assert session.run(y).tolist() == [[[[19.0] * 4]]]


def test_default_initial_kernel_keeps_the_variance_for_a_relu(graph: Any) -> None:
    tf.set_random_seed(1)
    y = Conv2D("c", tf.ones([1, 3, 3, 64]), 128, 3)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        kernel, bias = session.run(y.variables.all())
    np.testing.assert_allclose(kernel.var(), 2 / (3 * 3 * 64), rtol=0.05)
    assert not bias.any()


def test_regularizers_fill_the_collection(graph: Any) -> None:
    options = {f"{what}_regularizer": tf.reduce_sum for what in ("kernel", "bias", "activity")}
    Conv2D("c", tf.ones([1, 3, 3, 2]), 4, 3, activation=tf.nn.relu, **options)
    losses = tf.get_collection(tf.GraphKeys.REGULARIZATION_LOSSES)
    scopes = [loss.op.name.rpartition("/")[0] for loss in losses]
    assert scopes == ["c/W/Regularizer", "c/b/Regularizer", "c/ActivityRegularizer"]


@pytest.mark.parametrize(
    ("shape", "arguments", "message"),
    [
        ([None, 5], {}, r"Conv2D 'c' got an input of shape \(None, 5\) .*: expected 4 dimensions"),
        ([1, 2, 2, None], {}, r"Conv2D 'c' got an input .*: expected a known number of channels, dimension 3"),
        ([1, 2, 2, 4], {"filters": 0}, "got filters=0: expected a positive whole number"),
        ([1, 2, 2, 4], {"filters": 2.5}, "Conv2D 'c' got filters=2.5: expected a positive whole number"),
        ([1, 2, 2, 4], {"split": 3}, "got split=3: expected a number that divides 4 channels and 6 filters"),
        ([1, 2, 2, 4], {"split": 4}, "got split=4: expected a number that divides 4 channels and 6 filters"),
        ([1, 2, 2, 4], {"split": 0}, "got split=0: expected a number that divides 4 channels and 6 filters"),
        ([1, 2, 2, 4], {"kernel_size": 0}, "got kernel_size=0: expected positive integers"),
        ([1, 2, 2, 4], {"kernel_size": 1.5}, "^Conv2D got kernel_size="),
        ([1, 2, 2, 4], {"strides": (1, 0)}, r"got strides=\(1, 0\): expected positive integers"),
        ([1, 2, 2, 4], {"kernel_size": "3"}, "^Conv2D got kernel_size="),
        ([1, 2, 2, 4], {"data_format": "NWHC"}, "data_format='NWHC'"),
        ([1, 2, 2, 4], {"activaton": tf.nn.relu}, "Conv2D has no argument 'activaton'; near names: activation"),
    ],
)
def test_bad_arguments_are_named_before_anything_is_made(
    graph: Any, shape: list[int | None], arguments: dict[str, Any], message: str
) -> None:
    x = tf.placeholder(tf.float32, shape)
    with pytest.raises(ConfigError, match=message):
        Conv2D("c", x, **{"filters": 6, "kernel_size": 3, **arguments})
    assert graph.get_operations() == [x.op]
