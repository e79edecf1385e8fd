"""The tower context of a single tower."""

import threading

import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.strategies import in_scope
from tpack.distribute.contexts import ReplicaContext, get_cross_tower_context, get_tower_context
from tpack.distribute.default_strategy import DEFAULT_STRATEGY, DEFAULT_TOWER_CONTEXT
from tpack.errors import StrategyError


def test_merge_call_runs_the_function_across_with_plain_values(graph):
    def merge(strategy, a, b, *, c):
        return strategy, get_cross_tower_context(), (a, b, c)

    assert DEFAULT_TOWER_CONTEXT.merge_call(merge, 1, 2, c=3) == (DEFAULT_STRATEGY, DEFAULT_STRATEGY, (1, 2, 3))


def test_merge_call_goes_back_to_the_tower_after_an_error(graph):
    def merge(strategy):
        raise KeyError

    with pytest.raises(KeyError):
        DEFAULT_TOWER_CONTEXT.merge_call(merge)
    assert get_tower_context() is DEFAULT_TOWER_CONTEXT


def test_it_knows_which_tower_this_is_and_where(graph):
    context = DEFAULT_TOWER_CONTEXT
    assert (context.tower_id, context.num_towers, context.is_single_tower) == (0, 1, True)
    assert context.distribution_strategy is DEFAULT_STRATEGY
    assert context.device == ""
    with tf.device("/cpu:3"):
        assert context.device == "/device:CPU:3"
    assert repr(context) == "tower 0 of <DefaultStrategy>"


@pytest.mark.parametrize("ask", ["tower_id", "is_single_tower", "device"])
def test_what_belongs_to_the_current_tower_is_told_in_it_only(graph, ask):
    with in_scope(), pytest.raises(StrategyError, match="need to be inside `call_for_each_tower"):
        getattr(DEFAULT_TOWER_CONTEXT, ask)


def test_merge_call_of_another_tower_is_an_error(graph):
    with in_scope(), pytest.raises(StrategyError, match="need to be inside `call_for_each_tower"):
        DEFAULT_TOWER_CONTEXT.merge_call(lambda strategy: None)


def test_threads_enter_and_leave_the_default_tower_by_themselves(graph):
    entered, left = threading.Event(), threading.Event()
    seen = []

    def other():
        with tf.Graph().as_default(), DEFAULT_STRATEGY.scope() as strategy:

            def tower():
                entered.set()
                assert left.wait(30)
                seen.append(get_tower_context())

            strategy.call_for_each_tower(tower)
            seen.append(get_tower_context())

    with DEFAULT_STRATEGY.scope() as strategy:
        thread = threading.Thread(target=other)

        def tower():
            thread.start()
            assert entered.wait(30)

        strategy.call_for_each_tower(tower)
        assert get_tower_context() is None
    left.set()
    thread.join()
    assert seen == [DEFAULT_TOWER_CONTEXT, None]


def test_as_a_block_it_is_current_and_can_be_nested(graph):
    with DEFAULT_STRATEGY.scope():
        context = ReplicaContext(DEFAULT_STRATEGY, tower_id=0)
        with context:
            with context as same:
                assert same is context
            assert get_tower_context() is context
        assert get_tower_context() is None
