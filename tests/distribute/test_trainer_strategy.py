"""Code that is written for strategies, in the towers of a trainer."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.strategies import MEAN, SUM, devices_of, started, tower_number
from tpack.distribute.contexts import get_distribution_strategy, get_tower_context
from tpack.distribute.optimizer import DistributedOptimizer
from tpack.distribute.trainer_strategy import TrainerTowersStrategy, context_of_tower
from tpack.distribute.values import PerDevice
from tpack.errors import GraphBuildError, StrategyError
from tpack.graph_builder.towers import build_towers
from tpack.tower.context import PredictTowerContext, TrainTowerContext, current_tower_context
from tpack.tower.devices import LeastLoadedDeviceSetter, list_gpus

KINDS = {"own variables": True, "shared variables": False}


def build(func, num_towers=4, *, own=True):
    return build_towers(func, devices_of(num_towers), [own] * num_towers).outputs


@pytest.mark.parametrize("own", KINDS.values(), ids=KINDS)
def test_towers_know_themselves_and_share_a_strategy(graph, own):
    def tower():
        context = get_tower_context()
        assert context is context_of_tower(current_tower_context())
        return (
            context.tower_id,
            context.num_towers,
            context.is_single_tower,
            context.device,
            get_distribution_strategy(),
        )

    seen = build(tower, own=own)
    assert [each[:4] for each in seen] == [(k, 4, False, device) for k, device in enumerate(devices_of(4))]
    assert len({each[4] for each in seen}) == 1
    assert isinstance(seen[0][4], TrainerTowersStrategy)


@pytest.mark.parametrize("own", KINDS.values(), ids=KINDS)
def test_values_are_reduced_when_the_towers_meet(session8, own):
    def merge(strategy, x, *, table):
        assert strategy.worker_devices == strategy.parameter_devices == devices_of(4)
        index = strategy.worker_device_index
        return strategy.reduce(MEAN, x), strategy.batch_reduce(SUM, [(table["x"], None), (x, "/cpu:0")])[0], index

    def tower():
        x = tower_number()
        return get_tower_context().merge_call(merge, x, table={"x": x * 10})

    outputs = build(tower, own=own)
    assert [output[2] for output in outputs] == [0, 1, 2, 3]
    assert [output[0].device for output in outputs] == devices_of(4)
    assert session8.run([output[:2] for output in outputs]) == [(2.5, 100.0)] * 4


def test_updates_reach_the_copies_of_all_towers(session8):
    def merge(strategy, variable, value):
        assert isinstance(variable, PerDevice)
        return strategy.update(variable, lambda own, mean: own.assign(mean), strategy.reduce(MEAN, value))

    def tower():
        variable = tf.get_variable("v", [])
        return get_tower_context().merge_call(merge, variable, tower_number()), variable

    outputs = build(tower)
    started(session8).run([output[0] for output in outputs])
    assert session8.run([output[1] for output in outputs]) == [2.5] * 4


def test_updates_reach_shared_variables_once(session8):
    def merge(strategy, variable, value):
        return strategy.update(variable, tf.assign_add, strategy.reduce(SUM, value, variable))

    def tower():
        return get_tower_context().merge_call(
            merge, tf.get_variable("v", [], initializer=tf.zeros_initializer()), tower_number()
        )

    outputs = build(tower, own=False)
    started(session8).run(outputs)
    assert session8.run(tf.global_variables()) == [10.0]


def test_a_batch_norm_that_is_written_for_strategies_synchronises(session8, rng):
    data = rng.normal(size=(4, 3, 2)).astype(np.float32)

    def tower():
        x = tf.constant(data)[get_tower_context().tower_id]
        moments = [tf.reduce_mean(x, 0), tf.reduce_mean(x**2, 0)]
        mean, square = get_tower_context().merge_call(
            lambda strategy, moments: strategy.batch_reduce(MEAN, [(moment, None) for moment in moments]), moments
        )
        return (x - mean) / tf.sqrt(square - mean**2)

    flat = data.reshape(-1, 2)
    wanted = (data - flat.mean(0)) / flat.std(0)
    np.testing.assert_allclose(session8.run(build(tower)), wanted, rtol=1e-4, atol=1e-5)


def test_towers_alone_meet_alone(session8):
    def merge(strategy, x):
        return strategy.reduce(SUM, x)

    outputs = []
    for tower in (TrainTowerContext("", device="/cpu:1"), PredictTowerContext("p", index=5, total=8, device="/cpu:5")):
        with tower:
            context = get_tower_context()
            assert (context.tower_id, context.num_towers) == (0, 1)
            outputs.append(context.merge_call(merge, tf.constant(3.0)))
    assert [output.device for output in outputs] == ["/device:CPU:1", "/device:CPU:5"]
    assert session8.run(outputs) == [3.0, 3.0]


def test_a_tower_that_nobody_placed_meets_alone_and_applies_gradients(session8):
    with TrainTowerContext(""):
        variable = tf.get_variable("v", [], initializer=tf.ones_initializer())
        assert get_tower_context().device == (list_gpus() or ["/device:CPU:0"])[0]
        output = get_tower_context().merge_call(lambda strategy, x: strategy.reduce(SUM, x), variable * 3.0)
        optimizer = DistributedOptimizer(tf.train.GradientDescentOptimizer(0.25))
        train_op = optimizer.minimize(variable**2, tf.train.get_or_create_global_step())
        with pytest.raises(GraphBuildError, match="expected a tf.compat.v1.train.Optimizer"):
            get_distribution_strategy().apply_gradients(None, [])
    assert started(session8).run(output) == 3.0
    session8.run(train_op)
    assert session8.run([variable, tf.train.get_global_step()]) == [0.5, 1]


def test_the_device_is_the_one_for_operations_where_a_function_places_variables(graph):
    with TrainTowerContext("", device=LeastLoadedDeviceSetter("/cpu:2", ["/cpu:7"])):
        assert get_tower_context().device == "/device:CPU:2"


def test_variables_can_be_colocated_and_read(session8):
    def tower():
        variable = tf.get_variable("v", [], initializer=tf.ones_initializer())
        with tf.device(None), get_distribution_strategy().colocate_vars_with(variable):
            slot = tf.get_variable("slot", [])
        return get_distribution_strategy().read_var(variable), slot

    outputs = build(tower)
    assert [slot.device for _, slot in outputs] == devices_of(4)
    assert started(session8).run([read for read, _ in outputs]) == [1.0] * 4


def test_devices_are_unknown_before_the_towers_meet(graph):
    with TrainTowerContext("", index=0, total=2), pytest.raises(StrategyError, match="known when they meet"):
        get_distribution_strategy().worker_devices.clear()


def test_what_the_trainer_does_is_refused(graph):
    strategy = TrainerTowersStrategy(2)
    with pytest.raises(StrategyError, match="the input of a trainer's towers is its InputSource"):
        strategy.distribute_dataset(lambda: tf.data.Dataset.range(2))
    with strategy.scope(), pytest.raises(StrategyError, match="their variables are made by the trainer"):
        tf.get_variable("v", [])
    with strategy.scope(), pytest.raises(StrategyError, match="a trainer builds its towers by itself"):
        strategy.call_for_each_tower(tf.no_op)


def test_sets_of_as_many_towers_share_a_strategy_and_others_do_not(graph):
    strategies = [build(get_distribution_strategy, k, own=False)[0] for k in (2, 3, 2)]
    assert strategies[0] is strategies[2] is not strategies[1]
    with tf.Graph().as_default():
        assert build(get_distribution_strategy, 2)[0] is not strategies[0]
