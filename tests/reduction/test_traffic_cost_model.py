"""The formulas against the graphs, and against what is known of them."""

from typing import Any

import numpy as np
import pytest

from tests.helpers.tower_grads import cpu_devices, dense_towers
from tpack.reduction.algorithms.halving_doubling import HalvingDoublingReducer
from tpack.reduction.algorithms.hierarchical import HierarchicalReducer
from tpack.reduction.algorithms.one_device import OneDeviceReducer, RoundRobinReducer
from tpack.reduction.algorithms.ring import RingReducer
from tpack.reduction.algorithms.shuffle import ShuffleReducer
from tpack.reduction.base import Reducer
from tpack.reduction.traffic import (
    ReductionCost,
    count_traffic,
    halving_doubling_cost,
    hierarchical_cost,
    lower_bound,
    one_device_cost,
    ring_cost,
    round_robin_cost,
    server_shuffle_cost,
    shuffle_cost,
)

# Divisible by all that is divided by below.
SIZE = 3 * 4 * 5 * 8


@pytest.mark.parametrize("num_towers", [4, 8])
@pytest.mark.parametrize(
    ("reducer", "cost"),
    [
        (RingReducer(), ring_cost),
        (RingReducer(2), lambda k, size: ring_cost(k, size, 2)),
        (HalvingDoublingReducer(), halving_doubling_cost),
        (ShuffleReducer(), shuffle_cost),
        (ShuffleReducer(num_shards=10), lambda k, size: shuffle_cost(k, size, 10)),
        (OneDeviceReducer(), one_device_cost),
        (RoundRobinReducer(), round_robin_cost),
        (HierarchicalReducer(), hierarchical_cost),
    ],
)
def test_bytes_are_those_that_the_graph_moves(reducer: Reducer, cost: Any, num_towers: int, graph: Any) -> None:
    # As many gradients as towers, so that those which take turns are all served alike; but 10 shards do not take turns
    # evenly, and are counted for one gradient.
    num_grads = 1 if isinstance(reducer, ShuffleReducer) else num_towers
    grads = dense_towers([[np.ones(SIZE, np.float32)] * num_grads] * num_towers)
    report = count_traffic(grads, reducer.reduce(grads))
    assert report.bytes_moved == pytest.approx(cost(num_towers, SIZE * 4 * num_grads).bytes_moved)


@pytest.mark.parametrize(("num_servers", "num_shards"), [(1, None), (2, None), (3, 4)])
def test_bytes_of_servers_are_those_that_the_graph_moves(num_servers: int, num_shards: int | None, graph: Any) -> None:
    grads = dense_towers([[np.ones(SIZE, np.float32)]] * 5)
    reduced = ShuffleReducer(cpu_devices(8)[5 : 5 + num_servers], num_shards).reduce(grads)
    cost = server_shuffle_cost(5, SIZE * 4, num_servers, num_shards)
    assert count_traffic(grads, reduced).bytes_moved == cost.bytes_moved


@pytest.mark.parametrize("num_towers", [2, 4, 8])
def test_steps_are_the_chain_of_transfers_where_a_step_is_one_message(num_towers: int, graph: Any) -> None:
    grads = dense_towers([[np.ones(SIZE, np.float32)]] * num_towers)
    ring = count_traffic(grads, RingReducer().reduce(grads))
    pairs = count_traffic(grads, HalvingDoublingReducer().reduce(grads))
    assert ring.chain_length == ring_cost(num_towers, 1).latency_steps
    assert pairs.chain_length == halving_doubling_cost(num_towers, 1).latency_steps


def test_costs_of_eight_towers_are_the_textbooks() -> None:
    assert lower_bound(8, 800) == ReductionCost(1400, 3)
    assert ring_cost(8, 800) == ReductionCost(1400, 14)
    assert halving_doubling_cost(8, 800) == ReductionCost(1400, 6)
    assert shuffle_cost(8, 800) == ReductionCost(1400, 14)
    assert server_shuffle_cost(8, 800, 1) == ReductionCost(6400, 16)
    assert one_device_cost(8, 800) == ReductionCost(5600, 14)
    assert round_robin_cost(8, 800) == ReductionCost(1400, 14)
    assert hierarchical_cost(8, 800) == ReductionCost(1400, 8)


@pytest.mark.parametrize("num_towers", [1, 2, 3, 5, 8])
def test_nothing_is_below_the_lower_bound(num_towers: int) -> None:
    bound = lower_bound(num_towers, 1.0)
    for cost in (ring_cost, halving_doubling_cost, shuffle_cost, one_device_cost, round_robin_cost, hierarchical_cost):
        assert cost(num_towers, 1.0).bytes_moved >= bound.bytes_moved
        assert cost(num_towers, 1.0).latency_steps >= bound.latency_steps
