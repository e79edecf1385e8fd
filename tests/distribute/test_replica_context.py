"""Towers that meet: what the merging function gets, and what each tower gets back."""

import functools

import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.strategies import SUM, devices_of, in_scope, tower_number, values
from tpack.distribute.contexts import get_cross_tower_context, get_tower_context
from tpack.distribute.values import Mirrored, PerDevice
from tpack.errors import StrategyError, TowerError, TowerMismatchError
from tpack.graph_builder.towers import build_towers
from tpack.tower.context import get_current_tower_context


def run_before(operation):
    """Return all operations that one runs after."""
    direct = operation.control_inputs
    return {*direct, *(other for each in direct for other in run_before(each))}


def test_the_function_gets_values_of_all_towers_once(graph):
    calls, same = [], object()

    def merge(strategy, number, thing, *, pair):
        calls.append((strategy, number.index, thing, pair))
        assert get_cross_tower_context() is strategy
        assert get_current_tower_context() is None

    def tower():
        number = get_tower_context().tower_id
        assert get_tower_context().merge_call(merge, number, same, pair=(number, "x")) is None

    with in_scope(3) as strategy:
        strategy.call_for_each_tower(tower)
    numbers = dict(zip(devices_of(3), range(3), strict=True))
    ((merging, number, thing, pair),) = calls
    assert (merging, number, thing) == (strategy, numbers, same)
    assert (pair[0].index, pair[1]) == (numbers, "x")


def test_each_tower_gets_its_part_of_the_result(graph):
    def merge(strategy, value):
        devices = strategy.worker_devices
        return {
            "own": PerDevice({device: f"own {device}" for device in devices}),
            "mirrored": [Mirrored(dict.fromkeys(devices, "same"))],
            "plain": (7, None),
        }

    def tower():
        got = get_tower_context().merge_call(merge, 1)
        return got == {"own": f"own {get_tower_context().device}", "mirrored": ["same"], "plain": (7, None)}

    with in_scope(3) as strategy:
        assert strategy.unwrap(strategy.call_for_each_tower(tower)) == [True]


def test_tensors_of_other_towers_can_be_used_after_meeting(session8):
    def tower():
        x = tower_number()
        total = get_tower_context().merge_call(lambda strategy, x: strategy.reduce(SUM, x), x)
        return total * 10 + x

    with in_scope(4) as strategy:
        results = strategy.call_for_each_tower(tower)
        assert [part.device for part in strategy.unwrap(results)] == devices_of(4)
    assert values(session8, results) == [101.0, 102.0, 103.0, 104.0]


def test_the_example_of_the_seed(session8):
    def merge(strategy, three_plus_tower_id):
        return sum(strategy.unwrap(three_plus_tower_id))

    def tower(three):
        context = get_tower_context()
        v = three + context.tower_id
        return context.merge_call(merge, v) + v

    with in_scope(3) as strategy:
        assert strategy.unwrap(strategy.call_for_each_tower(tower, 3)) == [15, 16, 17]


def test_what_merges_is_built_on_no_device_of_towers_and_after_what_they_depend_on(graph):
    def merge(strategy):
        return tf.no_op(name="merged")

    def tower():
        with tf.name_scope("inside"), tf.control_dependencies([tf.no_op(name="before")]):
            return get_tower_context().merge_call(merge)

    with in_scope() as strategy:
        operation = strategy.call_for_each_tower(tower)
    assert (operation.name, operation.device) == ("inside/merged", "")
    assert len(operation.control_inputs) == 1
    before = run_before(operation)
    assert {"inside/before", "tower1/inside/before"} <= {op.name for op in before}
    assert {op.device for op in before if op.name.endswith("tower_meets")} == set(devices_of(2))


def test_what_merges_is_in_the_first_towers_name_scope_and_in_the_variable_scope_around_the_call(graph):
    def merge(strategy):
        return tf.Variable(1.0, name="a"), tf.get_variable("b", initializer=1.0), tf.get_variable_scope().name

    def tower():
        # Only of the name scope do towers see something where they meet, and of that the first one's.
        with tf.variable_scope("own"), tf.name_scope(f"tower_{get_tower_context().tower_id}"):
            return get_tower_context().merge_call(merge)

    with in_scope() as strategy, tf.name_scope("main"), tf.variable_scope("around", auxiliary_name_scope=False):
        variable, found, scope = strategy.call_for_each_tower(tower)
        again = strategy.call_for_each_tower(tower)[1]
    assert (variable.op.name, variable.components[1].op.name) == ("main/own/tower_0/a", "main/own/tower_0/a/replica_1")
    assert (found.op.name, found.components[1].op.name, scope) == ("around/b", "around/b/replica_1", "around")
    assert again is found


def test_nothing_is_added_where_towers_depend_on_nothing(graph):
    with in_scope() as strategy:
        operation = strategy.call_for_each_tower(lambda: get_tower_context().merge_call(lambda _: tf.no_op()))
    assert [op.name for op in graph.get_operations()] == [operation.name]


def test_towers_must_meet_with_the_same_function_and_the_message_names_it(graph):
    def first(strategy, x):
        return None

    def second(strategy, x):
        return None

    def tower():
        context = get_tower_context()
        return context.merge_call([first, second][context.tower_id], 1)

    with in_scope() as strategy, pytest.raises(TowerMismatchError, match=r"first of .* with 1 arg.*second of"):
        strategy.call_for_each_tower(tower)


def test_partial_functions_and_methods_can_merge(graph):
    class Merging:
        def merge(self, strategy, offset, x):
            return offset

    def merge(offset, strategy, x):
        return x

    def tower():
        context = get_tower_context()
        x = context.merge_call(functools.partial(merge, 5), context.tower_id)
        return x, context.merge_call(Merging().merge, "offset", x)

    with in_scope() as strategy:
        numbers, offset = strategy.call_for_each_tower(tower)
        assert (strategy.unwrap(numbers), offset) == ([0, 1], "offset")


@pytest.mark.parametrize(("first", "second"), [(1, 2), (2, 1), (0, 1), (1, 0)])
def test_towers_must_meet_equally_often(graph, first, second):
    def tower():
        context = get_tower_context()
        for _ in range([first, second][context.tower_id]):
            context.merge_call(lambda strategy: None)

    with (
        in_scope() as strategy,
        pytest.raises(TowerMismatchError, match="towers call merge_call different numbers of times"),
    ):
        strategy.call_for_each_tower(tower)


def test_different_keywords_are_an_error(graph):
    def tower():
        context = get_tower_context()
        context.merge_call(lambda strategy, **kwargs: None, **{["a", "b"][context.tower_id]: 1})

    with in_scope() as strategy, pytest.raises(TowerMismatchError, match="the same structure on all devices"):
        strategy.call_for_each_tower(tower)


def test_towers_on_one_device_cannot_meet(graph):
    def tower():
        return get_tower_context().merge_call(lambda strategy: None)

    with pytest.raises(StrategyError, match="merge_call got towers on .*: expected different devices"):
        build_towers(tower, ["/cpu:0"] * 2, [True] * 2)


def test_meeting_in_a_condition_is_an_error(graph):
    def tower():
        return tf.cond(tf.constant(True), lambda: get_tower_context().merge_call(lambda strategy: None), lambda: None)

    with in_scope() as strategy, pytest.raises(TowerError, match="in a TensorFlow loop, condition"):
        strategy.call_for_each_tower(tower)


def test_a_tower_s_context_cannot_be_used_by_another_or_later(graph):
    contexts = []

    def tower():
        contexts.append(get_tower_context())
        if contexts[1:]:
            with pytest.raises(StrategyError, match="mismatching tower context"):
                contexts[0].merge_call(lambda strategy: None)

    with in_scope() as strategy:
        strategy.call_for_each_tower(tower)
        for ask in ("device", "tower_id", "is_single_tower"):
            with pytest.raises(StrategyError, match="need to be inside `call_for_each_tower"):
                getattr(contexts[0], ask)
        with pytest.raises(StrategyError, match="need to be inside `call_for_each_tower"):
            contexts[0].merge_call(lambda strategy: None)
    assert repr(contexts[1]).startswith("tower 1 of <MirroredStrategy on /device:CPU:0")
