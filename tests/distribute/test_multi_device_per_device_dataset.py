from typing import Any

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.partition_graphs import placed_devices
from tests.helpers.tower_grads import cpu_devices
from tpack.distribute.multi_device import PerDeviceDataset
from tpack.distribute.values import PerDevice
from tpack.errors import ConfigError, StrategyError

PREFETCHES = pytest.mark.parametrize("prefetch", [0, 2])


def _numbers(end: int) -> Any:
    return tf.data.Dataset.range(end)


@PREFETCHES
def test_elements_are_dealt_out_in_turn_and_the_rest_is_dropped(prefetch: int, session8: Any) -> None:
    dataset = PerDeviceDataset(_numbers(11), ["/cpu:0", "/cpu:2", "/cpu:1"], prefetch_on_device=prefetch)
    assert dataset.devices == ["/device:CPU:0", "/device:CPU:2", "/device:CPU:1"]
    iterator = dataset.make_initializable_iterator()
    value = iterator.get_next()
    assert isinstance(value, PerDevice)
    assert value.devices == dataset.devices
    parts = list(value.index.values())
    for _ in range(2):
        session8.run(iterator.initializer)
        assert [session8.run(parts) for _ in range(3)] == [[0, 1, 2], [3, 4, 5], [6, 7, 8]]
        with pytest.raises(tf.errors.OutOfRangeError):
            session8.run(parts)


@PREFETCHES
def test_taking_one_towers_element_takes_all_towers_on(prefetch: int, session8: Any) -> None:
    iterator = PerDeviceDataset(_numbers(12), cpu_devices(3), prefetch_on_device=prefetch).make_initializable_iterator()
    first, second, third = iterator.get_next().index.values()
    session8.run(iterator.initializer)
    assert [session8.run(part) for part in (first, second, third, first)] == [0, 4, 8, 9]


@PREFETCHES
def test_the_structure_of_elements_is_kept(prefetch: int, session8: Any) -> None:
    def element(number: Any) -> Any:
        sparse = tf.SparseTensor([[number]], [number], [9])
        return {"dense": tf.fill([2], number), "pair": (sparse, tf.cast(number, tf.float32))}

    dataset = PerDeviceDataset(_numbers(4).map(element), cpu_devices(2), prefetch_on_device=prefetch)
    iterator = dataset.make_initializable_iterator()
    value = iterator.get_next()
    session8.run(iterator.initializer)
    for _ in range(2):
        for device in cpu_devices(2):
            assert value["dense"].get(device).device == value["pair"][0].get(device).values.device == device
            assert value["dense"].get(device).shape == [2]
        got = session8.run(
            [[value["dense"].get(d), value["pair"][0].get(d), value["pair"][1].get(d)] for d in cpu_devices(2)]
        )
        for k, (dense, sparse, scalar) in enumerate(got):
            number = int(scalar)
            assert number % 2 == k
            assert np.array_equal(dense, [number] * 2)
            assert (sparse.values, sparse.indices, sparse.dense_shape) == (number, number, 9)
    assert number == 3


def test_a_one_shot_iterator_needs_no_start(session8: Any) -> None:
    iterator = PerDeviceDataset(_numbers(4), cpu_devices(2)).make_one_shot_iterator()
    parts = list(iterator.get_next().index.values())
    assert [session8.run(parts) for _ in range(2)] == [[0, 1], [2, 3]]
    with pytest.raises(StrategyError, match="a one-shot iterator cannot be started anew"):
        _ = iterator.initializer


def test_a_one_shot_iterator_with_buffers_is_started_with_the_tables(session8: Any) -> None:
    iterator = PerDeviceDataset(_numbers(4), cpu_devices(2), prefetch_on_device=1).make_one_shot_iterator()
    parts = list(iterator.get_next().index.values())
    session8.run(tf.tables_initializer())
    assert [session8.run(parts) for _ in range(2)] == [[0, 1], [2, 3]]


def test_buffers_are_for_devices_with_memory_of_their_own(graph: Any) -> None:
    PerDeviceDataset(_numbers(4), cpu_devices(2)).make_initializable_iterator()
    assert "MultiDeviceIterator" not in {op.type for op in graph.get_operations()}
    PerDeviceDataset(_numbers(4), ["/job:worker/device:GPU:0"]).make_initializable_iterator()
    assert "MultiDeviceIterator" in {op.type for op in graph.get_operations()}


def test_reading_is_on_the_host_and_elements_on_their_devices(session8: Any) -> None:
    dataset = PerDeviceDataset(_numbers(4), ["/cpu:3", "/cpu:5"])
    with tf.device("/cpu:7"):
        parts = list(dataset.make_one_shot_iterator().get_next().index.values())
    placed = placed_devices(session8, parts)
    reads = [op.name for op in session8.graph.get_operations() if op.type == "IteratorGetNext"]
    assert [placed[name] for name in reads] == ["/device:CPU:0"] * 2
    assert [placed[part.op.name] for part in parts] == ["/device:CPU:3", "/device:CPU:5"]


def test_arguments_are_checked(graph: Any) -> None:
    with pytest.raises(ConfigError, match="got dataset=3: expected a tf.data.Dataset"):
        PerDeviceDataset(3, cpu_devices(2))
    with pytest.raises(ConfigError, match="got devices with 0 entries"):
        PerDeviceDataset(_numbers(4), [])
    with pytest.raises(ConfigError, match="got prefetch_on_device=-1: expected an integer of at least 0"):
        PerDeviceDataset(_numbers(4), cpu_devices(2), prefetch_on_device=-1)


def test_elements_wait_or_not(graph):
    dataset = tf.data.Dataset.range(4)
    for wanted, number in ((True, 2), (False, 0), (3, 3), (None, 0)):
        assert PerDeviceDataset(dataset, ["/cpu:0", "/cpu:1"], prefetch_on_device=wanted)._prefetch == number
