from typing import Any

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.partition_graphs import run_with_devices
from tests.helpers.tower_grads import dense_towers, run, slices
from tpack.errors import ReductionError
from tpack.reduction.base import ReduceOp
from tpack.reduction.functions import ColocatedReduction


def _variables(*devices: str) -> list[Any]:
    variables = []
    for n, device in enumerate(devices):
        with tf.device(device):
            variables.append(tf.get_variable(f"v{n}", [2, 1], use_resource=True))
    return variables


@pytest.mark.parametrize(("op", "factor"), [(ReduceOp.SUM, 3), (ReduceOp.MEAN, 1)])
def test_results_are_on_the_devices_of_the_variables(op: ReduceOp, factor: int, session8: Any) -> None:
    variables = _variables("/device:CPU:6", "/device:CPU:4")
    grads = dense_towers([[np.full((2, 1), k, np.float32)] for k in range(3)])
    towers = [
        list(zip([*tower, slices([[1.0]], [k], f"/device:CPU:{k}", rows=2)], variables, strict=True))
        for k, tower in enumerate(grads)
    ]
    reduced = ColocatedReduction().reduce(towers, op)
    assert [variable for _, variable in reduced] == variables
    (dense, _), (sparse, _) = reduced
    run(session8, [dense, sparse])
    (dense_value, sparse_value), placed = run_with_devices(session8, [dense, sparse])
    assert dense_value.tolist() == [[factor * 1.0]] * 2
    assert sparse_value.indices.tolist() == [0, 1, 2]
    assert sparse_value.values.sum() == pytest.approx(factor)
    assert placed[dense.op.name] == "/device:CPU:6"
    assert placed[sparse.values.op.name] == "/device:CPU:4"


def test_one_tower_keeps_its_gradients(graph: Any) -> None:
    (variable,) = _variables("")
    grad = tf.ones([2, 1])
    assert ColocatedReduction().reduce([[(grad, variable)]]) == [(grad, variable)]
    assert ColocatedReduction().reduce([[], []]) == []


def test_towers_with_different_variables_are_refused(graph: Any) -> None:
    a, b = _variables("", "")
    grad = tf.ones([2, 1])
    with pytest.raises(ReductionError, match="variable 0 of tower 1 is v1:0, and that of tower 0 is v0:0"):
        ColocatedReduction().reduce([[(grad, a)], [(grad, b)]])


def test_bad_gradients_are_refused(graph: Any) -> None:
    (variable,) = _variables("")
    with pytest.raises(ReductionError, match="gradient 0 of tower 0 is None"):
        ColocatedReduction().reduce([[(None, variable)]])
