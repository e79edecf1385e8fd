import math
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

from tests.helpers.tower_grads import run, slices, source
from tpack.tower.grads import (
    ReduceOp,
    common_shape,
    gradient_parts,
    gradient_values,
    is_sparse,
    map_gradient_parts,
    map_gradient_values,
    static_bytes,
)


def test_divisor_is_the_number_of_towers_for_a_mean_only() -> None:
    assert ReduceOp.MEAN.divisor(8) == 8
    assert ReduceOp.SUM.divisor(8) == 1


def test_indexed_slices_are_sparse_and_nothing_else(graph: Any) -> None:
    assert is_sparse(slices([[1.0]], [0], ""))
    assert not is_sparse(tf.zeros([2]))
    assert not is_sparse(None)


def test_values_are_the_numbers_of_either_kind(graph: Any) -> None:
    dense, sparse = tf.zeros([2]), slices([[1.0]], [0], "")
    assert gradient_values(dense) is dense
    assert gradient_values(sparse) is sparse.values


def test_map_gradient_values_keeps_indices_and_shape(session8: Any) -> None:
    sparse = slices([[1.0], [3.0]], [2, 0], "", rows=4)
    negated = map_gradient_values(tf.negative, sparse)
    assert negated.indices is sparse.indices
    assert negated.dense_shape is sparse.dense_shape
    assert run(session8, negated).values.tolist() == [[-1.0], [-3.0]]
    assert run(session8, map_gradient_values(tf.negative, source(2.0, ""))) == -2.0


def test_parts_are_the_tensors_that_are_there(graph: Any) -> None:
    dense, bare, shaped = tf.zeros([2]), slices([[1.0]], [0], ""), slices([[1.0]], [0], "", rows=4)
    parts = [gradient_parts(gradient) for gradient in (dense, bare, shaped)]
    wanted = [[dense], [bare.values, bare.indices], [shaped.values, shaped.indices, shaped.dense_shape]]
    assert [list(map(id, tensors)) for tensors in parts] == [list(map(id, tensors)) for tensors in wanted]


def test_map_gradient_parts_leaves_a_missing_shape_missing(session8: Any) -> None:
    bare, shaped = slices([[1.0]], [2], ""), slices([[1.0]], [2], "", rows=4)
    copy = map_gradient_parts(tf.identity, bare)
    assert copy.dense_shape is None
    assert copy.values is not bare.values
    doubled = run(session8, map_gradient_parts(lambda part: 2 * part, shaped))
    assert (doubled.values.tolist(), doubled.indices.tolist(), doubled.dense_shape.tolist()) == ([[2.0]], [4], [8, 2])
    assert run(session8, map_gradient_parts(tf.negative, source(2.0, ""))) == -2.0


def test_a_column_knows_what_one_of_its_members_knows(graph: Any) -> None:
    column = [tf.placeholder(tf.float64, shape) for shape in (None, [None, 3], [2, None])]
    assert common_shape(column).as_list() == [2, 3]
    assert common_shape(column[:2]).as_list() == [None, 3]
    sparse = [slices(np.ones((1, 3)), [0], "", rows=rows) for rows in (None, 5)]
    assert common_shape(sparse).as_list() == [5, 3]


def test_static_bytes_joins_what_the_towers_know(graph: Any) -> None:
    column = [tf.placeholder(tf.float64, shape) for shape in (None, [None, 3], [2, None])]
    assert static_bytes(column) == 48
    assert static_bytes(column[:2]) == math.inf
    assert static_bytes([tf.zeros([], tf.bfloat16)]) == 2
    assert static_bytes([tf.zeros([4, 0])]) == 0
