from typing import Any

import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.tower_grads import dense_towers, run
from tpack.reduction.algorithms.launch_order import launch_in_order, one_launch_order


def _ancestors(op: Any) -> set[Any]:
    found, todo = set(), [op]
    while todo:
        for before in [*(t.op for t in todo[-1].inputs), *todo.pop().control_inputs]:
            if before not in found:
                found.add(before)
                todo.append(before)
    return found


def _launch(column: Any) -> Any:
    sums = []
    for tensor in column:
        with tf.device(tensor.device):
            sums.append(tf.identity(tensor, name="launched"))
    return sums


def test_columns_run_from_the_last_to_the_first(session8: Any) -> None:
    columns = list(zip(*dense_towers([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]), strict=True))
    reduced = launch_in_order(columns, _launch, 2)
    assert run(session8, reduced) == [[0.5, 2.0], [1.0, 2.5], [1.5, 3.0]]
    ops = [op for op in session8.graph.get_operations() if op.name.startswith("launched")]
    launched = [ops[0::2], ops[1::2]]
    for k in range(2):
        last, middle, first = launched[k]
        assert {launched[0][0], launched[1][0]} <= _ancestors(middle)
        assert {launched[0][1], launched[1][1]} <= _ancestors(first)
        assert not {first, middle} & _ancestors(last)


def test_one_towers_result_needs_the_operations_of_all_towers(graph: Any) -> None:
    columns = list(zip(*dense_towers([[1.0], [2.0], [3.0]]), strict=True))
    for divisor in (1, 3):
        reduced = launch_in_order(columns, _launch, divisor)
        assert [tensor.device for tensor in reduced[0]] == [f"/device:CPU:{k}" for k in range(3)]
        names = {op.name for op in _ancestors(reduced[0][0].op)}
        assert len({name for name in names if name.startswith("launched")}) == 3


def test_no_columns_give_no_columns() -> None:
    assert launch_in_order([], _launch, 2) == []


def _barriers_before(op: Any) -> set[str]:
    return {before.name for before in _ancestors(op) if before.name.startswith("barrier")}


def test_calls_in_one_order_follow_each_other_where_they_share_a_device(graph: Any) -> None:
    first, second = (list(zip(*dense_towers([[1.0, 2.0]] * 2), strict=True)) for _ in range(2))
    apart = list(zip(*dense_towers([[1.0]] * 2, ["/device:CPU:2", "/device:CPU:3"]), strict=True))
    with one_launch_order():
        launch_in_order(first, _launch, 1)
        launch_in_order(apart, _launch, 1)
        with one_launch_order():
            launch_in_order([], _launch, 1)
            launch_in_order(second, _launch, 1)
    launch_in_order(first, _launch, 1)
    launched = [op for op in graph.get_operations() if op.name.startswith("launched")]
    # Two operations for each column: the last and the first of `first`, the one `apart`, then `second`, then again.
    befores = [len(_barriers_before(op)) for op in launched]
    assert befores == [0, 0, 1, 1, 0, 0, 2, 2, 3, 3, 0, 0, 1, 1]


def test_an_order_ends_with_its_block_even_by_an_error(graph: Any) -> None:
    columns = list(zip(*dense_towers([[1.0]] * 2), strict=True))
    with pytest.raises(RuntimeError, match="of the test"), one_launch_order():
        launch_in_order(columns, _launch, 1)
        raise RuntimeError("an error of the test")
    launch_in_order(columns, _launch, 1)
    last = [op for op in graph.get_operations() if op.name.startswith("launched")][-1]
    assert _barriers_before(last) == set()
