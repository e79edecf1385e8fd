"""Maxima and means over windows."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.contrib_layers import run
from tpack.errors import ConfigError
from tpack.tf1.contrib import layers, slim

IMAGE = np.random.RandomState(0).randn(2, 4, 6, 3).astype("f")
WINDOWS = IMAGE.reshape(2, 2, 2, 3, 2, 3)


def test_pools(graph):
    first = IMAGE.transpose(0, 3, 1, 2)
    outputs = [
        layers.max_pool2d(IMAGE, 2, outputs_collections="outs"),
        layers.avg_pool2d(IMAGE, [2, 2]),
        tf.transpose(layers.max_pool2d(first, 2, data_format="NCHW"), [0, 2, 3, 1]),
        layers.max_pool3d(IMAGE[:, None], [1, 2, 2], [1, 2, 2])[:, 0],
        layers.avg_pool3d(IMAGE[:, None], [1, 2, 2], [1, 2, 2])[:, 0],
        slim.pool(IMAGE, 2, "MAX", stride=2),
        tf.transpose(slim.pool(first, 2, "AVG", stride=2, data_format="NCHW"), [0, 2, 3, 1]),
    ]
    assert [outputs[0].op.name, outputs[1].op.name] == ["MaxPool2D/MaxPool", "AvgPool2D/AvgPool"]
    assert outputs[5].op.name == "max_pool"
    assert [output.aliases for output in tf.get_collection("outs")] == [["MaxPool2D"]]
    largest, means = WINDOWS.max((2, 4)), WINDOWS.mean((2, 4))
    for result, expected in zip(run(outputs), [largest, means, largest, largest, means, largest, means], strict=True):
        np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-6)


def test_what_cannot_be_is_refused(graph):
    for function, arguments, message in (
        (layers.max_pool2d, (IMAGE[0], 2), "expected 4 dimensions"),
        (slim.pool, (IMAGE, 2, "MIN"), "got pooling_type="),
        (slim.pool, (IMAGE[0, 0], 2, "MAX"), "3 or 4 or 5 dimensions"),
    ):
        with pytest.raises(ConfigError, match=message):
            function(*arguments)
    with pytest.raises(ConfigError, match="data_format"):
        layers.avg_pool3d(IMAGE[None], 2, data_format="NHWC")
