from typing import Any

import numpy as np
import pytest

from tests.helpers.tower_grads import dense_towers, random_towers, run
from tpack.errors import ConfigError
from tpack.reduction.algorithms.shuffle import CpuShuffleReducer
from tpack.reduction.base import ReduceOp


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
    with pytest.raises(ConfigError, match="wanted 1 shard or more.* got 0"):
        CpuShuffleReducer(0)
