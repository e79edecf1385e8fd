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
from tpack.reduction.algorithms.shuffle import CpuShuffleReducer, ShuffleReducer, task_cpus
from tpack.reduction.base import ReduceOp


@settings(max_examples=12, deadline=None, derandomize=True)
@given(
    num_towers=st.integers(1, 8),
    num_devices=st.integers(0, 8),
    num_shards=st.none() | st.integers(1, 9),
    shapes=st.lists(st.lists(st.integers(0, 7), max_size=3).map(tuple), min_size=1, max_size=3),
    is_known=st.booleans(),
)
def test_each_output_is_the_sum_of_any_shapes(
    num_towers: int, num_devices: int, num_shards: int | None, shapes: Any, is_known: bool
) -> None:
    reducer = ShuffleReducer(cpu_devices(num_devices) or None, num_shards)
    assert_sums_match_numpy([reducer], num_towers, shapes, seed=7, is_known=is_known)


def summing_devices(reducer: ShuffleReducer, towers: Any, session: Any) -> list[str]:
    """Return where the sums of a run were, in the order in which they were made."""
    reduced = reducer.reduce(dense_towers(towers))
    run(session, reduced)
    placed = placed_devices(session, reduced)
    sums = [op.name for op in session.graph.get_operations() if op.type == "AddN"]
    return [placed[name] for name in sums]


def test_each_tower_sums_a_shard_and_first_shards_change_places(rng: Any, session8: Any) -> None:
    towers = random_towers(rng, 3, [(7,), (7,), (1,)])
    turns = summing_devices(ShuffleReducer(), towers, session8)
    assert turns == [f"/device:CPU:{k}" for k in (0, 1, 2, 1, 2, 0, 2)]


def test_given_devices_sum_the_shards_in_turn(rng: Any, session8: Any) -> None:
    reducer = ShuffleReducer(["/device:CPU:6", "/device:CPU:7"], 5)
    turns = summing_devices(reducer, random_towers(rng, 3, [(7,)]), session8)
    assert Counter(turns) == {"/device:CPU:6": 3, "/device:CPU:7": 2}


def test_the_name_tells_which_devices_sum() -> None:
    assert ShuffleReducer().name == "psgpu"
    assert ShuffleReducer(["/cpu:0", "/device:CPU:3"]).name == "pscpu"
    assert ShuffleReducer(["/job:worker/task:1/device:GPU:0"]).name == "psgpu"


@pytest.mark.parametrize(("num_towers", "num_shards"), [(2, 2), (5, 5), (3, 8)])
def test_the_graph_has_the_size_that_the_docstring_states(num_towers: int, num_shards: int, graph: Any) -> None:
    grads = dense_towers([[np.ones(64, np.float32)] * 3] * num_towers)
    added = added_operations(graph, lambda: ShuffleReducer(num_shards=num_shards).reduce(grads))
    assert len(added) == 3 * (9 * num_towers + 3 * num_shards)


def test_towers_without_devices_are_served(session8: Any) -> None:
    assert_served_without_devices(session8, ShuffleReducer(), num_towers=3)


def test_sparse_gradients_are_concatenated(session8: Any) -> None:
    assert_slices_are_served(session8, ShuffleReducer())


@pytest.mark.parametrize("devices", [[], "/cpu:0"])
def test_devices_that_are_no_list_are_refused(devices: Any) -> None:
    with pytest.raises(ConfigError, match="ShuffleReducer got devices"):
        ShuffleReducer(devices)


@pytest.mark.parametrize("num_shards", [0, -2, 1.5])
def test_an_impossible_number_of_shards_is_refused(num_shards: Any) -> None:
    with pytest.raises(ConfigError, match="^ShuffleReducer got num_shards="):
        ShuffleReducer(num_shards=num_shards)


def test_task_cpus_are_the_first_cpu_of_each_task() -> None:
    tasks = [f"/job:worker/replica:0/task:{task}" for task in (1, 0)]
    devices = [f"{task}/device:GPU:{k}" for task in tasks for k in range(2)]
    assert task_cpus(devices) == [f"{task}/device:CPU:0" for task in tasks]
    assert task_cpus(["/gpu:3", "/cpu:1"]) == ["/device:CPU:0"]


@pytest.mark.parametrize("num_shards", [None, 3])
def test_shards_are_summed_on_the_processor_of_each_task(num_shards: int | None, graph: Any) -> None:
    devices = [f"/job:worker/task:{task}/device:GPU:{i}" for task in (2, 0) for i in range(2)]
    reduced = CpuShuffleReducer(num_shards).reduce(dense_towers([[np.ones(8, np.float32)]] * 4, devices))
    sums = [op.device for op in graph.get_operations() if op.type == "AddN"]
    assert sums == [f"/job:worker/task:{task}/device:CPU:0" for task in (2, 0, 2)][: num_shards or 2]
    assert [tower[0].device for tower in reduced] == devices


def test_in_one_process_the_first_cpu_sums(rng: Any, session8: Any) -> None:
    values = random_towers(rng, 3, [(5,), ()])
    devices = [f"/device:CPU:{k}" for k in (4, 5, 6)]
    reduced = CpuShuffleReducer().reduce(dense_towers(values, devices), ReduceOp.SUM)
    sums = {op.device for op in session8.graph.get_operations() if op.type == "AddN"}
    assert sums == {"/device:CPU:0"}
    got = run(session8, reduced)
    for k in range(3):
        for n in range(2):
            np.testing.assert_allclose(got[k][n], sum(tower[n] for tower in values), rtol=1e-5, atol=1e-6)


def test_no_shards_are_refused() -> None:
    with pytest.raises(ConfigError, match="^CpuShuffleReducer got num_shards="):
        CpuShuffleReducer(0)
