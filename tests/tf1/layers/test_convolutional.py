"""Convolutions: equal to TensorFlow's own, and the same in both data formats where there are no kernels for one."""

from typing import Any

import numpy as np
import pytest

import tpack.tf1 as tf
from tests.helpers import tf1_layer_cases as cases
from tests.helpers.layer_checks import randomize_variables
from tests.helpers.tf1_oracle import assert_same, original, run_case

KERNEL = {"filters": 3, "kernel_size": 2}
LAYERS: dict[str, tuple[int, dict[str, Any], str]] = {
    "conv1d": (1, {**KERNEL, "strides": 2}, "float64"),
    "conv2d": (2, {**KERNEL, "dilation_rate": 2}, "float64"),
    "conv3d": (3, {**KERNEL, "padding": "same"}, "float64"),
    "conv2d_transpose": (2, {**KERNEL, "strides": (2, 3)}, "float64"),
    "conv3d_transpose": (3, {**KERNEL, "strides": 2}, "float32"),
    "separable_conv1d": (1, {**KERNEL, "depth_multiplier": 2}, "float32"),
    "separable_conv2d": (2, {**KERNEL, "strides": 2}, "float32"),
    "max_pooling2d": (2, {"pool_size": 2, "strides": 1}, "float64"),
    "average_pooling1d": (1, {"pool_size": 2, "strides": 1}, "float64"),
}


@pytest.mark.parametrize("name", cases.names_of("conv1d", "conv2d", "conv3d", "separable", "pooling"))
def test_layers_equal_the_original(name: str) -> None:
    assert_same(run_case(tf, cases.CASES[name]), original(cases.__file__)[name])


def test_sequences_with_the_channels_first_equal_the_original() -> None:
    name = "conv1d, channels first"
    assert_same(run_case(tf, cases.CASES[name]), original(cases.__file__)[name], names=False)


@pytest.mark.parametrize("name", LAYERS)
def test_channels_first_is_the_same_where_kernels_know_channels_last_only(
    graph: Any, rng: np.random.Generator, name: str
) -> None:
    num_axes, kwargs, dtype = LAYERS[name]
    function, rank = getattr(tf.layers, name), num_axes + 2
    to_first, to_last = [0, rank - 1, *range(1, rank - 1)], [0, *range(2, rank), 1]
    x = tf.constant(rng.normal(size=[2, 5, 4, 5][: num_axes + 1] + [4]), dtype)
    with tf.variable_scope("shared"):
        last = function(x, name="layer", **kwargs)
    with tf.variable_scope("shared", reuse=True):
        first = function(tf.transpose(x, to_first), name="layer", data_format="channels_first", **kwargs)
    grads = [tf.gradients(tf.reduce_sum(tf.sin(y)), [x, *tf.trainable_variables()]) for y in (last, first)]
    assert first.shape.as_list() == [last.shape.as_list()[axis] for axis in to_first]
    with tf.Session() as session:
        randomize_variables(session)
        values = session.run([last, tf.transpose(first, to_last), *(grad for pair in grads for grad in pair)])
    grads_last, grads_first = values[2 : 2 + len(grads[0])], values[2 + len(grads[0]) :]
    for wanted, got in zip([values[0], *grads_last], [values[1], *grads_first], strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("data_format", ["channels_last", "channels_first"])
@pytest.mark.parametrize("padding", ["valid", "same"])
def test_shape_of_the_output_is_told_without_a_graph(graph: Any, padding: str, data_format: str) -> None:
    layers = tf.layers
    options = {"padding": padding, "data_format": data_format}
    made = [
        layers.Conv1D(4, 3, 2, **options),
        layers.Conv2D(4, 3, dilation_rate=2, **options),
        layers.Conv2DTranspose(4, (3, 1), (2, 3), **options),
        layers.Conv3DTranspose(4, 2, 3, **options),
        layers.SeparableConv2D(4, 3, 2, **options),
        layers.MaxPooling1D(3, 2, **options),
        layers.AveragePooling3D(2, 2, **options),
    ]
    for layer in made:
        shape = [None, 6, 6, 6, 6][: layer.num_axes + 2]
        assert layer.compute_output_shape(shape).as_list() == layer(tf.placeholder(tf.float32, shape)).shape.as_list()


def test_sizes_must_be_positive(graph: Any) -> None:
    with pytest.raises(ValueError, match="Conv2D got strides=0"):
        tf.layers.Conv2D(4, 3, strides=(1, 0))
    with pytest.raises(ValueError, match="MaxPooling1D got pool_size=0"):
        tf.layers.MaxPooling1D(0, 1)
    with pytest.raises(ValueError, match="SeparableConv1D got depth_multiplier=0"):
        tf.layers.SeparableConv1D(4, 3, depth_multiplier=0)
