from typing import Any

import tensorflow.compat.v1 as tf

from tests.helpers.tower_grads import dense_towers, run
from tpack.reduction.launch_order import launch_in_order


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
