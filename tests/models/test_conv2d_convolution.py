"""Which operations compute a convolution, and that the ways around basic kernels change no number."""

from typing import Any

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.feature_maps import conv2d
from tpack.models.conv2d import Geometry, convolve

GEOMETRIES = {
    "plain": Geometry(strides=(2, 1)),
    "groups": Geometry(groups=2, strides=(1, 2), padding="VALID"),
    "dilated": Geometry(dilations=(2, 1)),
    "dilated and stride": Geometry(dilations=(1, 3), strides=(2, 2)),
    "all": Geometry(dilations=(2, 2), strides=(2, 1), groups=2, padding=[[1, 0], [2, 3]]),
}


@pytest.mark.parametrize("basic", [False, True])
@pytest.mark.parametrize("case", GEOMETRIES)
def test_both_ways_give_the_same_numbers(
    case: str, basic: bool, graph: Any, monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator
) -> None:
    monkeypatch.setattr("tpack.models.conv2d.has_basic_kernels", lambda dtype: basic)
    geometry = GEOMETRIES[case]
    x, kernel = rng.normal(size=(2, 8, 9, 4)), rng.normal(size=(3, 2, 4 // geometry.groups, 6))
    y = convolve(tf.constant(x, tf.float32), tf.constant(kernel, tf.float32), geometry, "NHWC", "y")
    padding = geometry.padding.lower() if isinstance(geometry.padding, str) else geometry.padding
    wanted = conv2d(x, kernel, geometry.strides, padding, geometry.dilations)
    with tf.Session() as session:
        np.testing.assert_allclose(session.run(y), wanted, rtol=1e-4, atol=1e-4)
    assert y.shape.as_list() == list(wanted.shape)
    assert [op.type for op in graph.get_operations()].count("Conv2D") == (geometry.groups if basic else 1)
    assert y.op.name.startswith("y")


def test_numbers_are_padded_first(graph: Any) -> None:
    y = convolve(tf.zeros([1, 2, 4, 4]), tf.zeros([3, 3, 2, 5]), Geometry(padding=[[1, 1], [2, 0]]), "NCHW")
    assert y.shape == [1, 5, 4, 4]
    assert y.op.inputs[0].op.type == "Pad"


def test_float64_and_float16_run_with_gradients(graph: Any) -> None:
    with tf.Session() as session:
        for dtype in (tf.float64, tf.float16):
            x, kernel = tf.ones([1, 4, 4, 2], dtype), tf.ones([2, 2, 1, 2], dtype)
            y = convolve(x, kernel, Geometry(groups=2, dilations=(2, 2), padding="VALID"), "NHWC")
            grads = session.run(tf.gradients(y, [x, kernel]))
            assert grads[1].reshape(-1).tolist() == [4] * 8
