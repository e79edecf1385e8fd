from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.helpers.partition_graphs import placed_devices
from tests.helpers.reduction_checks import (
    added_operations,
    assert_refused,
    assert_served_without_devices,
    assert_slices_are_served,
    assert_sums_match_numpy,
)
from tests.helpers.tower_grads import cpu_devices, dense_towers, random_towers, run
from tpack.reduction.algorithms.halving_doubling import HalvingDoublingReducer


@settings(max_examples=12, deadline=None, derandomize=True)
@given(
    num_towers=st.sampled_from([1, 2, 4, 8]),
    shapes=st.lists(st.lists(st.integers(0, 7), max_size=3).map(tuple), min_size=1, max_size=3),
    is_known=st.booleans(),
)
def test_each_output_is_the_sum_of_any_shapes(num_towers: int, shapes: Any, is_known: bool) -> None:
    assert_sums_match_numpy([HalvingDoublingReducer()], num_towers, shapes, seed=5, is_known=is_known)


def test_near_towers_exchange_the_most(graph: Any) -> None:
    HalvingDoublingReducer().reduce(dense_towers([[np.ones(64, np.float32)]] * 8))
    exchanged: dict[int, set[int]] = {}
    for op in graph.get_operations():
        for tensor in op.inputs:
            if tensor.device != op.device:
                distance = int(tensor.device[-1]) ^ int(op.device[-1])
                exchanged.setdefault(distance, set()).add(tensor.shape.num_elements())
    assert exchanged == {1: {32}, 2: {16}, 4: {8}}


def test_all_towers_sum_and_divide_their_part(rng: Any, session8: Any) -> None:
    reduced = HalvingDoublingReducer().reduce(dense_towers(random_towers(rng, 4, [(10,)])))
    run(session8, reduced)
    placed = placed_devices(session8, reduced)
    where: dict[str, list[str]] = {"RealDiv": [], "AddV2": []}
    for op in session8.graph.get_operations():
        where.setdefault(op.type, []).append(placed.get(op.name, ""))
    assert where["RealDiv"] == cpu_devices(4)
    assert where["AddV2"] == cpu_devices(4) * 2


@pytest.mark.parametrize(("num_towers", "steps"), [(2, 1), (8, 3)])
def test_the_graph_has_the_size_that_the_docstring_states(num_towers: int, steps: int, graph: Any) -> None:
    grads = dense_towers([[np.ones(64, np.float32)] * 3] * num_towers)
    added = added_operations(graph, lambda: HalvingDoublingReducer().reduce(grads))
    assert len(added) == 3 * num_towers * (6 * steps + 6)


@pytest.mark.parametrize("num_towers", [3, 5, 6, 7])
def test_other_numbers_of_towers_are_refused_before_the_graph_is_touched(num_towers: int, graph: Any) -> None:
    grads = dense_towers([[np.float32(1)]] * num_towers)
    assert_refused(graph, HalvingDoublingReducer(), grads, f"got {num_towers} towers: expected a power of two")


def test_towers_without_devices_are_served(session8: Any) -> None:
    assert_served_without_devices(session8, HalvingDoublingReducer(), num_towers=4)


def test_sparse_gradients_of_any_number_of_towers_are_served(session8: Any) -> None:
    assert_slices_are_served(session8, HalvingDoublingReducer())
