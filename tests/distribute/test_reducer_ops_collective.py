"""Keys, name scopes and limits; what they compute is in test_cross_tower_ops.py."""

from typing import Any

import numpy as np
import pytest

from tests.helpers.device_values import SUM, assert_mirrored, per_device, start
from tests.helpers.tower_grads import cpu_devices
from tpack.distribute.reducer_ops import CollectiveAllReduce
from tpack.distribute.values import PerDevice
from tpack.errors import ConfigError, ReductionError
from tpack.reduction.algorithms.collective import CollectiveKeys


def _collectives(graph: Any) -> list[Any]:
    return [op for op in graph.get_operations() if op.type == "CollectiveReduce"]


def test_consecutive_tensors_share_a_name_scope(session8: Any) -> None:
    values = [per_device(np.full((2, n), n, np.float32)) for n in range(5)]
    reduced = CollectiveAllReduce(all_reduce_merge_scope=2).batch_reduce(SUM, [(v, v) for v in values])
    scopes = [op.name.split("/")[0] for op in _collectives(session8.graph)]
    assert sorted(scopes.count(scope) for scope in set(scopes)) == [2, 4, 4]
    start(session8)
    for n, result in enumerate(reduced):
        assert_mirrored(session8, result, np.full(n, 2 * n), cpu_devices(2))


def test_keys_of_ones_own_are_used(graph: Any) -> None:
    class Keys(CollectiveKeys):
        def group_key(self, devices: Any) -> int:
            return 17

    value = per_device(np.float32([1, 2]))
    CollectiveAllReduce(collective_keys=Keys()).reduce(SUM, value, value)
    CollectiveAllReduce().reduce(SUM, value, value)
    assert [op.get_attr("group_key") == 17 for op in _collectives(graph)] == [True, True, False, False]


def test_values_of_another_number_of_devices_are_refused(graph: Any) -> None:
    value = per_device(np.float32([1, 2]))
    with pytest.raises(ConfigError, match=r"got values of /device:CPU:0, /device.*: expected those of 4 device.s."):
        CollectiveAllReduce(num_gpus_per_worker=4).reduce(SUM, value, value)


def test_values_that_collectives_cannot_sum_are_refused(graph: Any) -> None:
    value = PerDevice({"/job:worker/task:0/device:CPU:0": 1.0, "/job:worker/task:1/device:CPU:0": True})
    with pytest.raises(ReductionError, match="dtype"):
        CollectiveAllReduce().reduce(SUM, value, value)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((2,), "got num_workers=2: expected 1, one process"),
        ((1, -1), "got num_gpus_per_worker=-1"),
        ((1, 0, 0), "got all_reduce_merge_scope=0"),
    ],
)
def test_arguments_are_checked(arguments: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        CollectiveAllReduce(*arguments)
