"""Where channels, height and width are in both formats."""

from typing import Any

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tpack.models.data_format import channel_axis, is_channels_first, pad, sizes_of, spatial_axes


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


def test_pad_adds_zeros_to_height_and_width(graph: Any, rng: np.random.Generator) -> None:
    x = rng.normal(size=(2, 3, 4, 5))
    with tf.Session() as session:
        last, first = session.run([pad(tf.constant(x), [[1, 2], [0, 3]], fmt) for fmt in ("NHWC", "NCHW")])
    np.testing.assert_array_equal(last, np.pad(x, [[0, 0], [1, 2], [0, 3], [0, 0]]))
    np.testing.assert_array_equal(first, np.pad(x, [[0, 0], [0, 0], [1, 2], [0, 3]]))
