"""The default strategy: everything as it is written, and the strategy's interface anyway."""

import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.strategies import MEAN, SUM, devices_of, in_scope, mirrored, started
from tpack.distribute.contexts import get_tower_context, get_update_device, has_distribution_strategy
from tpack.distribute.default_strategy import DEFAULT_STRATEGY, DEFAULT_TOWER_CONTEXT
from tpack.distribute.optimizer import increment_var
from tpack.errors import ConfigError, StrategyError
from tpack.tower.context import TrainTowerContext


@pytest.fixture
def strategy(graph):
    with DEFAULT_STRATEGY.scope() as default:
        yield default


def variable(name="v", device=""):
    with tf.device(device):
        return tf.get_variable(name, [], initializer=tf.zeros_initializer(), use_resource=True)


def test_it_has_one_tower_and_no_list_of_devices(strategy):
    assert (strategy.num_towers, strategy.is_single_tower, strategy.is_default) == (1, True, True)
    for name in ("worker_devices", "parameter_devices", "worker_device_index"):
        with pytest.raises(StrategyError, match=f"{name} is unsupported by the default strategy"):
            getattr(strategy, name)


def test_values_stay_as_they_are(strategy):
    thing = object()
    assert strategy.broadcast(thing) is thing
    assert strategy.reduce(SUM, thing) is thing
    assert strategy.batch_reduce(MEAN, [(thing, None)]) == [thing]
    assert strategy.unwrap(thing) == [thing]
    with pytest.raises(StrategyError, match="has no devices to broadcast to"):
        strategy.broadcast(thing, "/cpu:0")


def test_a_function_is_called_once_in_the_default_tower(strategy):
    def tower(x, y):
        return x, y, get_tower_context()

    assert strategy.call_for_each_tower(tower, 1, y=2, run_concurrently=False) == (1, 2, DEFAULT_TOWER_CONTEXT)


def test_updates_are_where_the_variable_is(strategy):
    v = variable(device="/cpu:3")

    def update(variable, x):
        assert variable is v
        return tf.identity(x), get_update_device()

    tensor, device = strategy.update(v, update, 1.0)
    assert device == tensor.device == "/device:CPU:3"
    tensor, device = strategy.update_non_slot(v, lambda: update(v, 1.0))
    assert device == tensor.device == "/device:CPU:3"


def test_what_is_of_several_devices_is_updated_on_all_of_them(session8):
    with in_scope():
        v = variable()
    seen = []

    def update(mirror, x):
        seen.append((mirror, get_update_device()))
        return mirror.assign_add(x)

    with DEFAULT_STRATEGY.scope() as strategy:
        assert strategy.unwrap(v) == v.components
        updated = [strategy.group(strategy.update(v, update, 2.0)), strategy.group(v.assign_add(3.0))]
        devices = strategy.update_non_slot(v, get_update_device)
    assert seen == list(zip(v.components, devices_of(2), strict=True))
    assert devices.index == {device: device for device in devices_of(2)}
    updated.append(increment_var(v))
    started(session8).run(updated)
    assert session8.run(v.components) == [6.0, 6.0]


def test_variables_are_plain_and_colocated_where_that_is_asked_for(strategy):
    v = variable(device="/cpu:3")
    assert type(v).__name__ == "ResourceVariable"
    with strategy.colocate_vars_with(v):
        assert variable("w").device == "/device:CPU:3"


def test_colocation_and_data_need_no_scope(graph):
    v = variable(device="/cpu:3")
    with DEFAULT_STRATEGY.colocate_vars_with(v):
        assert variable("w").device == "/device:CPU:3"
    assert not has_distribution_strategy()
    dataset = tf.data.Dataset.range(3)
    assert DEFAULT_STRATEGY.distribute_dataset(lambda: dataset) is dataset
    with pytest.raises(ConfigError, match="dataset_fn returned .*: expected a tf.data.Dataset"):
        DEFAULT_STRATEGY.distribute_dataset(lambda: [1])


def test_non_slot_variables_go_to_the_variable_whose_name_comes_first(strategy):
    b, a = variable("b"), variable("a")
    assert strategy.non_slot_devices([b, a]) is a


def test_reading_a_variable_gives_a_tensor(strategy):
    assert tf.is_tensor(strategy.read_var(variable()))


def test_scopes_must_not_be_nested(graph):
    for around in (in_scope(), TrainTowerContext("")):
        nested = pytest.raises(StrategyError, match="scope got .* as the current strategy: expected none")
        with around, nested, DEFAULT_STRATEGY.scope():
            raise AssertionError("entered")
    with DEFAULT_STRATEGY.scope(), DEFAULT_STRATEGY.scope(), mirrored().scope():
        assert has_distribution_strategy()


def test_another_strategy_s_scope_has_no_default_colocation(graph):
    v = variable()
    with in_scope(), pytest.raises(StrategyError, match="mixing"), DEFAULT_STRATEGY.colocate_vars_with(v):
        raise AssertionError("entered")
