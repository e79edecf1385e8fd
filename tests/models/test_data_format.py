"""Where channels are, and what messages say when they are not known."""

from typing import Any

import pytest
import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError
from tpack.models.data_format import (
    channel_axis,
    check_floating,
    check_rank,
    is_channels_first,
    layer_name,
    sizes_of,
    spatial_axes,
    static_channels,
)


def image(*shape: int | None, dtype: Any = tf.float32) -> Any:
    return tf.placeholder(dtype, shape, name="image")


@pytest.mark.parametrize(
    ("name", "first", "axis", "spatial"),
    [
        ("channels_first", True, 1, [2, 3]),
        ("NCHW", True, 1, [2, 3]),
        ("channels_last", False, 3, [1, 2]),
        ("NHWC", False, 3, [1, 2]),
    ],
)
def test_axes_of_both_formats_by_both_names(name: str, first: bool, axis: int, spatial: list[int]) -> None:
    assert is_channels_first(name) is first
    assert channel_axis(name) == axis
    assert channel_axis(name, rank=2) == 1
    assert spatial_axes(name) == spatial


def test_sizes_are_numbers_where_they_are_known(graph: Any) -> None:
    assert sizes_of(tf.zeros([2, 3])) == [2, 3]
    x = image(None, 3)
    batch, channels = sizes_of(x)
    assert channels == 3
    with tf.Session() as session:
        assert session.run(batch, {x: [[1, 2, 3]] * 4}) == 4


def test_layer_name_is_that_of_the_variable_scope(graph: Any) -> None:
    assert layer_name("Conv2D") == "Conv2D"
    with tf.variable_scope("group0"), tf.variable_scope("conv1"):
        assert layer_name("Conv2D") == "Conv2D 'group0/conv1'"


def test_known_shapes_pass(graph: Any) -> None:
    x = image(None, 4, None, 3)
    assert check_rank("Conv2D", x, 2, 4) == 4
    assert check_floating("Conv2D", x) == tf.float32
    assert static_channels("Conv2D", x) == 3
    assert static_channels("Conv2D", x, "NCHW") == 4
    assert static_channels("BatchNorm", image(None, 7), "NCHW") == 7


@pytest.mark.parametrize("shape", [[None, 3], None])
def test_wrong_rank_names_layer_and_shape(graph: Any, shape: Any) -> None:
    x = tf.placeholder(tf.float32, shape, name="image")
    with tf.variable_scope("conv0"), pytest.raises(ConfigError, match=r"Conv2D 'conv0' wants an input of 4 dim.*shape"):
        check_rank("Conv2D", x, 4)


def test_integers_are_refused(graph: Any) -> None:
    with pytest.raises(ConfigError, match=r"Conv2D wants a floating-point input, got uint8 \(image:0\)"):
        check_floating("Conv2D", image(1, 2, dtype=tf.uint8))


def test_unknown_channels_name_the_dimension(graph: Any) -> None:
    with pytest.raises(ConfigError, match=r"size of dimension 1 \(channels_first\), got shape \(None, None, 2, 2\)"):
        static_channels("Conv2D", image(None, None, 2, 2), "NCHW")
