from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from tests.helpers.tower_grads import dense_towers, random_towers, run, slices, source
from tpack.errors import ConfigError, ReductionError
from tpack.reduction.algorithms.composite import HierarchicalReducer
from tpack.reduction.algorithms.one_device import OneDeviceReducer
from tpack.reduction.base import Column, ReduceOp
from tpack.reduction.wrappers.splitting import ShardingReducer


class _Recorder(OneDeviceReducer):
    """Notes the shapes of what it is given."""

    def __init__(self) -> None:
        super().__init__()
        self.shapes: list[list[int | None]] = []

    def reduce_dense(self, columns: Sequence[Column], op: ReduceOp) -> list[Column]:
        self.shapes += [column[0].shape.as_list() for column in columns]
        return super().reduce_dense(columns, op)


@pytest.mark.parametrize("op", ReduceOp)
def test_tensors_are_split_and_joined(op: ReduceOp, rng: Any, session8: Any) -> None:
    inner = _Recorder()
    values = random_towers(rng, 2, [(2, 4), (), (0, 3), (2,)])
    reducer = ShardingReducer(inner, 3)
    assert reducer.name == "sharded_one_device"
    reduced = reducer.reduce(dense_towers(values), op)
    assert inner.shapes == [[3], [3], [2], [1], [0], [1], [1]]
    got = run(session8, reduced)
    for k in range(2):
        for n in range(4):
            wanted = sum(tower[n] for tower in values) / op.divisor(2)
            np.testing.assert_allclose(got[k][n], wanted, rtol=1e-5, atol=1e-6)
            assert reduced[k][n].device == f"/device:CPU:{k}"


def test_unknown_shapes_are_split_when_the_graph_runs(session8: Any) -> None:
    inner = _Recorder()
    grads = [[source(np.arange(10.0).reshape(5, 2), f"/device:CPU:{k}", static_shape=[None, 2])] for k in range(2)]
    got = run(session8, ShardingReducer(inner, 3).reduce(grads))
    assert inner.shapes == [[None]] * 3
    np.testing.assert_array_equal(got[1][0], np.arange(10.0).reshape(5, 2))


def test_sparse_gradients_are_not_split(session8: Any) -> None:
    grads = [[slices([[1.0]], [k], "")] for k in range(2)]
    got = run(session8, ShardingReducer(_Recorder(), 2).reduce(grads, ReduceOp.SUM))
    assert got[0][0].indices.tolist() == [0, 1]


def test_the_limits_of_the_inner_algorithm_hold(graph: Any) -> None:
    grads = dense_towers([[1.0]] * 3)
    num_ops = len(graph.get_operations())
    with pytest.raises(ReductionError, match="got 3 towers: expected an even number"):
        ShardingReducer(HierarchicalReducer(), 2).reduce(grads)
    assert len(graph.get_operations()) == num_ops


@pytest.mark.parametrize("num_shards", [0, -1, 1.5, "2"])
def test_other_numbers_of_shards_are_refused(num_shards: Any) -> None:
    with pytest.raises(ConfigError, match="^ShardingReducer got num_shards="):
        ShardingReducer(OneDeviceReducer(), num_shards)
