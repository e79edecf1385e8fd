"""Everything on one device, through the interface of strategies."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.strategies import MEAN, SUM, devices_of, started
from tpack.distribute.contexts import get_tower_context
from tpack.distribute.strategies import OneDeviceStrategy
from tpack.distribute.values import MapOutput, Mirrored, PerDevice
from tpack.errors import ConfigError
from tpack.tower.context import current_tower_context


@pytest.fixture
def strategy(graph):
    with OneDeviceStrategy("/cpu:3").scope() as one_device:
        yield one_device


def test_there_is_one_tower_on_the_device(strategy):
    def tower(x, *, y):
        context = get_tower_context()
        assert current_tower_context().is_training
        assert (context.tower_id, context.num_towers, context.is_single_tower) == (0, 1, True)
        assert context.device == "/device:CPU:3"
        merged = context.merge_call(lambda strategy, a, *, b: (strategy, a, b), x, b=y)
        return *merged, tf.no_op().device

    assert strategy.call_for_each_tower(tower, 1, y=2) == (strategy, 1, 2, "/device:CPU:3")
    assert strategy.worker_devices == strategy.parameter_devices == strategy.non_slot_devices([]) == ["/device:CPU:3"]
    assert strategy.worker_device_index == 0
    assert repr(strategy) == "<OneDeviceStrategy on /device:CPU:3>"


def test_everything_in_the_scope_is_on_the_device(strategy):
    assert tf.no_op().device == "/device:CPU:3"
    variable = tf.get_variable("v", [])
    assert type(variable).__name__ == "ResourceVariable"
    assert variable.device == "/device:CPU:3"
    with tf.device("/cpu:1"):
        assert tf.get_variable("w", []).device == "/device:CPU:3"
    with strategy.colocate_vars_with("/cpu:5"):
        assert tf.get_variable("x", []).device == "/device:CPU:5"


def test_values_are_plain(strategy):
    tensor = tf.constant(1.0)
    assert strategy.broadcast(tensor) is tensor
    assert strategy.reduce(MEAN, tensor) is tensor
    assert strategy.unwrap(tensor) == [tensor]
    assert strategy.broadcast(tensor, "/cpu:1").device == "/device:CPU:1"
    assert strategy.reduce(SUM, tensor, "/cpu:1").device == "/device:CPU:1"
    both = strategy.broadcast(tensor, devices_of(2))
    assert isinstance(both, Mirrored)
    assert both.devices == devices_of(2)


def test_lists_of_results_are_reduced(strategy, session8):
    output = MapOutput([tf.constant(1.0), tf.constant(3.0)])
    assert session8.run([strategy.reduce(SUM, output), strategy.reduce(MEAN, output)]) == [4.0, 2.0]


def test_values_of_several_devices_are_reduced(strategy, session8):
    value = PerDevice({"/cpu:1": 1.0, "/cpu:2": 3.0})
    assert session8.run(strategy.reduce(MEAN, value, "/cpu:3")) == 2.0
    both = strategy.reduce(SUM, value)
    assert both.devices == ["/device:CPU:1", "/device:CPU:2"]
    assert session8.run(strategy.unwrap(both)) == [4.0, 4.0]


def test_updates_get_the_variable_and_plain_values(strategy, session8):
    variable = tf.get_variable("v", [], initializer=tf.zeros_initializer())
    updated = strategy.update(variable, lambda v, x: v.assign_add(x), tf.constant(2.0))
    operation = strategy.update_non_slot(strategy.non_slot_devices([variable]), tf.no_op)
    assert (updated.device, operation.device) == ("/device:CPU:3", "/device:CPU:3")
    assert started(session8).run([updated, strategy.read_var(variable)])[0] == 2.0


def test_the_one_tower_gets_all_data(strategy, session8):
    batch = strategy.distribute_dataset(lambda: tf.data.Dataset.range(3)).make_one_shot_iterator().get_next()
    assert [session8.run(batch) for _ in range(3)] == [0, 1, 2]


def test_towers_can_be_built_again_and_share_by_scopes(strategy, session8):
    def tower(x):
        weight = tf.get_variable("w", [], initializer=tf.constant_initializer(3.0))
        return weight * x

    with tf.variable_scope("model", reuse=tf.AUTO_REUSE):
        results = [strategy.call_for_each_tower(tower, float(k)) for k in range(2)]
    np.testing.assert_array_equal(started(session8).run(results), [0.0, 3.0])
    assert len(tf.global_variables()) == 1


def test_a_name_that_is_no_device_is_an_error():
    with pytest.raises(ConfigError, match="expected the name of a device"):
        OneDeviceStrategy("/gpu:x")
