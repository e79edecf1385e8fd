from typing import Any

import numpy as np
import pytest

from tests.helpers.partition_graphs import run_with_devices
from tests.helpers.reduction_checks import assert_refused
from tests.helpers.tower_grads import cpu_devices, dense_towers, random_towers, run, slices
from tpack.errors import ReductionError
from tpack.reduction.algorithms.composite import HierarchicalReducer
from tpack.reduction.base import ReduceOp


@pytest.mark.parametrize("num_towers", [4, 6, 8])
@pytest.mark.parametrize("given", [True, False])
def test_leaders_of_both_halves_rotate(num_towers: int, given: bool, rng: Any, session8: Any) -> None:
    values = random_towers(rng, num_towers, [(5,)] * 3)
    reducer = HierarchicalReducer(cpu_devices(num_towers) if given else None)
    reduced = reducer.reduce(dense_towers(values), ReduceOp.SUM)
    run(session8, reduced)
    got, placed = run_with_devices(session8, reduced)
    half = num_towers // 2
    for n in range(3):
        names = [f"hierarchical/AddN_{2 * n + i}" if n + i else "hierarchical/AddN" for i in range(2)]
        assert [placed[name] for name in names] == [f"/device:CPU:{k}" for k in (n % half, n % half + half)]
        for k in range(num_towers):
            np.testing.assert_allclose(got[k][n], sum(tower[n] for tower in values), rtol=1e-5, atol=1e-5)


def test_each_gradient_crosses_between_the_halves_once_each_way(graph: Any) -> None:
    HierarchicalReducer().reduce(dense_towers([[np.ones(3, np.float32)]] * 8))
    crossings = [
        (op.type, tensor.op.type)
        for op in graph.get_operations()
        for tensor in op.inputs
        if (int(op.device[-1]) < 4) != (int(tensor.device[-1]) < 4)
    ]
    assert crossings == [("AddN", "AddN"), ("Identity", "RealDiv")]


@pytest.mark.parametrize("num_towers", [3, 5, 7])
def test_other_numbers_of_towers_are_refused(num_towers: int, graph: Any) -> None:
    with pytest.raises(ReductionError, match=f"got {num_towers} towers: expected an even number"):
        HierarchicalReducer(cpu_devices(num_towers))
    grads = dense_towers([[np.float32(1)]] * num_towers)
    assert_refused(graph, HierarchicalReducer(), grads, f"got {num_towers} towers: expected an even number")


def test_another_number_of_towers_than_devices_is_refused(graph: Any) -> None:
    with pytest.raises(ReductionError, match="got the gradients of 6 towers: expected 4, for its devices"):
        HierarchicalReducer(cpu_devices(4)).reduce(dense_towers([[np.float32(1)]] * 6))


def test_sparse_gradients_of_any_number_of_towers_are_served(session8: Any) -> None:
    reduced = HierarchicalReducer().reduce([[slices([[3.0]], [k], "")] for k in range(3)])
    assert run(session8, reduced)[2][0].values.tolist() == [[1.0]] * 3
