"""What the base class of strategies does by itself. Where its methods may be called is in `test_contract`."""

import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.strategies import NONE, in_scope, mirrored
from tpack.distribute.current import DEFAULT_STRATEGY, get_cross_tower_context
from tpack.errors import ConfigError, StrategyError
from tpack.tower.context import TrainTowerContext


def enter(block):
    with block:
        return "entered"


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
