"""Values with a part for each device."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.sessions import cpu_session
from tests.helpers.strategies import devices_of, in_scope
from tpack.distribute.contexts import UpdateContext, get_tower_context
from tpack.distribute.default_strategy import DEFAULT_STRATEGY
from tpack.distribute.values import DistributedValues, MapOutput, Mirrored, PerDevice, with_operators
from tpack.errors import ConfigError, StrategyError


def test_parts_are_found_by_every_name_of_their_device():
    value = PerDevice({"/cpu:0": "a", "/job:localhost/replica:0/task:0/device:CPU:1": "b"})
    assert value.devices == devices_of(2)
    assert value.index == {"/device:CPU:0": "a", "/device:CPU:1": "b"}
    assert value.get("/device:CPU:1") == value.get("cpu:1") == "b"
    assert value.on_device("/cpu:0")
    assert not value.on_device("/cpu:2")


def test_a_gpu_is_found_by_its_stand_in(monkeypatch):
    monkeypatch.setattr("tpack.tower.devices.list_gpus", lambda: [])
    assert PerDevice({"/cpu:0": "a", "/cpu:1": "b"}).get("/gpu:1") == "b"
    assert PerDevice({"/cpu:0": "a", "/gpu:0": "b"}).get("/gpu:0") == "b"
    assert not PerDevice({"/cpu:0": "a"}).on_device("/gpu:1")


def test_the_index_that_is_returned_is_a_copy():
    value = PerDevice({"/cpu:0": "a"})
    value.index.clear()
    assert value.get("/cpu:0") == "a"


@pytest.mark.parametrize("index", [{}, {"/cpu:0": 1, "/device:CPU:0": 2}])
def test_no_device_and_one_twice_are_errors(index):
    with pytest.raises(ConfigError, match="expected one or more different devices"):
        PerDevice(index)


def test_a_device_without_a_part_is_an_error():
    with pytest.raises(StrategyError, match="device '/cpu:7' is not one of"):
        Mirrored({"/cpu:0": 1}).get("/cpu:7")


def test_where_a_value_is_used_decides_which_part_it_is(graph):
    per_device, same = PerDevice({"/cpu:0": "a", "/cpu:1": "b"}), Mirrored({"/cpu:0": "A", "/cpu:1": "B"})
    with tf.device("/cpu:1"):
        assert (per_device.get(), same.get()) == ("b", "B")
    with in_scope() as strategy:
        seen = strategy.call_for_each_tower(lambda: (per_device.get(), same.get(), get_tower_context().tower_id))
        assert [part.get("/cpu:1") for part in seen] == ["b", "B", 1]
        with UpdateContext("/cpu:1"):
            assert (per_device.get(), same.get()) == ("b", "B")
        assert same.get() == "A"
        with tf.device("/cpu:1"):
            assert same.get() == "B"
        with pytest.raises(StrategyError, match=r"use unwrap\(\) or reduce\(\)"):
            per_device.get()


def test_outside_of_their_devices_mirrored_values_are_the_first_and_others_are_none(graph):
    assert Mirrored({"/cpu:1": "A", "/cpu:2": "B"}).get() == "A"
    with DEFAULT_STRATEGY.scope():
        assert Mirrored({"/cpu:1": "A", "/cpu:2": "B"}).get() == "A"
    with pytest.raises(StrategyError, match="has another value on each device, and this is none of them"):
        PerDevice({"/cpu:1": "A"}).get()


def test_mirrored_values_can_be_used_as_tensors(graph):
    parts = {}
    for device in devices_of(2):
        with tf.device(device):
            parts[device] = tf.constant([1.0, -2.0])
    value = Mirrored(parts)
    results = [value + 1, 1 - value, np.ones(2, np.float32) * value, -value, abs(value), value[1], value > 0, value**2]
    results += [tf.reduce_sum(value), tf.convert_to_tensor(value, tf.float32)]
    assert value.shape == [2]
    assert value.dtype == tf.float32
    assert value.is_tensor_like
    with cpu_session(graph) as session:
        got = session.run(results)
        assert session.run(value).tolist() == [1.0, -2.0]
    wanted = [[2, -1], [0, 3], [1, -2], [-1, 2], [1, 2], -2, [True, False], [1, 4], -1, [1, -2]]
    for number, expected in zip(got, wanted, strict=True):
        np.testing.assert_array_equal(number, expected)


def test_what_tensors_refuse_is_refused(graph):
    value = Mirrored({"/cpu:0": tf.placeholder(tf.float32, [None])})
    with pytest.raises(TypeError, match="Python `bool` is not allowed"):
        bool(value)
    with pytest.raises(TypeError, match="Iterating over a symbolic"):
        iter(value)
    assert Mirrored({"/cpu:0": tf.no_op()})
    assert not Mirrored({"/cpu:0": 0})


def test_asking_python_s_questions_of_mirrored_values_does_not_reach_their_parts():
    class Part:
        _hidden = 1
        shown = 2

    value = Mirrored({"/cpu:0": Part()})
    assert value.shown == 2
    assert not hasattr(value, "_hidden")


def test_operations_are_no_tensors(graph):
    assert not Mirrored({"/cpu:0": tf.no_op()}).is_tensor_like


def test_what_is_mirrored_runs_in_a_session_also_if_it_is_an_operation(session8):
    variable = tf.get_variable("v", [], initializer=tf.zeros_initializer(), use_resource=True)
    assert session8.run(Mirrored({"/cpu:0": variable.initializer})) is None
    assert session8.run(Mirrored({"/cpu:0": variable})) == 0


def test_results_of_one_device_are_kept_together():
    made = [1, 2]
    output = MapOutput(made)
    made.append(3)
    output.get().append(4)
    assert output.get() == [1, 2]
    assert repr(output) == "MapOutput([1, 2])"


def test_operators_are_given_to_a_class(graph):
    @with_operators
    class Three:
        pass

    tf.register_tensor_conversion_function(Three, lambda value, dtype=None, name=None, as_ref=False: tf.constant(3))
    with cpu_session(graph) as session:
        assert session.run([Three() + 1, 10 // Three()]) == [4, 3]


def test_values_say_what_they_are():
    assert repr(DistributedValues({"/cpu:0": 1})) == "DistributedValues({'/device:CPU:0': 1})"


def test_operators_on_numbers_give_numbers(graph):
    seven = Mirrored({"/device:CPU:0": 7, "/device:CPU:1": 7})
    half = Mirrored({"/device:CPU:0": 0.5})
    assert [seven + 1, 1 + seven, 10 - seven, seven % 4, -seven, abs(-seven), seven**2, seven // 2] == [
        *(8, 8, 3, 3, -7, 7, 49, 3)
    ]
    assert (seven < 8, seven >= 8, seven & 5, 1 << 1 | seven, seven * half) == (True, False, 5, 7, 3.5)
    array = Mirrored({"/device:CPU:0": np.arange(3)})
    assert [list(array + 1), array[2], list(array)] == [[1, 2, 3], 2, [0, 1, 2]]
    assert graph.get_operations() == []
    with pytest.raises(TypeError):
        seven + None


def test_a_device_that_stands_in_for_a_gpu_of_the_index_finds_its_value():
    value = PerDevice({"/cpu:0": "cpu", "/gpu:0": "gpu"})
    assert [value.get(device) for device in ("/cpu:0", "/gpu:0", "/cpu:1")] == ["cpu", "gpu", "gpu"]
    assert not value.on_device("/cpu:2")
    assert PerDevice({"/gpu:1": 1}).get("/cpu:1") == 1
