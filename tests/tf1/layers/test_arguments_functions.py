"""Functions of layers: their arguments as in 1.15, and that tpack's argument scopes know them."""

import inspect
from types import ModuleType
from typing import Any

import pytest

import tpack.tf1 as tf
from tests.helpers.tf1_oracle import numbers
from tpack.errors import WrongTypeError
from tpack.tf1 import layers
from tpack.tfutils.argscope import argscope, enable_argscope_for_module

# Of TensorFlow 1.15, in its order; a star stands before what differs from `conv2d`.
CONV = (
    "inputs filters kernel_size strides padding data_format dilation_rate activation use_bias kernel_initializer "
    "bias_initializer kernel_regularizer bias_regularizer activity_regularizer kernel_constraint bias_constraint "
    "trainable name reuse"
)
ARGUMENTS = {
    "dense": CONV.replace("filters kernel_size strides padding data_format dilation_rate", "units"),
    "conv1d": CONV,
    "conv2d": CONV,
    "conv3d": CONV,
    "conv2d_transpose": CONV.replace("dilation_rate ", ""),
    "conv3d_transpose": CONV.replace("dilation_rate ", ""),
    "separable_conv2d": CONV.replace("dilation_rate", "dilation_rate depth_multiplier")
    .replace("kernel_initializer", "depthwise_initializer pointwise_initializer")
    .replace("kernel_regularizer", "depthwise_regularizer pointwise_regularizer")
    .replace("kernel_constraint", "depthwise_constraint pointwise_constraint"),
    "max_pooling2d": "inputs pool_size strides padding data_format name",
    "average_pooling3d": "inputs pool_size strides padding data_format name",
    "dropout": "inputs rate noise_shape seed training name",
    "flatten": "inputs name data_format",
    "batch_normalization": (
        "inputs axis momentum epsilon center scale beta_initializer gamma_initializer moving_mean_initializer "
        "moving_variance_initializer beta_regularizer gamma_regularizer beta_constraint gamma_constraint training "
        "trainable name reuse renorm renorm_clipping renorm_momentum fused virtual_batch_size adjustment"
    ),
}


@pytest.mark.parametrize("name", ARGUMENTS)
def test_arguments_are_those_of_tensorflow_1(name: str) -> None:
    function = getattr(layers, name)
    assert list(inspect.signature(function).parameters) == ARGUMENTS[name].split()
    assert (function.__name__, function.__module__.rpartition(".")[0]) == (name, "tpack.tf1.layers")
    assert function.__doc__


def test_defaults_of_sizes_are_those_of_the_dimensions() -> None:
    for name, ones in (("Conv1D", 1), ("conv2d", (1, 1)), ("Conv3D", (1, 1, 1)), ("SeparableConv2D", (1, 1))):
        parameters = inspect.signature(getattr(layers, name)).parameters
        assert parameters["strides"].default == parameters["dilation_rate"].default == ones
    assert inspect.signature(layers.Conv2DTranspose).parameters["strides"].default == (1, 1)


def test_arguments_go_by_position_as_by_name(graph: Any) -> None:
    x = numbers(tf, [2, 3])
    tf.layers.dense(x, 4, tf.nn.relu, False, name="by_position")
    assert [v.op.name for v in tf.global_variables()] == ["by_position/kernel"]


@pytest.mark.parametrize(
    ("args", "kwargs", "message"),
    [
        ((), {}, "inputs"),
        ((None,), {}, "units"),
        ((None, 3), {"units": 4}, "multiple values|units"),
        ((None, 3), {"unit": 4}, "unit"),
        ((None, *range(20)), {}, "too many"),
    ],
)
def test_arguments_that_do_not_fit_are_named(graph: Any, args: Any, kwargs: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        tf.layers.dense(*args, **kwargs)


def test_a_class_names_the_argument_that_it_does_not_have(graph: Any) -> None:
    with pytest.raises(WrongTypeError, match="Dense got colour: it has no such argument"):
        tf.layers.Dense(3, colour="red")


def test_argument_scopes_give_arguments(graph: Any) -> None:
    # The module itself would stay changed for all tests that follow.
    module = ModuleType("layers")
    vars(module).update({name: getattr(layers, name) for name in layers.__all__})
    enable_argscope_for_module(module)
    functions: Any = module
    with argscope([functions.conv2d, functions.dense], activation=tf.nn.relu, use_bias=False):
        y = functions.conv2d(numbers(tf, [2, 5, 5, 3]), 4, 3, name="conv")
        z = functions.dense(functions.flatten(y), 2, name="dense", activation=None)
    assert y.op.type == "Relu"
    assert z.op.type == "MatMul"
    assert len(tf.global_variables()) == 2


def test_every_name_of_tensorflow_1_is_there() -> None:
    classes = (
        "AveragePooling1D AveragePooling2D AveragePooling3D BatchNormalization Conv1D Conv2D Conv2DTranspose Conv3D "
        "Conv3DTranspose Dense Dropout Flatten InputSpec Layer MaxPooling1D MaxPooling2D MaxPooling3D SeparableConv1D "
        "SeparableConv2D"
    )
    functions = (
        "average_pooling1d average_pooling2d average_pooling3d batch_normalization conv1d conv2d conv2d_transpose "
        "conv3d conv3d_transpose dense dropout flatten max_pooling1d max_pooling2d max_pooling3d separable_conv1d "
        "separable_conv2d"
    )
    assert sorted(dir(layers)) == sorted([*classes.split(), *functions.split()])
