"""Sums of dense and of sparse gradients, against numpy."""

from typing import Any

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tpack.tfutils.optimizer import DenseAccumulator, SparseAccumulator


def zeros(name: str, shape: list[int], dtype: str = "float32") -> Any:
    return tf.get_variable(name, shape, dtype, tf.zeros_initializer(), use_resource=True)


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
def test_dense_gradients_are_summed_until_reset(session8: Any, dtype: str) -> None:
    accumulator = DenseAccumulator(zeros("total", [2], dtype))
    gradient = tf.placeholder(dtype, [2])
    add, mean, reset = accumulator.add(gradient), accumulator.mean(4), accumulator.reset()
    session8.run(tf.global_variables_initializer())
    for _ in range(2):
        for value in (1, 2, 5, 8):
            session8.run(add, {gradient: [value, -value]})
        np.testing.assert_array_equal(session8.run(mean).astype("float64"), [4, -4])
        session8.run(reset)
        np.testing.assert_array_equal(session8.run(mean).astype("float64"), [0, 0])


def test_sparse_gradients_are_summed_by_row(session8: Any) -> None:
    accumulator = SparseAccumulator(zeros("total", [5, 2]), zeros("touched", [5], "bool"))
    rows = tf.placeholder(tf.int32, [None])
    gradient = tf.IndexedSlices(tf.ones([tf.size(rows), 2]), rows, tf.constant([5, 2]))
    add, mean, reset = accumulator.add(gradient), accumulator.mean(2), accumulator.reset()
    session8.run(tf.global_variables_initializer())
    for batch in ([3, 1, 3], [], [3]):
        session8.run(add, {rows: batch})
    summed = session8.run(mean)
    np.testing.assert_array_equal(summed.indices, [1, 3])
    np.testing.assert_array_equal(summed.values, [[0.5, 0.5], [1.5, 1.5]])
    np.testing.assert_array_equal(summed.dense_shape, [5, 2])
    session8.run(reset)
    assert session8.run(mean).values.shape == (0, 2)
