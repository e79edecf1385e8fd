"""What normalisation layers share; the layers' own tests hold their numbers."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError
from tpack.models.channels import channels_of, normalize, wide_dtype


@pytest.mark.parametrize(
    ("shape", "data_format", "axis", "spread", "others"),
    [
        ([2, 3, 4, 5], "channels_last", 3, [5], [0, 1, 2]),
        ([2, 3, 4, 5], "NCHW", 1, [1, 3, 1, 1], [0, 2, 3]),
        ([2, 3], "channels_first", 1, [3], [0]),
    ],
)
def test_channels_are_found_in_either_format(graph, shape, data_format, axis, spread, others):
    channels = channels_of("Layer", tf.zeros(shape), data_format, 2, 4)
    assert (channels.axis, channels.count, channels.other_axes) == (axis, shape[axis], others)
    assert channels.is_first == (data_format == "NCHW")
    assert channels.spread(tf.zeros([shape[axis]])).shape == spread
    assert {name: x.shape for name, x in channels.spread_all({"a": tf.zeros([shape[axis]])}).items()} == {"a": spread}


def test_inputs_that_cannot_be_normalised_are_errors(graph):
    with pytest.raises(ConfigError, match="Layer got an input of int32 .*: expected floating-point"):
        channels_of("Layer", tf.zeros([2, 3], tf.int32), "NHWC", 2)
    with pytest.raises(ConfigError, match="data_format='CHWN'"):
        channels_of("Layer", tf.zeros([2, 3]), "CHWN", 2)


def test_what_is_narrow_is_computed_in_float32(graph):
    dtypes = [tf.float16, tf.bfloat16, tf.float32, tf.float64]
    assert [wide_dtype(tf.zeros([], dtype)) for dtype in dtypes] == [tf.float32, tf.float32, tf.float32, tf.float64]


def test_normalize_keeps_the_dtype_and_takes_a_name(session8, rng):
    x = rng.normal(size=(3, 2))
    args = tf.constant(x.mean(0)), tf.constant(x.var(0)), {"beta": tf.constant([1.0, 2.0], tf.float64)}, 0.5
    got = normalize(tf.constant(x), *args, name="mine")
    assert got.op.name == "mine"
    expected = (x - x.mean(0)) / np.sqrt(x.var(0) + 0.5) + [1.0, 2.0]
    np.testing.assert_allclose(session8.run(got), expected)
    narrow = normalize(tf.zeros([3, 2], tf.float16), tf.zeros([2]), tf.ones([2]), {}, 0.5)
    assert (narrow.dtype, narrow.op.name) == (tf.float16, "output")
