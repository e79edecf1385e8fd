"""Towers that meet: order, scopes, collections and names as if they had been built one after the other."""

import contextvars
import threading
import traceback

import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.builders import make_towers
from tpack.errors import ConfigError, TowerError, TowerMismatchError
from tpack.tower.context import (
    Frame,
    TrainTowerContext,
    current_frame,
    current_tower_context,
    entered,
    get_current_tower_context,
)
from tpack.tower.tower_threads import CoroutineExit, call_in_towers

KEYS = tf.GraphKeys
VARIABLE = contextvars.ContextVar("VARIABLE", default="unset")


def run(num_towers, func, *, own_variables=True):
    return call_in_towers(make_towers(num_towers, own_variables=own_variables), func)


def index():
    return current_tower_context().index


def merge(fn, *args):
    return current_tower_context().merge_call(fn, *args)


def same(values):
    return values


def names(items):
    return [item.op.name for item in items]


@pytest.fixture(autouse=True)
def no_thread_left():
    before = set(threading.enumerate())
    yield
    assert set(threading.enumerate()) - before == set()


# What is merged, and when.


def test_towers_that_do_not_meet_are_built_by_the_calling_thread(graph):
    threads = run(3, threading.current_thread)
    assert threads == [threading.current_thread()] * 3


@pytest.mark.parametrize("own_variables", [False, True])
def test_each_tower_gets_its_own_result_of_what_all_brought(graph, own_variables):
    calls = []

    def func():
        def fn(xs, ys):
            calls.append((xs, ys))
            return [x + y for x, y in zip(xs, reversed(ys), strict=True)]

        return [merge(fn, index(), 10 * index()), merge(same, f"second {index()}")]

    assert run(3, func, own_variables=own_variables) == [[20, "second 0"], [11, "second 1"], [2, "second 2"]]
    assert calls == [([0, 1, 2], [0, 10, 20])]


def test_towers_are_built_in_one_order_by_one_thread_at_a_time(graph):
    order = []

    def func():
        for part in range(3):
            order.append((part, index()))
            merge(lambda: order.append("merge"))
        order.append((3, index()))

    run(4, func)
    expected = [[*((part, k) for k in range(4)), "merge"] for part in range(3)]
    assert order == [*sum(expected, []), *((3, k) for k in range(4))]


def test_two_builds_give_the_same_graph():
    def build():
        with tf.Graph().as_default() as graph:
            run(4, model(merging=True))
            return graph.as_graph_def()

    assert build() == build()


def test_a_list_of_towers_that_is_not_complete_is_an_error(graph):
    for towers in ([], make_towers(2, own_variables=True)[:1], make_towers(2, own_variables=True)[::-1]):
        with pytest.raises(ConfigError, match="expected all towers in the order of their indices"):
            call_in_towers(towers, index)


# The same as one after the other.


def model(*, merging):
    """Return a tower function that uses most of what a thread of its own could lose."""

    def meet(value):
        return merge(same, value) if merging else value

    def func():
        with tf.variable_scope("a", custom_getter=lambda getter, name, **kwargs: getter(name, **kwargs)):
            w = tf.get_variable("w", [2], initializer=tf.ones_initializer())
            x = meet(w * 2)
            with tf.variable_scope(None, default_name="unnamed"):
                meet(1)
                x += tf.get_variable("v", [2], initializer=tf.ones_initializer())
        with tf.variable_scope(None, default_name="unnamed"):
            x = meet(x) * tf.get_variable("v", [2], initializer=tf.ones_initializer())
        with tf.name_scope("scope"), tf.control_dependencies([meet(tf.no_op())]):
            x = tf.identity(x)
        with tf.device("/device:CPU:7"), tf.get_default_graph().colocate_with(w):
            x = meet(x) + 1
        tf.add_to_collection(KEYS.UPDATE_OPS, tf.identity(x, name="update"))
        tf.losses.add_loss(meet(tf.reduce_sum(x)))
        tf.summary.scalar("s", tf.reduce_sum(x))
        tf.add_to_collection("things", meet(x))
        assert len(tf.get_collection(KEYS.LOSSES)) == 1
        (gradient,) = tf.gradients(tf.losses.get_losses()[0], [w])
        return meet(gradient)

    return func


def collections_of(graph):
    found = {key: graph.get_collection(key) for key in graph.get_all_collection_keys() if isinstance(key, str)}
    return {key: [getattr(item, "name", item) for item in items] for key, items in found.items()}


@pytest.mark.parametrize("own_variables", [False, True])
def test_graph_variables_and_collections_are_those_of_sequential_building(own_variables):
    built = []
    for merging in (False, True):
        with tf.Graph().as_default() as graph:
            tf.add_to_collection(KEYS.LOSSES, tf.constant(0.0, name="before"))
            tf.get_variable("before_all", [])
            towers = make_towers(4, own_variables=own_variables)
            with tf.name_scope("outer"), tf.variable_scope("unnamed", auxiliary_name_scope=False):
                call_in_towers(towers, model(merging=merging))
            parts = [[names(t.get_collection_in_tower(KEYS.TRAINABLE_VARIABLES)) for t in towers]]
            parts += [[names(t.get_collection_in_tower(key)) for t in towers] for key in ("things", KEYS.UPDATE_OPS)]
            parts += [[names(t.recorder.variables) for t in towers]]
            nodes = {node.name: node for node in graph.as_graph_def().node}
            built.append((nodes, collections_of(graph), parts))
    (nodes, collections, parts), (met_nodes, met_collections, met_parts) = built
    assert met_nodes == nodes
    assert met_collections == collections
    assert met_parts == parts
    assert "unnamed/a/unnamed/v" in nodes
    assert len(collections["things"]) == 4


def test_shared_variables_are_seen_by_later_towers_before_the_first_is_done(graph):
    def func():
        first = tf.get_variable("first", [])
        merge(same, 1)
        seen = names(current_tower_context().get_collection_in_tower(KEYS.TRAINABLE_VARIABLES))
        second = tf.get_variable("second", [])
        return first, second, seen, names(tf.trainable_variables())

    outputs = run(3, func, own_variables=False)
    assert all(output[:2] == outputs[0][:2] for output in outputs)
    assert [output[2] for output in outputs] == [["first"], ["first", "second"], ["first", "second"]]
    assert [output[3] for output in outputs] == [["first", "second"]] * 3
    assert names(tf.global_variables()) == ["first", "second"]


def test_a_frozen_collection_stays_frozen_in_every_tower(graph):
    def func():
        before = list(tf.trainable_variables())
        tf.get_variable("frozen", [])
        merge(same, 1)
        tf.get_collection_ref(KEYS.TRAINABLE_VARIABLES)[:] = before
        tf.get_variable("trained", [])
        return names(current_tower_context().get_collection_in_tower(KEYS.TRAINABLE_VARIABLES))

    assert run(3, func, own_variables=False) == [["trained"]] * 3
    assert names(tf.trainable_variables()) == ["trained"]


def test_what_surrounds_the_towers_is_carried_into_each(session8):
    graph = tf.get_default_graph()
    seen = []

    def func():
        merge(same, 1)
        seen.append((tf.get_default_session(), VARIABLE.get(), tf.get_variable_scope().name, graph.get_name_scope()))
        return tf.get_variable("v", []), tf.constant(0, name="c")

    token = VARIABLE.set("outside")
    getters = []

    def creator(next_creator, **kwargs):
        getters.append(kwargs["name"])
        return next_creator(**kwargs)

    with tf.variable_scope("vs"), tf.variable_creator_scope(creator), tf.control_dependencies([tf.no_op("first")]):
        outputs = run(2, func, own_variables=False)
        assert VARIABLE.get() == "outside"
    VARIABLE.reset(token)
    assert seen == [(session8, "outside", "vs", f"tower{k}") for k in range(2)]
    assert [names(output) for output in outputs] == [["vs/v", "tower0/c"], ["vs/v", "tower1/c"]]
    assert [names(c.op.control_inputs[0].outputs) for _, c in outputs] == [[], []]
    assert [c.op.control_inputs[0].name for _, c in outputs] == ["vs/first"] * 2
    assert getters == ["vs/v"]


def test_blocks_that_the_graph_keeps_for_all_threads_belong_to_the_tower_that_opened_them(graph):
    tf.RegisterGradient("TogetherTest")(lambda op, grad: grad * 7)
    inside, outside = [], []

    def func():
        x = tf.constant(1.0)
        with graph.gradient_override_map({"Square": "TogetherTest"} if index() == 0 else {}):
            with graph.container(f"container{index()}"):
                outside.append(merge(lambda: outside.append(graph._container)))
            y = tf.square(x)
        with graph.container(f"again{index()}"):
            merge(same, 1)
            inside.append(graph._container)
        return y.op.node_def.attr["_gradient_op_type"].s

    with graph.container("around"):
        assert run(3, func) == [b"TogetherTest", b"", b""]
        assert graph._container == "around"
    assert inside == ["again0", "again1", "again2"]
    assert outside == ["around", None, None, None]


def test_graph_is_made_thread_local_where_version_1_behaviour_shares_it(graph, monkeypatch):
    # As TensorFlow makes its graphs after tf.disable_v2_behavior.
    monkeypatch.setattr(graph, "_stack_state_is_thread_local", False)
    monkeypatch.setattr(graph, "_thread_local", threading.local())

    def func():
        with tf.device("/device:CPU:5"):
            merge(same, 1)
            return tf.constant(0).device, tf.get_variable("v", []).device

    with tf.device("/device:CPU:6"):
        assert run(2, func) == [("/device:CPU:5",) * 2] * 2
        assert tf.constant(0).device == "/device:CPU:6"


# The function of a merge_call is outside of every tower.


def test_the_function_is_outside_and_what_it_adds_belongs_to_all(graph):
    def fn(losses):
        assert get_current_tower_context() is None
        assert names(tf.trainable_variables()) == ["w"]
        assert names(tf.get_collection("things")) == ["tower0/thing", "tower1/thing", "tower2/thing"]
        shared = tf.get_variable("shared", [], trainable=False)
        tf.summary.scalar("mean", tf.add_n(losses, name="sum"))
        tf.add_to_collection("things", tf.constant(0, name="of_all"))
        return [shared] * len(losses)

    def func():
        w = tf.get_variable("w", [])
        tf.add_to_collection("things", tf.constant(0, name="thing"))
        placed = tf.device("/device:CPU:6"), graph.colocate_with(w)
        with placed[0], tf.name_scope("inner"), tf.control_dependencies([tf.no_op()]), placed[1]:
            shared = merge(fn, tf.identity(w))
        merge(same, 1)
        return shared, names(tf.get_collection("things"))

    outputs = run(3, func)
    shared, total = outputs[0][0], graph.get_operation_by_name("sum")
    assert [output[0] is shared for output in outputs] == [True] * 3
    assert shared.op.name == "shared"
    assert (total.device, total.control_inputs, total.colocation_groups()) == ("", [], [b"loc:@sum"])
    assert names(tf.global_variables()) == ["shared", "w"]
    assert names(tf.get_collection("things")) == ["of_all", "tower0/thing", "tower1/thing", "tower2/thing"]
    assert len(tf.get_collection(KEYS.SUMMARIES)) == 1
    assert outputs[2][1] == ["of_all", "tower0/thing", "tower1/thing", "tower2/thing"]


def test_merge_call_inside_the_function_of_a_merge_call_is_an_error(graph):
    def func():
        tower = current_tower_context()
        tower.merge_call(lambda: tower.merge_call(same, 1))

    with pytest.raises(TowerError, match=r"merge_call of training tower 'tower0' .*: not in a function given to"):
        run(2, func)


def test_gradient_functions_meet_too(session8):
    def total(xs):
        return [tf.add_n(xs)] * len(xs)

    def func():
        @tf.custom_gradient
        def doubled(x):
            return tf.identity(x), lambda grad: merge(total, grad)

        x = tf.constant(float(index()))
        return tf.gradients(doubled(x) * (index() + 1.0), [x])[0]

    outputs = run(3, func)
    assert session8.run(outputs) == [6.0, 6.0, 6.0]


# What goes wrong.


def failing(where, reached):
    def func():
        for part in range(3):
            try:
                merge(same, part)
            except BaseException as error:
                reached.append((index(), type(error)))
                raise
            if index() == where and part == 1:
                raise ZeroDivisionError(f"in {index()}")

    return func


@pytest.mark.parametrize("where", [0, 2, 4])
def test_an_error_of_one_tower_ends_the_others_and_comes_out_as_it_is(graph, where):
    tf.add_to_collection(KEYS.LOSSES, "before")
    reached = []
    with pytest.raises(ZeroDivisionError, match=f"in {where}") as caught:
        run(5, failing(where, reached))
    assert traceback.extract_tb(caught.value.__traceback__)[-1].filename == __file__
    assert caught.value.__cause__ is None
    assert sorted(reached) == [(k, CoroutineExit) for k in range(5) if k != where]
    assert get_current_tower_context() is None
    assert tf.get_collection(KEYS.LOSSES) == ["before"]
    assert (tf.constant(0, name="c").op.name, tf.get_variable_scope().name) == ("c", "")


def test_an_error_before_the_first_meeting_of_a_later_tower(graph):
    def func():
        if index() == 2:
            raise ZeroDivisionError("early")
        merge(same, 1)

    with pytest.raises(ZeroDivisionError, match="early"):
        run(4, func)


def test_an_error_after_the_last_meeting(graph):
    def func():
        merge(same, 1)
        if index() == 2:
            raise ZeroDivisionError("late")

    with pytest.raises(ZeroDivisionError, match="late"):
        run(4, func)


def test_an_error_of_the_function_comes_out_where_the_first_tower_called_it(graph):
    def func():
        merge(same, 1)
        merge(lambda: 1 // 0)

    with pytest.raises(ZeroDivisionError) as caught:
        run(3, func)
    assert "func" in [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]


def test_a_tower_that_catches_everything_does_not_hide_the_error_of_another(graph):
    def func():
        for _ in range(3):
            try:
                merge(same, 1)
            except BaseException:
                continue
            if index() == 1:
                raise ZeroDivisionError("seen")

    with pytest.raises(ZeroDivisionError, match="seen"):
        run(3, func)


def test_an_error_keeps_its_cause(graph):
    def func():
        merge(same, 1)
        if index() == 1:
            try:
                raise KeyError("cause")
            except KeyError as error:
                raise ZeroDivisionError from error
        merge(same, 2)

    with pytest.raises(ZeroDivisionError) as caught:
        run(2, func)
    assert isinstance(caught.value.__cause__, KeyError)


@pytest.mark.parametrize(
    ("counts", "message"),
    [
        ([0, 1, 1], "tower 0 ended without a call, tower 1 makes one, with .*same.* with 1 argument"),
        ([1, 2, 1], r"tower 0 ended after 1 call\(s\), tower 1 makes one more"),
        ([2, 2, 1], r"tower 2 ended after 1 call\(s\), tower 0 makes one more"),
        ([1, 0, 1], r"tower 1 ended after 0 call\(s\), tower 0 makes one more"),
    ],
)
def test_towers_that_meet_a_different_number_of_times_are_an_error(graph, counts, message):
    def func():
        for _ in range(counts[index()]):
            merge(same, 1)

    with pytest.raises(TowerMismatchError, match=message):
        run(3, func)


def test_towers_that_meet_for_different_things_are_an_error(graph):
    def func():
        merge(same, 1) if index() < 2 else merge(sorted, 1)

    with pytest.raises(TowerMismatchError, match=r"tower 0 called merge_call with .*same of .*, tower 2 with .*sorted"):
        run(3, func)


def test_a_tower_entered_alone_cannot_meet(graph):
    towers = make_towers(2, own_variables=True)
    with towers[0], pytest.raises(TowerError, match="was entered alone and cannot meet the other 1"):
        merge(same, 1)


def test_a_tower_that_is_entered_where_others_meet_is_alone(graph):
    def enter_another(values):
        with TrainTowerContext("another", index=1, total=2), pytest.raises(TowerError, match="was entered alone"):
            merge(same, 1)
        return values

    assert run(2, lambda: merge(enter_another, index())) == [0, 1]


def test_every_tower_is_built_in_the_frame_around_all(graph):
    def tower():
        merge(same, 0)
        return current_frame().update_device

    with entered(Frame(update_device="d")):
        assert run(3, tower) == ["d"] * 3
        assert current_frame() == Frame(update_device="d")


def test_two_hundred_builds_of_eight_towers_leave_no_thread(graph):
    before = threading.active_count()
    for build in range(200):
        with tf.Graph().as_default():
            assert run(8, lambda: [merge(same, index()) for _ in range(4)]) == [[k] * 4 for k in range(8)], build
        assert threading.active_count() == before
