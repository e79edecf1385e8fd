"""What all cross-tower operations have in common: every kind of destination, dense and sparse, one value and many."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.device_values import (
    MEAN,
    SUM,
    assert_mirrored,
    dense_of,
    parts,
    per_device,
    per_device_slices,
    start,
)
from tests.helpers.tower_grads import cpu_devices, source
from tpack.distribute.cross_tower_ops import CrossTowerOps, ReductionToOneDeviceCrossTowerOps
from tpack.distribute.reducer_ops import (
    AllReduceCrossTowerOps,
    CollectiveAllReduce,
    MultiWorkerAllReduce,
    ReducerCrossTowerOps,
)
from tpack.distribute.values import MapOutput, Mirrored, PerDevice
from tpack.errors import ConfigError, ReductionError
from tpack.reduction.algorithms.one_device import RoundRobinReducer

K = 4
DEVICES = cpu_devices(K)
ALL: dict[str, Callable[[], CrossTowerOps]] = {
    "one device": ReductionToOneDeviceCrossTowerOps,
    "one other device": lambda: ReductionToOneDeviceCrossTowerOps("/cpu:6", tf.add_n),
    "reducer": lambda: ReducerCrossTowerOps(RoundRobinReducer()),
    "hierarchical_copy": lambda: AllReduceCrossTowerOps("hierarchical_copy", 2),
    "small tensors": lambda: AllReduceCrossTowerOps("xring", 0, 16, 3),
    "not packed": lambda: AllReduceCrossTowerOps("round_robin", 0),
    "multi worker": lambda: MultiWorkerAllReduce(["/job:localhost"], K, [("xring", 2, 16), ("pscpu/pscpu", 2, -1)]),
    "collective": lambda: CollectiveAllReduce(1, K, all_reduce_merge_scope=2),
}


@pytest.fixture(params=ALL)
def ops(request: Any) -> CrossTowerOps:
    """Each of the cross-tower operations."""
    return ALL[request.param]()


def _arrays(rng: Any, *shape: int, num_devices: int = K) -> Any:
    return rng.standard_normal((num_devices, *shape)).astype(np.float32)


def test_a_value_is_reduced_to_every_kind_of_destination(ops: CrossTowerOps, session8: Any, rng: Any) -> None:
    arrays = _arrays(rng, 3, 2)
    value = per_device(arrays)
    with tf.device("/cpu:5"):
        variable = tf.Variable(0.0, use_resource=True)
    results = {
        "itself": (ops.reduce(SUM, value, value), DEVICES),
        "in another order": (ops.reduce(SUM, value, DEVICES[::-1]), DEVICES[::-1]),
        "a device": (ops.reduce(SUM, value, "/cpu:2"), ["/device:CPU:2"]),
        "fewer devices": (ops.reduce(SUM, value, ["/cpu:3", "/cpu:1"]), ["/device:CPU:3", "/device:CPU:1"]),
        "other devices": (ops.reduce(SUM, value, ["/cpu:7", "/cpu:1"]), ["/device:CPU:7", "/device:CPU:1"]),
        "a variable": (ops.reduce(SUM, value, variable), ["/device:CPU:5"]),
        "a tensor": (ops.reduce(SUM, value, value.get(DEVICES[1])), ["/device:CPU:1"]),
        "another value": (ops.reduce(SUM, value, per_device(arrays[:2])), DEVICES[:2]),
    }
    start(session8)
    for result, devices in results.values():
        assert isinstance(result, Mirrored)
        assert_mirrored(session8, result, arrays.sum(axis=0), devices)


def test_a_mean_is_the_sum_divided_by_the_number_of_devices(ops: CrossTowerOps, session8: Any, rng: Any) -> None:
    arrays = _arrays(rng, 5)
    value = per_device(arrays)
    mean, elsewhere = ops.reduce(MEAN, value, value), ops.reduce(MEAN, value, "/cpu:7")
    start(session8)
    assert_mirrored(session8, mean, arrays.mean(axis=0), DEVICES)
    assert_mirrored(session8, elsewhere, arrays.mean(axis=0), ["/device:CPU:7"])


@pytest.mark.parametrize("aggregation", [SUM, MEAN])
def test_a_batch_with_equal_destinations(ops: CrossTowerOps, aggregation: Any, session8: Any, rng: Any) -> None:
    batch = [_arrays(rng, *shape) for shape in [(3,), (), (2, 40), (1,), (0,), (7,)]]
    values = [per_device(arrays) for arrays in batch]
    reduced = ops.batch_reduce(aggregation, [(value, value) for value in values])
    start(session8)
    for result, arrays in zip(reduced, batch, strict=True):
        wanted = arrays.sum(axis=0) / (K if aggregation is MEAN else 1)
        assert_mirrored(session8, result, wanted, DEVICES)


def test_a_batch_with_different_destinations_keeps_its_order(ops: CrossTowerOps, session8: Any, rng: Any) -> None:
    batch = [_arrays(rng, n + 1) for n in range(4)]
    destinations: list[Any] = [DEVICES, "/cpu:1", DEVICES, ["/cpu:0", "/cpu:6"]]
    reduced = ops.batch_reduce(SUM, tuple((per_device(a), d) for a, d in zip(batch, destinations, strict=True)))
    start(session8)
    wanted = [DEVICES, ["/device:CPU:1"], DEVICES, ["/device:CPU:0", "/device:CPU:6"]]
    for result, arrays, devices in zip(reduced, batch, wanted, strict=True):
        assert_mirrored(session8, result, arrays.sum(axis=0), devices)


@pytest.mark.parametrize("aggregation", [SUM, MEAN])
def test_slices_stay_slices(ops: CrossTowerOps, aggregation: Any, session8: Any, rng: Any) -> None:
    """Also in one batch with dense values, and on other devices."""
    sparse, dense = per_device_slices(K), _arrays(rng, 3)
    pairs = [(sparse, DEVICES), (per_device(dense), DEVICES), (sparse, ["/cpu:7", "/cpu:0"])]
    reduced = ops.batch_reduce(aggregation, pairs)
    alone = ops.reduce(aggregation, sparse, sparse)
    start(session8)
    scale = K if aggregation is MEAN else 1
    assert_mirrored(session8, reduced[1], dense.sum(axis=0) / scale, DEVICES)
    for result, wanted in [(reduced[0], DEVICES), (reduced[2], ["/device:CPU:7", "/device:CPU:0"]), (alone, DEVICES)]:
        assert list(result.devices) == wanted
        for device, part in zip(wanted, parts(result), strict=True):
            assert isinstance(part, tf.IndexedSlices)
            assert part.device == part.indices.device == device
            assert dense_of(session8.run(part)).ravel().tolist() == [n / scale for n in (6, 1, 2, 3, 0)]
            assert session8.run(part.dense_shape).tolist() == [5, 1]


def test_lists_on_devices_are_summed_there_and_a_mean_is_over_all(ops: CrossTowerOps, session8: Any) -> None:
    outputs = {d: MapOutput([source(np.float32(k), d)] * (k % 3)) for k, d in enumerate(DEVICES)}
    total, mean = (ops.reduce(aggregation, PerDevice(outputs), DEVICES) for aggregation in (SUM, MEAN))
    start(session8)
    assert_mirrored(session8, total, np.float32(1 + 2 * 2), DEVICES)
    assert_mirrored(session8, mean, np.float32(5 / 3), DEVICES)


def test_a_mean_of_lists_that_end_where_they_are_is_over_all(ops: CrossTowerOps, session8: Any) -> None:
    outputs = {d: MapOutput([source(np.float32(k), d)] * (k + 1)) for k, d in enumerate(DEVICES)}
    value = PerDevice(outputs)
    total, mean = (ops.reduce(aggregation, value, value) for aggregation in (SUM, MEAN))
    start(session8)
    assert_mirrored(session8, total, np.float32(2 + 2 * 3 + 3 * 4), DEVICES)
    assert_mirrored(session8, mean, np.float32(20 / 10), DEVICES)


def test_broadcast_copies_to_every_kind_of_destination(ops: CrossTowerOps, session8: Any) -> None:
    tensor = source(np.float32([1, 2]), "/device:CPU:1")
    copies = ops.broadcast(tensor, ["/cpu:1", "/cpu:2"])
    again = ops.broadcast(tensor, copies)
    number = ops.broadcast(3.0, "/cpu:4")
    start(session8)
    assert copies.get("/device:CPU:1") is tensor
    assert_mirrored(session8, copies, [1, 2], ["/device:CPU:1", "/device:CPU:2"])
    assert_mirrored(session8, again, [1, 2], ["/device:CPU:1", "/device:CPU:2"])
    assert_mirrored(session8, number, 3, ["/device:CPU:4"])


@pytest.mark.parametrize("name", ["one device", "reducer", "hierarchical_copy", "not packed"])
def test_one_device_needs_no_value_of_several(name: str, session8: Any) -> None:
    tensor = source(np.float32([1, 2]), "/device:CPU:3")
    with tf.device("/cpu:3"):
        variable = tf.Variable([4.0, 5.0], use_resource=True)
    ops = ALL[name]()
    there, elsewhere = ops.reduce(MEAN, tensor, tensor), ops.reduce(SUM, variable, "/cpu:1")
    start(session8)
    assert_mirrored(session8, there, [1, 2], ["/device:CPU:3"])
    assert_mirrored(session8, elsewhere, [4, 5], ["/device:CPU:1"])


def test_an_empty_batch_is_no_result(ops: CrossTowerOps, graph: Any) -> None:
    assert ops.batch_reduce(SUM, []) == []
    assert graph.get_operations() == []


def test_values_that_differ_are_refused(ops: CrossTowerOps, graph: Any) -> None:
    value = PerDevice({d: tf.zeros([k + 1]) for k, d in enumerate(DEVICES)})
    with pytest.raises(ReductionError, match="has shape"):
        ops.reduce(SUM, value, DEVICES)
    with pytest.raises(ReductionError, match="has shape"):
        ops.reduce(SUM, value, "/cpu:0")
    with pytest.raises(ReductionError, match="the mean of integers is not an integer"):
        ops.reduce(MEAN, per_device(np.arange(K)), DEVICES)


OPS = ReductionToOneDeviceCrossTowerOps()


def test_arguments_of_other_kinds_are_refused(graph: Any) -> None:
    value = per_device(np.float32([1, 2]))
    with pytest.raises(ConfigError, match="aggregation got 'sum'"):
        OPS.reduce("sum", value, value)
    with pytest.raises(ConfigError, match="aggregation got 'sum'"):
        OPS.batch_reduce("sum", [(value, value)])
    with pytest.raises(ConfigError, match="reduce got .*: expected a value of several devices"):
        OPS.reduce(SUM, [tf.ones([])], value)
    with pytest.raises(ConfigError, match="reduce got 3: expected a value of several devices"):
        OPS.reduce(SUM, 3, value)
    with pytest.raises(ConfigError, match="destinations got None: expected a device"):
        OPS.reduce(SUM, value, None)
    with pytest.raises(ConfigError, match="destinations can not be empty"):
        OPS.broadcast(tf.ones([]), [])
    with pytest.raises(ConfigError, match="broadcast got .*: expected one tensor"):
        OPS.broadcast(value, "/cpu:0")


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        ("text", r"batch_reduce got 'text': expected a list or tuple of .value, destinations."),
        ([["value", "/cpu:0"]], "batch_reduce got the element"),
        ([("value",)], "batch_reduce got the element"),
        ([("value", "/cpu:0")], "reduce got 'value': expected a value of several devices"),
        ([3], "batch_reduce got the element 3"),
    ],
)
def test_pairs_of_other_kinds_are_refused(pairs: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        OPS.batch_reduce(SUM, pairs)


def test_the_hooks_of_a_subclass_get_checked_arguments(graph: Any) -> None:
    class Recording(CrossTowerOps):
        calls: list[Any] = []

        def _reduce(self, aggregation: Any, per_device_value: Any, destinations: Any) -> Any:
            self.calls.append((aggregation, per_device_value, destinations))

        def _batch_reduce(self, aggregation: Any, value_destination_pairs: Any) -> Any:
            self.calls.append((aggregation, *value_destination_pairs))

        def _broadcast(self, tensor: Any, destinations: Any) -> Any:
            self.calls.append((tensor, destinations))

    ops, value = Recording(), per_device(np.float32([1, 2]))
    ops.reduce(SUM, value, "/cpu:0")
    ops.batch_reduce(MEAN, [(value, value)])
    ops.broadcast(1.0, ["/cpu:0"])
    assert ops.calls == [(SUM, value, "/cpu:0"), (MEAN, (value, value)), (1.0, ["/cpu:0"])]
