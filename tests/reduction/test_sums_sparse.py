from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

from tests.helpers.tower_grads import run, slices
from tpack.reduction.sums import concat_slices, copy_slices_to_each


def test_concat_slices_keeps_the_order_of_towers_and_duplicates(session8: Any) -> None:
    column = [slices([[1.0], [2.0]], [3, 3], ""), slices(np.zeros((0, 1)), [], ""), slices([[4.0]], [3], "")]
    total = run(session8, concat_slices(column))
    assert total.values.tolist() == [[1.0], [2.0], [4.0]]
    assert total.indices.tolist() == [3, 3, 3]
    assert total.dense_shape is None


def test_concat_slices_divides_the_values(session8: Any) -> None:
    total = run(session8, concat_slices([slices([[1.0]], [0], ""), slices([[3.0]], [2], "", rows=5)], 2))
    assert total.values.tolist() == [[0.5], [1.5]]
    assert total.dense_shape.tolist() == [5, 1]


def test_copy_slices_to_each_keeps_each_dense_shape(session8: Any) -> None:
    column = [slices([[1.0]], [0], "/device:CPU:1", rows=4), slices([[1.0]], [0], "/device:CPU:2")]
    copies = copy_slices_to_each(concat_slices(column), column)
    assert [copy.device for copy in copies] == ["/device:CPU:1", "/device:CPU:2"]
    assert [copy.indices.device for copy in copies] == ["/device:CPU:1", "/device:CPU:2"]
    assert [copy.dense_shape.tolist() for copy in run(session8, copies)] == [[4, 1], [4, 1]]


def test_copy_slices_to_each_without_any_dense_shape(session8: Any) -> None:
    column = [slices([[1.0]], [0], "/device:CPU:1"), slices([[2.0]], [1], "/device:CPU:2")]
    copies = copy_slices_to_each(concat_slices(column), column)
    assert all(isinstance(copy, tf.IndexedSlices) and copy.dense_shape is None for copy in copies)
