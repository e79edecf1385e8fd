"""That a choice becomes cross-tower operations and is logged; what is chosen is in tests/reduction/test_choose.py."""

from typing import Any

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.device_values import MEAN, assert_mirrored, per_device, start
from tests.helpers.log_lines import captured_log
from tests.helpers.tower_grads import cpu_devices
from tpack.distribute.reducer_ops import choose_the_best
from tpack.errors import ReductionError
from tpack.reduction.algorithms.composite import HierarchicalReducer
from tpack.reduction.algorithms.one_device import IdentityReducer
from tpack.reduction.names import ReducerChoice


def test_cpu_devices_take_turns_and_the_log_says_why(session8: Any, rng: Any) -> None:
    with captured_log() as lines:
        ops = choose_the_best(cpu_devices(3))
    assert len(lines) == 1
    assert "3 device(s) are reduced by round_robin: copies between CPU devices share memory" in lines[0]
    arrays = rng.standard_normal((3, 4)).astype(np.float32)
    value = per_device(arrays)
    reduced = ops.reduce(MEAN, value, value)
    start(session8)
    assert_mirrored(session8, reduced, arrays.mean(axis=0), cpu_devices(3))


def test_the_choice_is_that_of_the_reduction(monkeypatch: Any) -> None:
    asked = []

    def choose(devices: Any, session_config: Any) -> ReducerChoice:
        asked.append((devices, session_config))
        return ReducerChoice(IdentityReducer(), "it is a test")

    monkeypatch.setattr("tpack.reduction.autotune.topology.choose_the_best", choose)
    config = tf.ConfigProto()
    assert choose_the_best(["/gpu:0"], config).name == IdentityReducer().name
    assert asked == [(["/gpu:0"], config)]


def test_values_of_other_devices_get_another_reducer(session8: Any, monkeypatch: Any) -> None:
    devices = cpu_devices(4)
    choice = ReducerChoice(HierarchicalReducer(devices), "it is a test")
    monkeypatch.setattr("tpack.reduction.autotune.topology.choose_the_best", lambda *_: choice)
    ops = choose_the_best(["/cpu:0", "/cpu:1", "/cpu:2", "/cpu:3"])
    for num_devices in (4, 2):
        value = per_device(np.arange(num_devices, dtype=np.float32))
        reduced = ops.reduce(MEAN, value, value)
        start(session8)
        assert_mirrored(session8, reduced, (num_devices - 1) / 2, cpu_devices(num_devices))
        kind = "hierarchical" if num_devices == 4 else "round_robin"
        assert reduced.get("/cpu:0").op.name.split("/")[0].startswith(kind)


def test_no_device_and_one_twice_are_refused() -> None:
    with pytest.raises(ReductionError, match="a device of its own"):
        choose_the_best([])
    with pytest.raises(ReductionError, match="device"):
        choose_the_best(["/cpu:0", "/cpu:0"])
