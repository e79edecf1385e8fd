"""That the strategy reduces by collective operations; training is in tests/train/test_strategy_builder.py."""

from typing import Any

import numpy as np
import pytest

from tests.helpers.device_values import MEAN, assert_mirrored, per_device, start
from tests.helpers.tower_grads import cpu_devices
from tpack.distribute.strategies import CollectiveAllReduceStrategy
from tpack.errors import ConfigError


def test_values_are_reduced_by_collective_operations(session8: Any) -> None:
    strategy = CollectiveAllReduceStrategy(devices=cpu_devices(3), all_reduce_merge_scope=1)
    with strategy.scope():
        values = [per_device(np.float32([1, 2, 6])), per_device(np.float32([[1], [2], [0]]))]
        number, vector = strategy.batch_reduce(MEAN, [(value, value) for value in values])
    start(session8)
    assert_mirrored(session8, number, 3, cpu_devices(3))
    assert_mirrored(session8, vector, [1], cpu_devices(3))
    names = [op.name for op in session8.graph.get_operations() if op.type == "CollectiveReduce"]
    assert len(names) == 6
    assert {name.split("/")[0] for name in names} == {"allreduce", "allreduce_1"}


def test_the_default_is_one_tower_on_the_cpu() -> None:
    strategy = CollectiveAllReduceStrategy()
    assert strategy.worker_devices == ["/device:CPU:0"]
    assert strategy.is_single_tower
    assert repr(strategy) == "<CollectiveAllReduceStrategy on /device:CPU:0>"


def test_arguments_are_checked() -> None:
    with pytest.raises(ConfigError, match="got devices=.*: expected one of them"):
        CollectiveAllReduceStrategy(2, devices=cpu_devices(2))
    with pytest.raises(ConfigError, match="got all_reduce_merge_scope=0"):
        CollectiveAllReduceStrategy(all_reduce_merge_scope=0)
