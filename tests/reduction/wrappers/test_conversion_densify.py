from typing import Any

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.tower_grads import dense_towers, run, slices, source
from tpack.errors import ReductionError
from tpack.reduction.algorithms.collective import CollectiveReducer
from tpack.reduction.algorithms.composite import HierarchicalReducer
from tpack.reduction.algorithms.one_device import RoundRobinReducer
from tpack.reduction.base import ReduceOp
from tpack.reduction.wrappers.conversion import DensifyReducer
from tpack.reduction.wrappers.packers import ConcatAndSplitPackingReducer
from tpack.tower.grads import is_sparse


def _sparse_towers(num_towers: int, num_rows: int, table_rows: int, dtype: Any = tf.float32) -> list[list[Any]]:
    """Return towers whose slices add 1 to row 0 `num_rows` times."""
    return [
        [slices(np.ones((num_rows, 3)), [0] * num_rows, f"/device:CPU:{k}", dtype=dtype, rows=table_rows)]
        for k in range(num_towers)
    ]


# Each row of slices has 3 values of 4 bytes and an index of 8, and a row of the table has 12 bytes.
@pytest.mark.parametrize(
    ("num_towers", "num_rows", "table_rows", "is_dense"),
    [(2, 3, 9, True), (2, 3, 10, False), (4, 3, 19, True), (4, 3, 20, False), (2, 0, 5, False), (3, 1, 0, True)],
)
def test_slices_become_dense_when_they_take_more_bytes_than_the_table(
    num_towers: int, num_rows: int, table_rows: int, is_dense: bool, graph: Any
) -> None:
    reduced = DensifyReducer(RoundRobinReducer()).reduce(_sparse_towers(num_towers, num_rows, table_rows))
    assert [is_sparse(tower[0]) for tower in reduced] == [not is_dense] * num_towers
    if is_dense:
        assert reduced[0][0].shape.as_list() == [table_rows, 3]


@pytest.mark.parametrize(("op", "row"), [(ReduceOp.SUM, 12.0), (ReduceOp.MEAN, 3.0)])
@pytest.mark.parametrize("inner", [RoundRobinReducer(), HierarchicalReducer(), CollectiveReducer()])
def test_duplicate_rows_are_added_in_mixed_lists(inner: Any, op: ReduceOp, row: float, session8: Any) -> None:
    towers = _sparse_towers(4, 3, 2)
    for k, tower in enumerate(towers):
        device = f"/device:CPU:{k}"
        tower += [source(np.float32(k), device), slices([[1.0]], [k], device, rows=1000), slices([[1.0]], [k], device)]
    reducer = DensifyReducer(inner)
    reduced = reducer.reduce(towers, op)
    assert reducer.name == f"densify_{inner.name}"
    assert [reduced[3][n].device for n in range(4)] == ["/device:CPU:3"] * 4
    for tower in run(session8, reduced):
        assert tower[0].tolist() == [[row] * 3, [0.0] * 3]
        assert tower[1] == 6.0 / op.divisor(4)
        assert tower[2].indices.tolist() == [0, 1, 2, 3]
        assert tower[2].dense_shape.tolist() == [1000, 1]
        assert tower[3].dense_shape is None


@pytest.mark.parametrize("dtype", [tf.float16, tf.bfloat16])
def test_duplicates_of_16_bit_floats_are_added_in_float32(dtype: Any, session8: Any) -> None:
    towers = [[slices([[2048.0], *[[1.0]] * 16], [0] * 17, f"/device:CPU:{k}", dtype=dtype, rows=1)] for k in range(2)]
    reduced = run(session8, DensifyReducer(RoundRobinReducer()).reduce(towers))
    assert reduced[0][0].dtype == dtype.as_numpy_dtype
    assert float(reduced[1][0][0, 0]) == 2064.0


@pytest.mark.parametrize("dtype", [tf.float32, tf.float64, tf.int32, tf.int64])
def test_dtypes_are_kept(dtype: Any, session8: Any) -> None:
    (first, _) = run(session8, DensifyReducer(RoundRobinReducer()).reduce(_sparse_towers(2, 4, 2, dtype), ReduceOp.SUM))
    assert first[0].tolist() == [[8] * 3, [0] * 3]
    assert first[0].dtype == dtype.as_numpy_dtype


def test_a_shape_that_only_one_tower_knows_is_enough(session8: Any) -> None:
    towers = [[slices([[1.0]] * 5, [1] * 5, f"/device:CPU:{k}", rows=2 if k else None)] for k in range(2)]
    reduced = DensifyReducer(RoundRobinReducer()).reduce(towers)
    assert run(session8, reduced)[0][0].tolist() == [[0.0], [5.0]]


def test_unknown_sizes_stay_sparse(session8: Any) -> None:
    column = []
    for k in range(2):
        values = source(np.ones((9, 1), np.float32), f"/device:CPU:{k}", static_shape=[None, 1])
        indices = source(np.zeros(9, np.int64), f"/device:CPU:{k}", static_shape=[None])
        column.append(tf.IndexedSlices(values, indices, tf.constant([2, 1], tf.int64)))
    reduced = DensifyReducer(RoundRobinReducer()).reduce([[slices] for slices in column])
    assert run(session8, reduced)[1][0].indices.tolist() == [0] * 18


def test_what_became_dense_is_packed_with_the_dense_gradients(session8: Any) -> None:
    towers = _sparse_towers(2, 4, 2)
    for k, tower in enumerate(towers):
        tower.append(source(np.float32([k]), f"/device:CPU:{k}"))
    run(session8, DensifyReducer(ConcatAndSplitPackingReducer(RoundRobinReducer(), 1)).reduce(towers))
    assert [op.outputs[0].shape.as_list() for op in session8.graph.get_operations() if op.type == "AddN"] == [[7]]


def test_it_works_inside_another_wrapper(session8: Any) -> None:
    towers = _sparse_towers(2, 4, 2)
    for k, tower in enumerate(towers):
        tower.append(source(np.float32([k]), f"/device:CPU:{k}"))
    reduced = ConcatAndSplitPackingReducer(DensifyReducer(RoundRobinReducer()), 1).reduce(towers)
    first, _ = run(session8, reduced)
    assert first[0].tolist() == [[4.0] * 3, [0.0] * 3]
    assert first[1].tolist() == [0.5]


def test_limits_hold_before_anything_is_made_dense(graph: Any) -> None:
    towers = _sparse_towers(3, 4, 2)
    num_ops = len(graph.get_operations())
    with pytest.raises(ReductionError, match="got 3 towers: expected an even number"):
        DensifyReducer(HierarchicalReducer()).reduce(towers)
    with pytest.raises(ReductionError, match="tower 1 has 0 gradients"):
        DensifyReducer(RoundRobinReducer()).reduce([towers[0], []])
    assert len(graph.get_operations()) == num_ops


def test_the_mean_of_integers_is_refused(graph: Any) -> None:
    with pytest.raises(ReductionError, match="mean of integers"):
        DensifyReducer(RoundRobinReducer()).reduce(_sparse_towers(2, 4, 2, tf.int32))


def test_nothing_to_densify(session8: Any) -> None:
    reducer = DensifyReducer(RoundRobinReducer())
    assert reducer.reduce([[], []]) == [[], []]
    (tower,) = _sparse_towers(1, 9, 1)
    assert reducer.reduce([tower]) == [tower]
    assert run(session8, reducer.reduce(dense_towers([[np.float32(1)], [np.float32(3)]]))) == [[2.0]] * 2
