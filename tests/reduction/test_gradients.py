from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.tower_grads import slices
from tpack.errors import ReductionError, WrongTypeError
from tpack.reduction.gradients import check_columns, merge_grad_list, split_grad_list
from tpack.tower.grads import ReduceOp, is_sparse


def test_check_columns_transposes(graph: Any) -> None:
    a, b, c, d = (tf.constant(0.0) for _ in range(4))
    assert check_columns([[a, b], [c, d]], ReduceOp.SUM) == [(a, c), (b, d)]
    assert check_columns([[], []], ReduceOp.MEAN) == []


def test_check_columns_accepts_shapes_that_may_be_equal(graph: Any) -> None:
    column = [[tf.placeholder(tf.float32, shape)] for shape in (None, [None, 3], [2, None])]
    assert len(check_columns(column, ReduceOp.MEAN)) == 1


def test_is_sparse_tells_slices_from_tensors(graph: Any) -> None:
    assert is_sparse(slices([[1.0]], [0], ""))
    assert not is_sparse(tf.constant(1.0))


def _int(value: int, name: str) -> Any:
    return tf.constant(value, tf.int32, name=name)


BAD: dict[str, tuple[Callable[[], Any], str]] = {
    "no tower": (list, "at least one tower, got none"),
    "lengths": (lambda: [[tf.constant(1.0)], []], "tower 1 has 0 gradients and tower 0 has 1"),
    "None": (lambda: [[tf.constant(1.0), tf.constant(1.0)], [tf.constant(1.0), None]], "gradient 1 of tower 1 is None"),
    "None in one tower": (lambda: [[None]], "gradient 0 of tower 0 is None"),
    "array": (lambda: [[np.zeros(2)], [np.zeros(2)]], r"gradient 0 of tower 0 is array.*expected a tensor"),
    "kind": (
        lambda: [[tf.ones([2, 1], name="a")], [slices([[1.0]], [0], "")]],
        r"gradient 0 of tower 1 .*kind IndexedSlices, .*a:0\) have kind dense",
    ),
    "dtype": (
        lambda: [[tf.ones([], tf.float32, name="a")], [tf.ones([], tf.float64, name="b")]],
        r"tower 1 \(b:0\) has dtype float64, .*\(a:0\) have dtype float32",
    ),
    "shape": (lambda: [[tf.ones([2])], [tf.ones([3], name="b")]], r"tower 1 \(b:0\) has shape \(3,\), .* shape \(2,\)"),
    "shapes of three": (
        lambda: [[tf.placeholder(tf.float32, shape)] for shape in ([None, 3], [2, None], [4, 3])],
        r"gradient 0 of tower 2 .*shape \(4, 3\), .* shape \(2, 3\)",
    ),
    "rows": (
        lambda: [[slices(np.ones((1, 2)), [0], "")], [slices(np.ones((1, 3)), [0], "")]],
        r"tower 1 .* rows of shape \(3,\), .* rows of shape \(2,\)",
    ),
    "dense shape": (
        lambda: [[slices(np.ones((1, 2)), [0], "", rows=5)], [slices(np.ones((1, 2)), [0], "", rows=6)]],
        r"tower 1 .* shape \(6, 2\), .* shape \(5, 2\)",
    ),
    "indices": (
        lambda: [[tf.IndexedSlices(tf.ones([1, 2]), tf.constant([0], dtype))] for dtype in (tf.int32, tf.int64)],
        "indices of dtype int64, .* indices of dtype int32",
    ),
    "text": (
        lambda: [[tf.constant("x", name="t")]] * 2,
        r"gradient 0 \(t:0\) has dtype string, which cannot be summed",
    ),
    "truth": (lambda: [[tf.constant(True)]] * 2, "dtype bool, which cannot be summed"),
    "integer mean": (lambda: [[_int(1, "i")], [_int(2, "j")]], r"gradient 0 \(i:0\) has dtype int32: the mean of int"),
}


@pytest.mark.parametrize("case", BAD)
def test_check_columns_refuses(case: str, graph: Any) -> None:
    make, message = BAD[case]
    grads = make()
    num_ops = len(graph.get_operations())
    with pytest.raises(ReductionError, match=message):
        check_columns(grads, ReduceOp.MEAN)
    assert len(graph.get_operations()) == num_ops


def test_check_columns_refuses_an_operation_it_does_not_know(graph: Any) -> None:
    with pytest.raises(ReductionError, match="got op='mean': expected ReduceOp.SUM or ReduceOp.MEAN"):
        check_columns([[tf.constant(1.0)]], "mean")  # type: ignore[arg-type]


def test_check_columns_allows_the_sum_of_integers_and_complex_numbers(graph: Any) -> None:
    assert len(check_columns([[_int(1, "i")], [_int(2, "j")]], ReduceOp.SUM)) == 1
    assert len(check_columns([[tf.constant(1j)], [tf.constant(2j)]], ReduceOp.MEAN)) == 1


def test_split_and_merge_are_inverse(graph: Any) -> None:
    grads, variables = ([[tf.constant(k), tf.constant(k)] for k in range(2)] for _ in range(2))
    pairs = [list(zip(*tower, strict=True)) for tower in zip(grads, variables, strict=True)]
    assert split_grad_list(pairs) == (grads, variables)
    assert merge_grad_list(grads, variables) == pairs


def test_split_and_merge_refuse_other_shapes(graph: Any) -> None:
    with pytest.raises(WrongTypeError, match=r"^split_grad_list got grad_list\[0\]\[1\]="):
        split_grad_list([[("a", "b"), ("a",)]])  # type: ignore[list-item]
    with pytest.raises(ReductionError, match=r"got \[2\] gradients and \[1\] variables"):
        merge_grad_list([[tf.constant(1), tf.constant(2)]], [[tf.constant(3)]])
