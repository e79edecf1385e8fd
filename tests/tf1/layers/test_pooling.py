"""Pooling against a loop over windows in numpy."""

import itertools

import numpy as np
import pytest

import tpack.tf1 as tf

FUNCTIONS = {"max": np.nanmax, "average": np.nanmean}


def pooled(x, window, stride, padding, reduce):
    """Pool an array with the channels last; elements that are padded are none."""
    outputs = []
    sizes = x.shape[1:-1]
    if padding == "same":
        counts = [-(-size // stride) for size in sizes]
        missing = [max((n - 1) * stride + window - size, 0) for n, size in zip(counts, sizes, strict=True)]
        x = np.pad(x, [(0, 0), *((m // 2, m - m // 2) for m in missing), (0, 0)], constant_values=np.nan)
    else:
        counts = [(size - window) // stride + 1 for size in sizes]
    axes = tuple(range(1, x.ndim - 1))
    for place in itertools.product(*map(range, counts)):
        inside = tuple(slice(index * stride, index * stride + window) for index in place)
        outputs.append(reduce(x[(slice(None), *inside)], axis=axes))
    return np.stack(outputs, 1).reshape([len(x), *counts, x.shape[-1]])


@pytest.mark.parametrize("kind", FUNCTIONS)
@pytest.mark.parametrize("num_axes", [1, 2, 3])
def test_pooling_is_over_windows(graph, rng, num_axes, kind):
    x = rng.normal(size=[2, 5, 6, 4][: num_axes + 1] + [3]).astype(np.float32)
    function = getattr(tf.layers, f"{kind}_pooling{num_axes}d")
    to_first = [0, num_axes + 1, *range(1, num_axes + 1)]
    got, wanted = [], []
    for padding, (window, stride) in itertools.product(["valid", "same"], [(2, 2), (3, 2), (3, 1)]):
        got.append(function(x, window, stride, padding))
        got.append(function(x.transpose(to_first), window, stride, padding, data_format="channels_first"))
        value = pooled(x, window, stride, padding, FUNCTIONS[kind])
        wanted += [value, value.transpose(to_first)]
    with tf.Session() as session:
        for one, other in zip(session.run(got), wanted, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


def test_windows_stand_side_by_side_where_strides_are_none(graph):
    layer = tf.layers.MaxPooling2D((2, 3), None)
    assert layer.strides == (2, 3)
    assert layer(tf.zeros([1, 4, 6, 2])).shape.as_list() == [1, 2, 2, 2]


def test_inputs_have_an_axis_for_each_of_the_window(graph):
    with pytest.raises(ValueError, match="expected 4 dimensions"):
        tf.layers.max_pooling2d(tf.zeros([2, 4, 4]), 2, 2)
