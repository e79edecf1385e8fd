"""The matrix of many cells, and the normalisation of what comes of it."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError
from tpack.tf1.rnn_cell.base import linear, normalised


def test_what_stands_side_by_side_is_multiplied(graph, rng):
    x, y = rng.normal(size=[2, 3]), rng.normal(size=[2, 4])
    with tf.variable_scope("both"):
        both = linear([tf.constant(x), tf.constant(y)], 2, bias_initializer=tf.ones_initializer())
    with tf.variable_scope("one"):
        one = linear(tf.constant(x), 2, bias=False, kernel_initializer=tf.ones_initializer())
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        variables = {v.op.name: v for v in tf.global_variables()}
        values, got_both, got_one = session.run([variables, both, one])
    np.testing.assert_allclose(got_both, np.concatenate([x, y], 1) @ values["both/kernel"] + 1, rtol=1e-9)
    np.testing.assert_allclose(got_one, np.repeat(x.sum(axis=1, keepdims=True), 2, axis=1), rtol=1e-9)
    assert sorted(values) == ["both/bias", "both/kernel", "one/kernel"]


@pytest.mark.parametrize("shapes", [[], [[3]], [[2, 3], [2, None]]])
def test_anything_but_matrices_of_known_depths_is_refused(graph, shapes):
    with pytest.raises(ConfigError, match="expected matrices of known depths"):
        linear([tf.placeholder(tf.float32, shape) for shape in shapes], 3)


@pytest.mark.parametrize("dtype", ["float64", "float16"])
def test_rows_are_normalised(graph, rng, dtype):
    x = rng.normal(size=[4, 8]).astype(dtype)
    y = normalised(tf.constant(x), "norm", 2.0, 0.5)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        got = session.run(y)
    wide = x.astype("float64")
    wanted = 2 * (wide - wide.mean(axis=1, keepdims=True)) / wide.std(axis=1, keepdims=True) + 0.5
    np.testing.assert_allclose(got, wanted, atol=1e-9 if dtype == "float64" else 2e-2)
