"""Unpooling against numpy's Kronecker product, in both formats."""

from typing import Any

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.layer_checks import FORMATS, assert_layer
from tpack.errors import ConfigError
from tpack.models.pool import FixedUnPooling


def kron(x: np.ndarray, matrix: np.ndarray) -> np.ndarray:
    return np.stack([[np.kron(image[..., c], matrix) for c in range(x.shape[3])] for image in x]).transpose(0, 2, 3, 1)


@pytest.mark.parametrize("data_format", FORMATS)
@pytest.mark.parametrize("matrix", [None, np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])])
def test_values_and_gradients(matrix: Any, data_format: str, rng: np.random.Generator) -> None:
    wanted = np.eye(1, 6).reshape(2, 3) if matrix is None else matrix

    def build(x: Any, data_format: str) -> Any:
        return FixedUnPooling("up", x, (2, 3), matrix, data_format)

    assert_layer(build, rng.normal(size=(2, 3, 4, 2)), lambda x, _: kron(x, wanted), data_format)


def test_matrix_may_be_a_tensor_and_sizes_unknown(graph: Any, rng: np.random.Generator) -> None:
    x = tf.placeholder(tf.float64, [None, None, 4, None])
    y = FixedUnPooling("up", x, 2, tf.ones([2, 2], tf.float64))
    assert y.shape.as_list() == [None, None, 8, None]
    assert y.name == "up/output:0"
    value = rng.normal(size=(1, 3, 4, 2))
    with tf.Session() as session:
        np.testing.assert_allclose(session.run(y, {x: value}), kron(value, np.ones((2, 2))))


def test_infinity_stays_in_its_corner(graph: Any) -> None:
    y = FixedUnPooling("up", tf.fill([1, 1, 1, 1], np.inf), 2)
    with tf.Session() as session:
        assert session.run(y)[0, :, :, 0].tolist() == [[np.inf, 0], [0, 0]]


def test_bad_arguments_are_named(graph: Any) -> None:
    x = tf.zeros([1, 2, 2, 1])
    with pytest.raises(ConfigError, match="FixedUnPooling 'up' got an input of .*: expected 4 dimensions"):
        FixedUnPooling("up", tf.zeros([2, 2]), 2)
    with pytest.raises(ConfigError, match="got shape=0: expected positive integers"):
        FixedUnPooling("up", x, 0)
    with pytest.raises(ConfigError, match=r"got unpool_mat of shape \(2, 3\): expected \[2, 2\]"):
        FixedUnPooling("up", x, 2, np.ones([2, 3]))
