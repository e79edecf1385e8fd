from typing import Any

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.device_values import MEAN, SUM, assert_mirrored, parts, per_device, per_device_slices, start
from tests.helpers.partition_graphs import run_with_devices
from tests.helpers.tower_grads import source
from tpack.distribute.cross_tower_ops import ReductionToOneDeviceCrossTowerOps, gather_contributions, reduce_on_device
from tpack.distribute.values import PerDevice
from tpack.errors import ConfigError
from tpack.tower.grads import ReduceOp


@pytest.mark.parametrize(("device", "owner"), [(None, 2), ("/cpu:5", 5)])
def test_the_sum_runs_on_one_device(device: str | None, owner: int, session8: Any, rng: Any) -> None:
    arrays = rng.standard_normal((3, 4)).astype(np.float32)
    reduced = ReductionToOneDeviceCrossTowerOps(device).reduce(MEAN, per_device(arrays), ["/cpu:2", "/cpu:0"])
    start(session8)
    _, placed = run_with_devices(session8, parts(reduced))
    assert placed["reduce_on_device/AddN"] == f"/device:CPU:{owner}"
    assert_mirrored(session8, reduced, arrays.mean(axis=0), ["/device:CPU:2", "/device:CPU:0"])


def test_the_accumulation_function_gets_the_dense_summands(session8: Any) -> None:
    seen = []

    def accumulate(summands: Any) -> Any:
        seen.append(len(summands))
        return tf.math.accumulate_n(list(summands))

    ops = ReductionToOneDeviceCrossTowerOps(accumulation_fn=accumulate)
    total, mean = (ops.reduce(aggregation, per_device(np.float32([1, 2, 6])), "/cpu:4") for aggregation in (SUM, MEAN))
    ops.reduce(SUM, per_device_slices(3), "/cpu:4")
    start(session8)
    assert_mirrored(session8, total, 9, ["/device:CPU:4"])
    assert_mirrored(session8, mean, 3, ["/device:CPU:4"])
    assert seen == [3, 3]


def test_16_bit_floats_are_added_in_32(session8: Any) -> None:
    value = PerDevice(
        {f"/device:CPU:{k}": source(n, f"/device:CPU:{k}", dtype=tf.float16) for k, n in enumerate([2048, 1, 1])}
    )
    reduced = reduce_on_device(gather_contributions(value), ReduceOp.SUM, "/device:CPU:1")
    assert reduced.device == "/device:CPU:1"
    assert start(session8).run(reduced) == np.float16(2050)


def test_a_device_that_cannot_be_read_is_refused() -> None:
    with pytest.raises(ConfigError, match="canonical_device got .*: expected the name of a device"):
        ReductionToOneDeviceCrossTowerOps("/nonsense:x:y")
