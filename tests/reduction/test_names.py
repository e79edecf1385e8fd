from typing import Any

import numpy as np
import pytest

from tests.helpers.tower_grads import cpu_devices, dense_towers, random_towers, run
from tpack.errors import ConfigError, ReductionError
from tpack.reduction.algorithms.collective import CollectiveReducer
from tpack.reduction.algorithms.composite import CompositeReducer, HierarchicalReducer
from tpack.reduction.algorithms.halving_doubling import HalvingDoublingReducer
from tpack.reduction.algorithms.nccl import NcclReducer
from tpack.reduction.algorithms.one_device import OneDeviceReducer, RoundRobinReducer
from tpack.reduction.algorithms.ring import RingReducer
from tpack.reduction.algorithms.shuffle import CpuShuffleReducer, ShuffleReducer
from tpack.reduction.names import ALGORITHMS, check_algorithm, make_reducer
from tpack.reduction.wrappers.splitting import ShardingReducer

KINDS = {
    "one_device": OneDeviceReducer,
    "round_robin": RoundRobinReducer,
    "hierarchical": HierarchicalReducer,
    "rechd": HalvingDoublingReducer,
    "collective": CollectiveReducer,
    "nccl": NcclReducer,
    "xring": RingReducer,
    "pscpu": CpuShuffleReducer,
    "psgpu": ShuffleReducer,
}


@pytest.mark.parametrize("name", ALGORITHMS)
def test_each_name_has_its_reducer(name: str) -> None:
    reducer = make_reducer(name, cpu_devices(4))
    assert type(reducer) is KINDS[name]
    assert reducer.name == name
    check_algorithm(name)


def test_no_name_is_forgotten() -> None:
    assert sorted(ALGORITHMS) == sorted(KINDS)


@pytest.mark.parametrize(
    "name", ["nccl/xring", "nccl/rechd", "nccl/pscpu", "pscpu/pscpu", "round_robin/xring", "hierarchical/collective"]
)
def test_two_names_make_a_composition(name: str) -> None:
    reducer = make_reducer(name, [f"/job:worker/task:{task}/device:GPU:{i}" for task in range(2) for i in range(4)])
    assert isinstance(reducer, CompositeReducer)
    assert reducer.name == name
    assert [type(level) for level in (reducer.inner, reducer.outer)] == [KINDS[part] for part in name.split("/")]


def test_shards_go_to_the_algorithms_that_split_by_themselves() -> None:
    ring = make_reducer("xring", cpu_devices(2), 3)
    assert isinstance(ring, RingReducer)
    assert ring._num_subchunks == 3
    for name in ("pscpu", "psgpu"):
        shuffle: Any = make_reducer(name, cpu_devices(2), 3)
        assert type(shuffle) is KINDS[name]
        assert shuffle._num_shards == 3


@pytest.mark.parametrize("name", sorted(set(ALGORITHMS) - {"xring", "pscpu", "psgpu"}))
def test_shards_of_the_others_are_split_before_them(name: str) -> None:
    reducer = make_reducer(name, cpu_devices(4), 2)
    assert isinstance(reducer, ShardingReducer)
    assert type(reducer.inner) is KINDS[name]
    assert type(make_reducer(name, cpu_devices(4), 1)) is KINDS[name]


@pytest.mark.parametrize("name", sorted(set(ALGORITHMS) - {"nccl"}))
@pytest.mark.parametrize("num_shards", [None, 1, 3])
def test_results_do_not_depend_on_the_shards(name: str, num_shards: int | None, rng: Any, session8: Any) -> None:
    values = random_towers(rng, 4, [(5, 3), (), (0,), (2,)])
    got = run(session8, make_reducer(name, cpu_devices(4), num_shards).reduce(dense_towers(values)))
    for k in range(4):
        for n in range(4):
            np.testing.assert_allclose(got[k][n], np.mean([tower[n] for tower in values], axis=0), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", ["ring", "", "xring/", "/xring", "nccl/xring/pscpu", "XRING"])
def test_unknown_names_are_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="expected one of one_device, round_robin, "):
        make_reducer(name, cpu_devices(2))


@pytest.mark.parametrize("name", [None, 3])
def test_what_is_no_name_is_refused(name: Any) -> None:
    with pytest.raises(ConfigError, match=f"make_reducer got name={name}: expected text"):
        make_reducer(name, cpu_devices(2))


@pytest.mark.parametrize("name", ALGORITHMS)
def test_no_shards_are_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="^make_reducer got num_shards="):
        make_reducer(name, cpu_devices(4), 0)


def test_numbers_of_towers_are_checked_at_once() -> None:
    with pytest.raises(ReductionError, match="got 3 towers: expected an even number"):
        make_reducer("hierarchical", cpu_devices(3))


@pytest.mark.parametrize("name", ["one_device", "xring", "nccl", "pscpu/pscpu"])
def test_a_reducer_of_no_devices_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="make_reducer got devices with 0 entries"):
        make_reducer(name, [])
