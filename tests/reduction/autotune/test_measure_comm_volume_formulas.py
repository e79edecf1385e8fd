"""What the algorithms move, against the textbook's formulas."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.helpers.tower_grads import cpu_devices, dense_towers
from tpack.reduction.algorithms.composite import HierarchicalReducer
from tpack.reduction.algorithms.halving_doubling import HalvingDoublingReducer
from tpack.reduction.algorithms.one_device import OneDeviceReducer, RoundRobinReducer
from tpack.reduction.algorithms.ring import RingReducer
from tpack.reduction.algorithms.shuffle import ShuffleReducer
from tpack.reduction.autotune.measure import ReductionCost, count_traffic, ring_cost
from tpack.reduction.base import Reducer

# Divisible by all that is divided by below.
SIZE = 3 * 4 * 5 * 8


def least(num_towers: int) -> float:
    """Return what any all-reduce moves at least, for each byte of gradients."""
    return 2 * (num_towers - 1) / num_towers


def shuffled_in_10(num_towers: int) -> float:
    """Return what devices with different numbers of shards move: their own in, and those of the others back."""
    own = math.ceil(10 / num_towers)
    return ((num_towers - 1) * own + 10 - own) / 10


@pytest.mark.parametrize("num_towers", [4, 8])
@pytest.mark.parametrize(
    ("reducer", "moved"),
    [
        (RingReducer(), least),
        (RingReducer(2), least),
        (HalvingDoublingReducer(), least),
        (ShuffleReducer(), least),
        (ShuffleReducer(num_shards=10), shuffled_in_10),
        (OneDeviceReducer(), lambda num_towers: num_towers - 1),
        (RoundRobinReducer(), least),
        (HierarchicalReducer(), least),
    ],
)
def test_bytes_are_those_of_the_formula(
    reducer: Reducer, moved: Callable[[int], float], num_towers: int, graph: Any
) -> None:
    # As many gradients as towers, so that those which take turns are all served alike; but 10 shards do not take turns
    # evenly, and are counted for one gradient.
    num_grads = 1 if isinstance(reducer, ShuffleReducer) else num_towers
    grads = dense_towers([[np.ones(SIZE, np.float32)] * num_grads] * num_towers)
    report = count_traffic(grads, reducer.reduce(grads))
    assert report.bytes_moved == pytest.approx(moved(num_towers) * SIZE * 4 * num_grads)


@pytest.mark.parametrize(("num_servers", "num_shards"), [(1, None), (2, None), (3, 4)])
def test_bytes_of_servers_are_those_of_the_formula(num_servers: int, num_shards: int | None, graph: Any) -> None:
    grads = dense_towers([[np.ones(SIZE, np.float32)]] * 5)
    reduced = ShuffleReducer(cpu_devices(8)[5 : 5 + num_servers], num_shards).reduce(grads)
    shards = num_shards or num_servers
    messages = max(shards, 5 * math.ceil(shards / num_servers))
    assert count_traffic(grads, reduced).bytes_moved == messages * SIZE * 4 / shards


@pytest.mark.parametrize("num_towers", [2, 4, 8])
def test_steps_are_the_chain_of_transfers_where_a_step_is_one_message(num_towers: int, graph: Any) -> None:
    grads = dense_towers([[np.ones(SIZE, np.float32)]] * num_towers)
    ring = count_traffic(grads, RingReducer().reduce(grads))
    pairs = count_traffic(grads, HalvingDoublingReducer().reduce(grads))
    assert ring.chain_length == ring_cost(num_towers, 1).latency_steps
    assert pairs.chain_length == 2 * math.log2(num_towers)


@pytest.mark.parametrize("num_towers", [1, 2, 3, 8])
def test_ring_cost_is_the_textbooks(num_towers: int) -> None:
    assert ring_cost(num_towers, 800) == ReductionCost(800 * least(num_towers), 2 * (num_towers - 1))
