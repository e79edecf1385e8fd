"""Where shared variables are and how towers use them; training is in tests/train/test_strategy_builder.py."""

from typing import Any

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.device_values import MEAN, SUM, assert_mirrored, start
from tests.helpers.partition_graphs import placed_devices
from tests.helpers.tower_grads import cpu_devices
from tpack.distribute.contexts import get_tower_context
from tpack.distribute.strategies import ParameterServerStrategy
from tpack.distribute.values import PerDevice
from tpack.distribute.variables.replicated import MirroredVariable, TowerLocalVariable
from tpack.errors import ConfigError, StrategyError
from tpack.models.batch_norm import BatchNorm

K = 3
DEVICES = cpu_devices(K)


def _strategy(**options: Any) -> ParameterServerStrategy:
    return ParameterServerStrategy(devices=DEVICES, **options)


def _tower_id() -> int:
    context = get_tower_context()
    assert context is not None
    return context.tower_id


def test_variables_are_balanced_by_bytes_and_read_by_all_towers(session8: Any) -> None:
    strategy = _strategy(parameter_devices=["/cpu:6", "/cpu:7"])

    def tower() -> Any:
        ones = tf.ones_initializer()
        large, small, other = (tf.get_variable(n, s, initializer=ones) for n, s in [("l", [9]), ("s", [2]), ("o", [3])])
        return (large, small, other), tf.reduce_sum(large) + tf.reduce_sum(small) + _tower_id()

    with strategy.scope():
        variables, sums = strategy.call_for_each_tower(tower)
        assert [strategy.unwrap(v) for v in variables] == [[v] for v in variables]
    assert [v.device for v in variables] == ["/device:CPU:6", "/device:CPU:7", "/device:CPU:7"]
    assert [v.op.name for v in tf.global_variables()] == ["l", "s", "o"]
    assert isinstance(sums, PerDevice)
    parts = list(sums.index.values())
    assert start(session8).run(parts) == [11, 12, 13]
    placed = placed_devices(session8, parts)
    assert [placed[part.op.name] for part in parts] == DEVICES
    assert [placed[v.op.name] for v in variables[:2]] == ["/device:CPU:6", "/device:CPU:7"]


def test_each_graph_is_balanced_by_itself() -> None:
    strategy = _strategy(parameter_devices=["/cpu:6", "/cpu:7"])
    placed = []
    for _ in range(2):
        with tf.Graph().as_default(), strategy.scope():
            placed.append(tf.get_variable("v", [3]).device)
    assert placed == ["/device:CPU:6"] * 2


@pytest.mark.parametrize(
    ("options", "devices"),
    [
        ({"devices": ["/cpu:2"]}, ["/device:CPU:2"]),
        ({"devices": DEVICES}, ["/device:CPU:0"]),
        ({}, ["/device:CPU:0"]),
        ({"devices": DEVICES, "parameter_devices": ["/cpu:4"]}, ["/device:CPU:4"]),
    ],
)
def test_variables_are_by_default_on_the_one_device_or_the_cpu(options: Any, devices: list[str]) -> None:
    strategy = ParameterServerStrategy(**options)
    assert strategy.parameter_devices == devices
    assert strategy.is_single_tower == (len(strategy.worker_devices) == 1)
    assert all(name in repr(strategy) for name in (*strategy.worker_devices, *devices))


def test_variables_made_beside_others_are_there(graph: Any) -> None:
    strategy = _strategy(parameter_devices=["/cpu:6", "/cpu:7"])
    with strategy.scope():
        first, second = tf.get_variable("b", [1]), tf.get_variable("a", [1])
        with strategy.colocate_vars_with(second):
            beside = [tf.get_variable(f"c{n}", [1]) for n in range(2)]
        with strategy.colocate_vars_with(strategy.non_slot_devices([first, second])):
            beside.append(tf.get_variable("d", [1]))
        with strategy.colocate_vars_with("/cpu:1"):
            alone = tf.get_variable("e", [1])
    assert {v.device for v in beside} == {second.device} == {"/device:CPU:7"}
    assert alone.device == "/device:CPU:1"


@pytest.mark.parametrize(("aggregation", "wanted"), [(SUM, 1.0 + 2 + 3), (MEAN, 2.0)])
def test_towers_assign_to_a_variable_with_an_aggregation(aggregation: Any, wanted: float, session8: Any) -> None:
    strategy = _strategy(parameter_devices=["/cpu:6"])

    def tower() -> Any:
        total = tf.get_variable("total", [], initializer=tf.zeros_initializer(), aggregation=aggregation)
        return total, total.assign(tf.cast(_tower_id() + 1, tf.float32), read_value=False)

    with strategy.scope():
        total, assigned = strategy.call_for_each_tower(tower)
        assign = strategy.group(assigned)
    assert isinstance(total, MirroredVariable)
    assert total.devices == ["/device:CPU:6"]
    assert tf.global_variables() == [total] == tf.trainable_variables()
    start(session8).run(assign)
    assert session8.run(total) == wanted


@pytest.mark.parametrize(
    "change", [lambda v: tf.assign_add(v, 1.0), lambda v: v.assign(2.0), lambda v: v.assign_sub(1)]
)
def test_one_of_several_towers_cannot_change_what_they_share(change: Any, session8: Any) -> None:
    def tower() -> Any:
        return change(tf.get_variable("v", [], initializer=tf.zeros_initializer()))

    with (
        ParameterServerStrategy(devices=cpu_devices(2)).scope() as strategy,
        pytest.raises(StrategyError, match="changes v, which all towers share, in one of several"),
    ):
        strategy.call_for_each_tower(tower)
    with tf.Graph().as_default(), ParameterServerStrategy(devices=cpu_devices(1)).scope() as alone:
        assert alone.call_for_each_tower(tower) is not None


def test_optimizers_train_variables_with_an_aggregation(session8: Any) -> None:
    strategy = ParameterServerStrategy(devices=cpu_devices(2), parameter_devices=cpu_devices(4)[2:])
    optimizer = tf.train.MomentumOptimizer(0.5, 0.5)

    def tower() -> Any:
        options = {"initializer": tf.zeros_initializer(), "use_resource": True}
        shared = tf.get_variable("shared", [], aggregation=tf.VariableAggregation.MEAN, **options)
        plain = tf.get_variable("plain", [], **options)
        rows = tf.get_variable("rows", [3, 1], aggregation=tf.VariableAggregation.SUM, **options)
        number = get_tower_context().tower_id
        slope = tf.constant(1.0 + 2 * number)
        row = tf.IndexedSlices(tf.reshape(slope, [1, 1]), [number], [3, 1])
        return strategy.apply_gradients(optimizer, [(slope, shared), (slope, plain), (row, rows)])

    with strategy.scope():
        train_op = strategy.group(strategy.call_for_each_tower(tower))
    start(session8)
    for _ in range(2):
        session8.run(train_op)
    values = session8.run({variable.op.name: variable for variable in tf.global_variables()})
    np.testing.assert_allclose(values.pop("rows"), [[-0.625], [-1.875], [0]])
    np.testing.assert_allclose(values.pop("rows/Momentum"), [[0.75], [2.25], [0]])
    assert "ResourceSparseApplyMomentum" in {op.type for op in tf.get_default_graph().get_operations()}
    # The mean slope is 2, so the momentum is 2 and then 3, of which each step takes the half away.
    assert values == {"shared": -2.5, "plain": -2.5, "shared/Momentum": 3.0, "plain/Momentum": 3.0}


def test_variables_local_to_towers_have_a_part_on_each_device(session8: Any) -> None:
    strategy = _strategy(parameter_devices=["/cpu:6"])

    def tower() -> Any:
        count = tf.get_variable(
            "count",
            [],
            initializer=tf.zeros_initializer(),
            synchronization=tf.VariableSynchronization.ON_READ,
            aggregation=SUM,
        )
        return count, count.assign_add(tf.cast(_tower_id() + 1, tf.float32))

    with strategy.scope():
        count, added = strategy.call_for_each_tower(tower)
        total = strategy.read_var(count)
        parts = strategy.unwrap(added)
    assert isinstance(count, TowerLocalVariable)
    assert count.devices == DEVICES
    assert start(session8).run(parts) == [1, 2, 3]
    assert session8.run(total) == 6


def test_updates_run_where_the_variable_is(session8: Any) -> None:
    strategy = _strategy(parameter_devices=["/cpu:6"])
    with strategy.scope():
        variable = tf.get_variable("v", [], initializer=tf.zeros_initializer())
        per_tower = strategy.call_for_each_tower(lambda: tf.constant(1.0) * (_tower_id() + 1))
        total = strategy.reduce(SUM, per_tower, variable)
        update = strategy.update(variable, lambda v, delta: v.assign_add(delta, read_value=False), total)
        count = strategy.update_non_slot(strategy.non_slot_devices([variable]), lambda: tf.constant(1.0) + 1)
        copies = strategy.broadcast(3.0)
    start(session8)
    assert_mirrored(session8, total, 6, ["/device:CPU:6"])
    assert_mirrored(session8, copies, 3, DEVICES)
    session8.run(update)
    assert session8.run(variable) == 6
    assert count.device == "/device:CPU:6"


def test_moving_averages_are_those_of_all_towers(session8: Any) -> None:
    strategy = _strategy()

    def tower() -> Any:
        x = tf.constant(np.float32([[1.0], [3.0]]) + 10 * _tower_id())
        return BatchNorm("bn", x, momentum=0.5)

    with strategy.scope():
        strategy.call_for_each_tower(tower)
        updates = tf.get_collection(tf.GraphKeys.UPDATE_OPS)
    (mean,) = [v for v in tf.global_variables() if v.op.name.endswith("mean/EMA")]
    start(session8).run(updates)
    assert len(updates) == 2 * K
    np.testing.assert_allclose(session8.run(mean), [0.5 * (2 + 12 + 22) / K])


def test_datasets_are_dealt_out(session8: Any) -> None:
    strategy = _strategy()
    with strategy.scope():
        iterator = strategy.distribute_dataset(lambda: tf.data.Dataset.range(6)).make_one_shot_iterator()
        doubled = strategy.unwrap(strategy.call_for_each_tower(lambda x: 2 * x, iterator.get_next()))
    assert [session8.run(doubled), session8.run(doubled)] == [[0, 2, 4], [6, 8, 10]]


def test_arguments_are_checked() -> None:
    with pytest.raises(ConfigError, match="got devices=.*: expected one of them"):
        ParameterServerStrategy(2, devices=DEVICES)
    with pytest.raises(ConfigError, match="got devices with 0 entries"):
        _strategy(parameter_devices=[])
