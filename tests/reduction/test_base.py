from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.tower_grads import dense_towers, run, slices, source
from tpack.compat.runtime import eager_mode
from tpack.errors import ReductionError
from tpack.reduction.base import Column, ReduceOp, Reducer, ReducerWrapper


class _Recorder(Reducer):
    name = "recorder"

    def __init__(self) -> None:
        self.calls: list[str] = []

    def check(self, columns: Sequence[Column]) -> None:
        self.calls.append(f"check {len(columns)}")

    def reduce_dense(self, columns: Sequence[Column], op: ReduceOp) -> list[Column]:
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


def test_columns_are_reduced_in_their_order_and_after_the_check(session8: Any) -> None:
    reducer = _Recorder()
    grads = [[slices([[float(k)]], [k], ""), source(float(k), "")] for k in range(2)]
    sparse, dense = reducer.reduce_columns(list(zip(*grads, strict=True)), ReduceOp.SUM)
    assert reducer.calls == ["check 1", "dense 1 sum"]
    assert [value.indices.tolist() for value in run(session8, sparse)] == [[0, 1]] * 2
    assert run(session8, dense) == [0.0, 1.0]


def test_a_list_without_gradients_touches_no_algorithm(graph: Any) -> None:
    reducer = _Recorder()
    assert reducer.reduce([[], []]) == [[], []]
    assert reducer.calls == []


def test_a_wrapper_leaves_everything_to_the_other_reducer(graph: Any) -> None:
    inner = _Recorder()
    wrapper = ReducerWrapper(inner, "plainly")
    assert wrapper.name == "plainly_recorder"
    grads = [[source(float(k), ""), slices([[1.0]], [k], "")] for k in range(2)]
    reduced = wrapper.reduce(grads, ReduceOp.SUM)
    assert inner.calls == ["check 1", "dense 1 sum"]
    assert {grad.name.partition("/")[0] for tower in reduced for grad in tower} == {"plainly_recorder"}


def test_a_wrapper_changes_what_it_defines_and_keeps_the_limits(graph: Any) -> None:
    class Doubling(ReducerWrapper):
        def reduce_dense(self, columns: Sequence[Column], op: ReduceOp) -> list[Column]:
            doubled: list[Column] = [[2 * member for member in column] for column in columns]
            return self.inner.reduce_columns(doubled, op)

    class Refusing(_Recorder):
        def check(self, columns: Sequence[Column]) -> None:
            raise ReductionError("not these")

    inner = _Recorder()
    Doubling(Doubling(inner, "once"), "twice").reduce([[source(1.0, "")], [source(2.0, "")]])
    assert inner.calls == ["check 1", "check 1", "check 1", "dense 1 mean"]
    grads = [[source(1.0, "")], [source(2.0, "")]]
    num_ops = len(graph.get_operations())
    with pytest.raises(ReductionError, match="not these"):
        Doubling(Refusing(), "once").reduce(grads)
    assert len(graph.get_operations()) == num_ops


class _Keeping(Reducer):
    name = "keeping"

    def __init__(self, *variables: Any, **options: Any) -> None:
        self.variables = variables
        self.options = options

    def reduce_dense(self, columns: Sequence[Column], op: ReduceOp) -> list[Column]:
        for name, shape in self.variables:
            self.variable(name, shape, columns[0][0].device, **self.options)
        return [list(column) for column in columns]


def test_a_variable_of_a_reduction_is_saved_and_not_trained(session8: Any) -> None:
    columns = dense_towers([[np.float32(1)], [np.float32(2)]])
    reducer = _Keeping(("error", [2]), dtype=tf.float16, initializer=tf.ones_initializer())
    with tf.name_scope("reduce_gradients"):
        reducer.reduce(columns)
        reducer.reduce(columns)
    first, second = (variable for variable in tf.global_variables() if "keeping" in variable.op.name)
    assert (first.op.name, second.op.name) == ("reduce_gradients/keeping/error", "reduce_gradients/keeping_1/error")
    assert first.device == columns[0][0].device
    assert tf.trainable_variables() == []
    session8.run(tf.global_variables_initializer())
    np.testing.assert_array_equal(session8.run(first), np.ones(2, np.float16), strict=True)


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ([("error", [None])], "variable 'error' got shape=.*: expected a fully defined shape"),
        ([("error", []), ("error", [])], "has a variable 'keeping/error': expected another name"),
    ],
)
def test_a_variable_needs_a_shape_and_a_name(graph: Any, variables: Any, message: str) -> None:
    with pytest.raises(ReductionError, match=message):
        _Keeping(*variables).reduce(dense_towers([[np.float32(1)], [np.float32(2)]]))


def test_eager_mode_is_refused_with_what_to_do() -> None:
    with eager_mode(), pytest.raises(ReductionError, match="in eager mode: expected a graph; .*tf.Graph"):
        _Recorder().reduce([[tf.zeros([2])], [tf.zeros([2])]])
