from typing import Any

import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.tower_grads import cpu_devices
from tpack.errors import DeviceError, ReductionError
from tpack.reduction.algorithms.collective import CollectiveReducer
from tpack.reduction.algorithms.one_device import IdentityReducer, OneDeviceReducer
from tpack.reduction.algorithms.ring import RingReducer
from tpack.reduction.autotune import worker
from tpack.reduction.autotune.measure import make_workload
from tpack.reduction.autotune.worker import measure_here
from tpack.reduction.base import Column, ReduceOp, Reducer
from tpack.reduction.sums import on_device_of

SIZE = 1000


class WrongInOneTower(OneDeviceReducer):
    """Adds one to one element of the last tower's second gradient."""

    def reduce_dense(self, columns: list[Column], op: ReduceOp) -> list[Column]:
        reduced = super().reduce_dense(columns, op)
        with on_device_of(reduced[1][-1]):
            reduced[1] = [*reduced[1][:-1], reduced[1][-1] + tf.one_hot(3, 7)]
        return reduced


def measure(reducer: Reducer, num_towers: int = 4, **workload: Any) -> Any:
    settings = {"shapes": [[SIZE], [7]], "dtypes": tf.float32, **workload}
    return measure_here("row", reducer, make_workload(cpu_devices(num_towers), **settings), steps=2, rounds=3)


def test_a_row_has_times_and_counts():
    row = measure(OneDeviceReducer())
    assert (row.name, row.error) == ("row", "")
    assert len(row.secs) == 3
    assert all(secs > 0 for secs in row.secs)
    # For each gradient: a sum, a division with its constant, and a copy for each tower.
    assert row.graph_ops >= 2 * (2 + 4)
    assert row.build_secs > 0
    assert row.bytes_per_device == 3 * (SIZE + 7) * 4
    assert row.hops == 2


def test_bytes_of_a_ring_and_of_collectives_are_the_least():
    least = 2 * 3 / 4 * SIZE * 4
    ring, collective = (measure(reducer, shapes=[[SIZE]]) for reducer in (RingReducer(), CollectiveReducer()))
    assert ring.bytes_per_device == least
    assert collective.bytes_per_device == least
    assert ring.hops == 6
    assert collective.hops == 6


def test_nothing_is_left_in_the_current_graph(graph):
    measure(OneDeviceReducer(), 2)
    assert graph.get_operations() == []


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64", "int32", "int64"])
def test_every_dtype_can_be_measured(dtype):
    assert measure(OneDeviceReducer(), 3, shapes=[[7], [], [0, 2]], dtypes=dtype).error == ""


def test_a_wrong_result_is_not_timed():
    with pytest.raises(ReductionError, match="a wrong result: a gradient is off by 33%"):
        measure(WrongInOneTower(), 3)
    with pytest.raises(ReductionError, match="a wrong result: a gradient is off by"):
        measure(IdentityReducer(), 2)


def test_the_session_has_the_devices_of_the_towers():
    workload = make_workload(cpu_devices(2), [[3]])
    config = tf.ConfigProto(device_count={"CPU": 1}, inter_op_parallelism_threads=1)
    row = measure_here("row", OneDeviceReducer(), workload, steps=1, rounds=1, session_config=config)
    assert row.error == ""
    assert config.device_count["CPU"] == 1
    absent = make_workload(["/device:CPU:0", "/device:TPU:0"], [[3]])
    with pytest.raises(DeviceError, match="/device:TPU:0"):
        measure_here("row", OneDeviceReducer(), absent, steps=1, rounds=1)


@pytest.mark.parametrize("is_pinned", [False, True])
def test_the_session_rewrites_the_graph_as_those_that_train_do(
    monkeypatch: pytest.MonkeyPatch, is_pinned: bool
) -> None:
    configs = []

    class Session(tf.Session):
        def __init__(self, config: Any) -> None:
            configs.append(config)
            super().__init__(config=config)

    monkeypatch.setattr(worker.tf, "Session", Session)
    config = tf.ConfigProto()
    if is_pinned:
        config.graph_options.rewrite_options.memory_optimization = config.graph_options.rewrite_options.NO_MEM_OPT
    workload = make_workload(cpu_devices(2), [[3]])
    assert measure_here("row", OneDeviceReducer(), workload, steps=1, rounds=1, session_config=config).error == ""
    rewrites = configs[0].graph_options.rewrite_options
    assert rewrites.disable_meta_optimizer == (not is_pinned)
    assert (rewrites.memory_optimization == rewrites.NO_MEM_OPT) == is_pinned
