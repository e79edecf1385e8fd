"""Where each method of a strategy may be called, and what the base class does by itself."""

import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.strategies import NONE, SUM, in_scope, mirrored
from tpack.distribute.context import get_cross_tower_context, get_tower_context
from tpack.distribute.default import DEFAULT_STRATEGY
from tpack.errors import ConfigError, StrategyError
from tpack.tower.tower_kinds import TrainTowerContext


def enter(block):
    with block:
        return "entered"


def identity(*values):
    return values


# What the table of the seed says may be done in a cross-tower context only.
ACROSS = {
    "broadcast": lambda s: s.broadcast(1.0),
    "call_for_each_tower": lambda s: s.call_for_each_tower(identity),
    "reduce": lambda s: s.reduce(SUM, 1.0),
    "batch_reduce": lambda s: s.batch_reduce(SUM, [(1.0, None)]),
    "update": lambda s: s.update(tf.Variable(1.0, use_resource=True), identity),
    "update_non_slot": lambda s: s.update_non_slot(s.worker_devices, identity),
    "unwrap": lambda s: s.unwrap(1.0),
    "group": lambda s: s.group(tf.no_op()),
    "worker_device_index": lambda s: s.worker_device_index,
    "scope": lambda s: enter(s.scope()),
    "distribute_dataset": lambda s: s.distribute_dataset(lambda: tf.data.Dataset.range(4)),
}
# And what may be done in a tower as well.
ANYWHERE_IN_SCOPE = {
    "colocate_vars_with": lambda s: enter(s.colocate_vars_with(s.worker_devices)),
    "get_variable": lambda s: tf.get_variable("v", []),
    "read_var": lambda s: s.read_var(tf.constant(1.0)),
    "non_slot_devices": lambda s: s.non_slot_devices([]),
    "num_towers": lambda s: s.num_towers,
    "worker_devices": lambda s: s.worker_devices,
    "parameter_devices": lambda s: s.parameter_devices,
}


@pytest.mark.parametrize("method", ACROSS)
def test_methods_across_towers_work_across_towers(graph, method):
    with in_scope() as strategy:
        assert ACROSS[method](strategy) is not None


@pytest.mark.parametrize("method", ACROSS)
def test_methods_across_towers_are_errors_in_a_tower(graph, method):
    def tower():
        with pytest.raises(StrategyError, match=r"requires being in cross-tower context.*merge_call\(\)"):
            ACROSS[method](get_tower_context().distribution_strategy)

    with in_scope() as strategy:
        strategy.call_for_each_tower(tower)


@pytest.mark.parametrize("method", sorted(ACROSS.keys() - {"scope", "distribute_dataset"}))
def test_methods_across_towers_are_errors_outside_and_where_another_strategy_is_current(graph, method):
    with pytest.raises(StrategyError, match='need to be inside "with distribution_strategy.scope'):
        ACROSS[method](mirrored())
    with in_scope(), pytest.raises(StrategyError, match="mixing different DistributionStrategy objects"):
        ACROSS[method](mirrored(3))


@pytest.mark.parametrize("method", ANYWHERE_IN_SCOPE)
def test_other_methods_work_in_both_contexts(graph, method):
    with in_scope() as strategy:
        assert ANYWHERE_IN_SCOPE[method](strategy) is not None
        with tf.variable_scope("in_towers"):
            found = strategy.call_for_each_tower(
                lambda: ANYWHERE_IN_SCOPE[method](get_tower_context().distribution_strategy)
            )
        assert found is not None


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
def test_only_sums_and_means_are_reductions(graph, aggregation):
    with in_scope() as strategy:
        for call in (strategy.reduce, lambda a, v: strategy.batch_reduce(a, [(v, None)])):
            with pytest.raises(ConfigError, match="wanted tf.VariableAggregation.SUM or .* as the aggregation"):
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
