from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.tower_grads import dense_towers, run, slices, source
from tpack.errors import ReductionError
from tpack.reduction.base import Column, ReduceOp, Reducer


class _Recorder(Reducer):
    name = "recorder"

    def __init__(self) -> None:
        self.calls: list[str] = []

    def _check_dense(self, columns: Sequence[Column]) -> None:
        self.calls.append(f"check {len(columns)}")

    def _reduce_dense(self, columns: Sequence[Column], op: ReduceOp) -> list[Column]:
        self.calls.append(f"dense {len(columns)} {op.value}")
        return [[tf.identity(member) for member in column] for column in columns]


def test_reduce_splits_dense_from_sparse_and_joins_them_in_order(session8: Any) -> None:
    reducer = _Recorder()
    grads = [
        [source(float(k), ""), slices([[float(k)]], [k], ""), source(10.0 + k, ""), slices([[1.0]], [0], "")]
        for k in range(2)
    ]
    reduced = reducer.reduce(grads, ReduceOp.SUM)
    assert reducer.calls == ["check 2", "dense 2 sum"]
    assert reduced[1][2].op.name.startswith("recorder/")
    values = run(session8, reduced)
    assert [values[k][0] for k in range(2)] == [0.0, 1.0]
    assert [values[k][2] for k in range(2)] == [10.0, 11.0]
    assert [values[k][1].indices.tolist() for k in range(2)] == [[0, 1], [0, 1]]


def test_reduce_takes_turns_with_sparse_gradients(graph: Any) -> None:
    grads = [[slices([[1.0]], [0], f"/device:CPU:{k}") for _ in range(3)] for k in range(2)]
    _Recorder().reduce(grads)
    concats = [op.device for op in graph.get_operations() if op.type == "ConcatV2" and "values" not in op.name]
    assert concats == [f"/device:CPU:{k}" for k in (0, 0, 1, 1, 0, 0)]


def test_reduce_means_by_default(graph: Any) -> None:
    reducer = _Recorder()
    reducer.reduce(dense_towers([[np.float32(1)], [np.float32(2)]]))
    assert reducer.calls[-1] == "dense 1 mean"


def test_reduce_checks_one_tower_too(graph: Any) -> None:
    with pytest.raises(ReductionError, match="gradient 0 of tower 0 is None"):
        _Recorder().reduce([[None]])
    with pytest.raises(ReductionError, match="mean of integers"):
        _Recorder().reduce([[tf.constant(1)]])
