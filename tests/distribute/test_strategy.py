"""What the base class of strategies does by itself, and what a strategy has to implement.

Where its methods may be called is in `test_contract`.
"""

import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.strategies import FIRST, MEAN, NONE, SUM, in_scope, mirrored, tower_number, values
from tpack.distribute.contexts import get_cross_tower_context
from tpack.distribute.default_strategy import DEFAULT_STRATEGY
from tpack.distribute.strategies import OneDeviceStrategy
from tpack.distribute.strategy import DistributionStrategy
from tpack.errors import ConfigError, StrategyError, WrongTypeError
from tpack.tower.context import TrainTowerContext


def enter(block):
    with block:
        return "entered"


def identity(*values):
    return values


def test_colocation_needs_a_scope(graph):
    with pytest.raises(StrategyError, match="need to be inside"):
        enter(mirrored().colocate_vars_with("/cpu:0"))


def test_scopes_of_one_strategy_can_be_nested_and_those_of_two_not(graph):
    with in_scope() as strategy:
        with strategy.scope() as same:
            assert same is get_cross_tower_context() is strategy
        assert get_cross_tower_context() is strategy
        with pytest.raises(StrategyError, match="mixing different DistributionStrategy objects"):
            enter(mirrored(3).scope())


def test_a_scope_in_a_trainer_s_tower_is_an_error(graph):
    with TrainTowerContext(""), pytest.raises(StrategyError, match="mixing different DistributionStrategy objects"):
        enter(mirrored().scope())


@pytest.mark.parametrize("aggregation", [NONE, "sum", None])
def test_only_sums_means_and_first_values_are_reductions(graph, aggregation):
    with in_scope() as strategy:
        for call in (strategy.reduce, lambda a, v: strategy.batch_reduce(a, [(v, None)])):
            with pytest.raises(ConfigError, match="aggregation got .*: expected tf.VariableAggregation.SUM or"):
                call(aggregation, 1.0)


def test_group_returns_a_single_operation_as_it_is(graph):
    operation, tensor = tf.no_op(), tf.constant(1.0)
    with DEFAULT_STRATEGY.scope() as strategy:
        assert strategy.group(operation) is operation
        assert strategy.group(tensor) is tensor.op
        assert strategy.group(operation, name="named").name == "named"
    with in_scope() as strategy:
        both = strategy.call_for_each_tower(tf.no_op)
        assert len(strategy.group(both).control_inputs) == 2


def test_group_takes_structures_of_values(graph):
    with in_scope() as strategy:
        made = strategy.call_for_each_tower(lambda: (tf.no_op(), {"x": tf.constant(1.0)}))
        grouped = strategy.group(made, name="all")
        wanted = [*strategy.unwrap(made[0]), *(part.op for part in strategy.unwrap(made[1]["x"]))]
    assert {op for each in grouped.control_inputs for op in each.control_inputs} == set(wanted)


def test_run_concurrently_is_not_passed_on(graph):
    with in_scope() as strategy:
        assert strategy.call_for_each_tower(lambda **kwargs: len(kwargs), run_concurrently=True, other=1) == 1


def test_batch_reduce_reduces_one_by_one(graph):
    class Doubling(DistributionStrategy):
        def _reduce(self, aggregation, value, destinations):
            return aggregation, 2 * value, destinations

    assert Doubling()._batch_reduce(MEAN, [(1, "a"), (2, "b")]) == [(MEAN, 2, "a"), (MEAN, 4, "b")]


def test_a_strategy_of_one_tower_says_so():
    class Several(DistributionStrategy):
        num_towers = 2

    assert not Several().is_single_tower
    assert not Several.is_default


def test_a_dataset_is_required_of_a_dataset_function(graph):
    dataset = tf.data.Dataset.range(3)
    assert DistributionStrategy()._call_dataset_fn(lambda: dataset) is dataset
    with pytest.raises(ConfigError, match="dataset_fn returned 3: expected a tf.data.Dataset"):
        DistributionStrategy()._call_dataset_fn(lambda: 3)


def test_configure_does_nothing_by_itself(graph):
    assert DEFAULT_STRATEGY.configure(tf.ConfigProto(), cluster_spec=None) is None


@pytest.mark.parametrize("given", [{"cluster_spec": {"worker": ["a:1"]}}, {"task_type": "worker"}, {"task_id": 1}])
def test_a_strategy_is_of_one_process(graph, given):
    with pytest.raises(ConfigError, match=f"got {next(iter(given))}=.*: expected None, as it has one process"):
        mirrored().configure(**given)
    assert not mirrored().between_graph
    assert mirrored().should_init and mirrored().should_checkpoint and mirrored().should_save_summary
    assert mirrored().initialize() == mirrored().finalize() == []


def test_a_session_config_is_one(graph):
    with pytest.raises(WrongTypeError, match="MirroredStrategy got session_config=5: expected a ConfigProto"):
        mirrored().configure(5)


@pytest.mark.parametrize("strategy", [DEFAULT_STRATEGY, OneDeviceStrategy("/cpu:0"), mirrored()], ids=repr)
def test_the_first_tower_s_value_is_an_aggregation(session8, strategy):
    with strategy.scope():
        each = strategy.call_for_each_tower(tower_number)
        alone = strategy.reduce(FIRST, each, None if strategy.is_default else "/cpu:0")
        pairs = [(each, None), (7.0, None)]
        several = [strategy.unwrap(value) for value in strategy.batch_reduce(FIRST, pairs)]
    assert values(session8, alone) == [1]
    counts = [set(session8.run([tf.convert_to_tensor(part) for part in parts])) for parts in several]
    assert counts == [{1}, {7}]


def test_the_container_of_a_component_is_the_variable(graph):
    with in_scope() as strategy:
        variable = tf.get_variable("v", [])
    assert strategy.value_container(variable.components[1]) is variable
    assert strategy.value_container(variable) is variable
    assert strategy.value_container(5) == 5


def test_a_function_of_a_dataset_is_one(graph):
    with pytest.raises(WrongTypeError, match="got dataset_fn=5: expected a function"):
        mirrored().distribute_dataset(5)


def test_what_a_strategy_has_to_implement_is_not_implemented(graph):
    bare = DistributionStrategy()
    calls = [
        lambda: bare.broadcast(1),
        lambda: bare.call_for_each_tower(identity),
        lambda: bare.reduce(SUM, 1),
        lambda: bare.update(1, identity),
        lambda: bare.update_non_slot(1, identity),
        lambda: bare.worker_device_index,
        lambda: bare.distribute_dataset(list),
        lambda: bare.run_steps_on_dataset(list, None),
        lambda: bare.read_var(1),
        lambda: bare.non_slot_devices([]),
        lambda: bare.num_towers,
        lambda: bare.worker_devices,
        lambda: bare.parameter_devices,
        lambda: tf.get_variable("v", []),
    ]
    with bare.scope():
        for call in calls:
            with pytest.raises(NotImplementedError):
                call()
    assert repr(bare) == "<DistributionStrategy>"
