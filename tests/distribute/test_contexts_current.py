"""What is current: strategy, tower context, cross-tower context, through all four steps that the seed counts."""

import threading

import tensorflow.compat.v1 as tf

from tests.helpers.strategies import in_scope, mirrored
from tpack.distribute.contexts import (
    get_cross_tower_context,
    get_distribution_strategy,
    get_tower_context,
    has_distribution_strategy,
)
from tpack.distribute.default_strategy import DEFAULT_STRATEGY, DEFAULT_TOWER_CONTEXT
from tpack.tower.context import PredictTowerContext, TrainTowerContext, get_current_tower_context


def current():
    return get_tower_context(), get_cross_tower_context(), get_distribution_strategy(), has_distribution_strategy()


DEFAULT = (DEFAULT_TOWER_CONTEXT, None, DEFAULT_STRATEGY, False)


def test_the_default_tower_is_where_everything_starts(graph):
    assert current() == DEFAULT


def test_scope_tower_and_merge_call_switch_and_switch_back(graph):
    strategy = mirrored()
    seen = []

    def merge(merging):
        assert merging is strategy
        seen.append(current())

    def tower():
        context = get_tower_context()
        assert current() == (context, None, strategy, True)
        assert get_current_tower_context().index == context.tower_id
        context.merge_call(merge)
        assert current() == (context, None, strategy, True)
        seen.append(context.tower_id)

    across = (None, strategy, strategy, True)
    with strategy.scope():
        assert current() == across
        strategy.call_for_each_tower(tower)
        assert current() == across
    assert seen == [across, 0, 1]
    assert current() == DEFAULT


def test_the_default_strategy_can_go_across_its_one_tower_at_once(graph):
    def merge(strategy):
        return current()

    assert DEFAULT_TOWER_CONTEXT.merge_call(merge) == (None, DEFAULT_STRATEGY, DEFAULT_STRATEGY, False)
    with DEFAULT_STRATEGY.scope() as strategy:
        assert current() == (None, DEFAULT_STRATEGY, DEFAULT_STRATEGY, False)
        assert strategy.call_for_each_tower(current) == DEFAULT
    assert current() == DEFAULT


def test_from_merge_call_one_can_call_for_each_tower_again(graph):
    strategy = mirrored()
    seen = []

    def inner():
        context = get_tower_context()
        context.merge_call(lambda merging: seen.append(("inner", merging, get_cross_tower_context())))
        return context.tower_id

    def merge(merging):
        numbers = merging.call_for_each_tower(inner)
        seen.append(("outer", merging.unwrap(numbers), get_cross_tower_context()))

    with strategy.scope():
        strategy.call_for_each_tower(lambda: get_tower_context().merge_call(merge))
    assert seen == [("inner", strategy, strategy), ("outer", [0, 1], strategy)]


def test_what_is_current_belongs_to_the_graph_and_the_thread(graph):
    seen = []

    def look():
        with graph.as_default():
            seen.append(current())

    with in_scope() as strategy:
        with tf.Graph().as_default():
            assert current() == DEFAULT
        thread = threading.Thread(target=look)
        thread.start()
        thread.join()
        assert get_cross_tower_context() is strategy
    assert seen == [DEFAULT]


def test_the_body_of_a_function_or_condition_is_where_its_graph_is(graph):
    strategy = mirrored()
    seen = []

    def look():
        seen.append(get_distribution_strategy())
        return tf.constant(1)

    with strategy.scope():
        tf.cond(tf.constant(True), look, look)
        tf.compat.v2.function(look)()
    assert seen == [strategy] * 3


def test_a_trainer_s_tower_is_a_tower_context(graph):
    with TrainTowerContext("", index=0, total=1):
        context = get_tower_context()
        assert context is get_tower_context()
        assert current() == (context, None, context.distribution_strategy, True)
        assert (context.tower_id, context.num_towers, context.is_single_tower) == (0, 1, True)
    with PredictTowerContext("other", index=3, total=8):
        assert get_tower_context() is not context
        assert (get_tower_context().tower_id, get_tower_context().num_towers) == (0, 1)
    assert current() == DEFAULT


def test_an_error_leaves_nothing_behind(graph):
    strategy = mirrored()

    def fail():
        raise KeyError

    for call in (
        lambda: strategy.call_for_each_tower(fail),
        lambda: strategy.call_for_each_tower(lambda: get_tower_context().merge_call(lambda _: fail())),
    ):
        try:
            with strategy.scope():
                call()
        except KeyError:
            assert current() == DEFAULT
        else:
            raise AssertionError("the error was lost")
