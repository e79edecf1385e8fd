from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.helpers.partition_graphs import placed_devices
from tests.helpers.reduction_checks import (
    added_operations,
    assert_served_without_devices,
    assert_slices_are_served,
    assert_sums_match_numpy,
)
from tests.helpers.tower_grads import cpu_devices, dense_towers, random_towers, run
from tpack.errors import ConfigError
from tpack.reduction.algorithms.ring import RingReducer
from tpack.reduction.autotune.measure import count_traffic


@settings(max_examples=12, deadline=None, derandomize=True)
@given(
    num_towers=st.integers(1, 8),
    num_subchunks=st.integers(1, 3),
    shapes=st.lists(st.lists(st.integers(0, 7), max_size=3).map(tuple), min_size=1, max_size=3),
    is_known=st.booleans(),
)
def test_each_output_is_the_sum_of_any_shapes(num_towers: int, num_subchunks: int, shapes: Any, is_known: bool) -> None:
    assert_sums_match_numpy([RingReducer(num_subchunks)], num_towers, shapes, seed=3, is_known=is_known)


def neighbours(graph: Any) -> set[tuple[int, int]]:
    """Return the pairs (from, to) of towers between which a tensor moves."""
    edges = [(tensor.device, op.device) for op in graph.get_operations() for tensor in op.inputs]
    return {(int(source[-1]), int(target[-1])) for source, target in edges if source != target}


@pytest.mark.parametrize("num_towers", [2, 3, 8])
def test_towers_talk_to_their_neighbours_only(num_towers: int, graph: Any) -> None:
    RingReducer().reduce(dense_towers([[np.ones(24, np.float32)] * 2] * num_towers))
    assert neighbours(graph) == {(k, (k + 1) % num_towers) for k in range(num_towers)}


def test_every_second_sub_chunk_travels_the_other_way(graph: Any) -> None:
    grads = dense_towers([[np.ones(40, np.float32)]] * 5)
    reduced = RingReducer(2).reduce(grads)
    forward = {(k, (k + 1) % 5) for k in range(5)}
    assert neighbours(graph) == forward | {(b, a) for a, b in forward}
    report = count_traffic(grads, reduced)
    assert report.chain_length == 8
    assert {traffic.received for traffic in report.devices.values()} == {2 * 4 * 40 * 4 // 5}


def test_the_owner_of_each_chunk_divides_it_and_owners_change(rng: Any, session8: Any) -> None:
    reduced = RingReducer().reduce(dense_towers(random_towers(rng, 3, [(1,), (1,), (1,), (6,)])))
    run(session8, reduced)
    placed = placed_devices(session8, reduced)
    divisions = [placed[op.name] for op in session8.graph.get_operations() if op.type == "RealDiv"]
    assert divisions[:3] == cpu_devices(3)
    assert Counter(divisions[3:]) == Counter(cpu_devices(3))


@pytest.mark.parametrize("num_towers", [2, 5])
@pytest.mark.parametrize("num_subchunks", [1, 2])
def test_the_graph_has_the_size_that_the_docstring_states(num_towers: int, num_subchunks: int, graph: Any) -> None:
    grads = dense_towers([[np.ones(64, np.float32)] * 3] * num_towers)
    added = added_operations(graph, lambda: RingReducer(num_subchunks).reduce(grads))
    assert len(added) == 3 * num_towers * (2 * num_towers * num_subchunks + 9)


def test_towers_without_devices_are_served(session8: Any) -> None:
    assert_served_without_devices(session8, RingReducer(), num_towers=3)


def test_sparse_gradients_are_concatenated(session8: Any) -> None:
    assert_slices_are_served(session8, RingReducer())


@pytest.mark.parametrize("num_subchunks", [0, -1, 1.5, "2"])
def test_an_impossible_number_of_sub_chunks_is_refused(num_subchunks: Any) -> None:
    with pytest.raises(ConfigError, match="^RingReducer got num_subchunks="):
        RingReducer(num_subchunks)
