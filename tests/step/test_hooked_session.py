"""The session that carries along what callbacks ask for, against a plain `session.run`."""

import traceback
from collections import namedtuple

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.sessions import cpu_session
from tpack.callbacks.base import Callback
from tpack.errors import ConfigError, DataExhaustedError, StepTimeoutError
from tpack.step import fetch_plan, hooked_session
from tpack.step.hooked_session import MAX_PLANS, HookedSession

Pair = namedtuple("Pair", ["first", "second"])


class Asking(Callback):
    """Asks for what `make` returns and keeps what it is told."""

    def __init__(self, make=lambda ctx: None):
        self.make = make
        self.told = []

    def _before_run(self, ctx):
        return self.make(ctx)

    def _after_run(self, ctx, values):
        self.told.append(values)


class OnlyBefore(Callback):
    """Asks for something and does not want to be told."""

    def __init__(self, fetches):
        self.fetches = fetches
        self.asked = 0

    def _before_run(self, ctx):
        self.asked += 1
        return self.fetches


class OnlyAfter(Callback):
    """Is told and asks for nothing."""

    def __init__(self):
        self.told = []

    def _after_run(self, ctx, values):
        self.told.append(values)


class Failing(Callback):
    """Owns a thread that ended with an error."""

    def __init__(self, error):
        self.error = error

    def failure(self):
        return self.error


@pytest.fixture
def plan_count(monkeypatch):
    """The list of all fetches that a plan was compiled for."""
    compiled = []

    class CountedPlan(hooked_session.FetchPlan):
        def __init__(self, session, fetches, feeds=(), **options):
            compiled.append(fetches)
            super().__init__(session, fetches, feeds, **options)

    monkeypatch.setattr(hooked_session, "FetchPlan", CountedPlan)
    return compiled


def counter(session, name="count"):
    """Return an operation that adds 1, and the variable that it is added to."""
    variable = tf.get_variable(name, initializer=0, use_resource=True)
    session.run(variable.initializer)
    return variable.assign_add(1, read_value=False), variable


def assert_same(got, expected):
    assert type(got) is type(expected)
    if isinstance(expected, dict):
        assert list(got) == list(expected)
        for key, value in expected.items():
            assert_same(got[key], value)
    elif isinstance(expected, list | tuple):
        assert len(got) == len(expected)
        for pair in zip(got, expected, strict=True):
            assert_same(*pair)
    else:
        np.testing.assert_array_equal(got, expected)


# Fetches.


def make_nests():
    a, b = tf.constant([1.0, 2.0], name="a"), tf.constant(3, name="b")
    sparse = tf.SparseTensor(tf.constant([[1]], tf.int64), tf.constant([5]), tf.constant([4], tf.int64))
    variable = tf.get_variable("v", initializer=4.0, use_resource=True)
    op = tf.no_op(name="op")
    return {
        "tensor": a,
        "op": op,
        "list": [a, op, b],
        "tuple": (a, (b,)),
        "namedtuple": Pair(a, [op]),
        "dict": {"y": a, "x": {"z": op}},
        "names": ["a:0", "op", {"b": "b:0"}],
        "duplicates": [a, a, "a:0", op, op],
        "variable": [variable, {"v": variable}],
        "sparse": {"s": sparse, "a": a},
        "slices": [tf.IndexedSlices(a, tf.constant([0, 3]), tf.constant([5]))],
        "empty": [],
    }


@pytest.mark.parametrize("executor", ["pool", "caller", "auto"])
@pytest.mark.parametrize("with_callback", [False, True])
def test_run_gives_what_session_run_gives(session8, executor, with_callback):
    nests = make_nests()
    session8.run(tf.global_variables_initializer())
    current = {}
    asking = Asking(lambda ctx: current["nest"])
    hooked = HookedSession(session8, [asking] if with_callback else [], executor=executor)
    for nest in nests.values():
        current["nest"] = nest
        expected = session8.run(nest)
        for _ in range(2):
            assert_same(hooked.run(nest), expected)
            if with_callback:
                assert_same(asking.told[-1].results, expected)


def test_everything_is_fetched_in_one_run(session8):
    increase, count = counter(session8)
    new_value = count.assign_add(1)
    callbacks = [Asking(lambda ctx: new_value), OnlyBefore(new_value), Asking(lambda ctx: {"x": [new_value]})]
    hooked = HookedSession(session8, callbacks)
    assert hooked.run(new_value) == 1
    assert callbacks[0].told[0].results == 1
    assert callbacks[2].told[0].results == {"x": [1]}
    assert callbacks[1].asked == 1
    assert hooked.run(increase) is None
    assert session8.run(count) == 3


def test_who_asks_for_nothing_is_told_none(session8):
    callbacks = [Asking(), Asking(lambda ctx: tf.train.SessionRunArgs(None)), OnlyAfter()]
    HookedSession(session8, callbacks).run(tf.constant(1))
    assert [callback.told[0].results for callback in callbacks] == [None, None, None]


def test_callbacks_are_told_in_their_order(session8):
    order = []

    class First(Callback):
        def _after_run(self, ctx, values):
            order.append("first")

    class Second(First):
        def _before_run(self, ctx):
            order.append("asked")

        def _after_run(self, ctx, values):
            order.append("second")

    HookedSession(session8, [First(), Second(), First(), Callback()]).run(tf.constant(1))
    assert order == ["asked", "first", "second", "first"]


def test_the_context_tells_what_is_run(session8):
    seen = []
    fetch, fed = tf.constant(1), tf.placeholder(tf.float32, [])
    options = tf.RunOptions(timeout_in_ms=60000)
    hooked = HookedSession(session8, [Asking(lambda ctx: seen.append((ctx, ctx.original_args)))])
    hooked.run(fetch)
    hooked.run(fetch, {fed: 1.0}, options)
    hooked.run(fetch)
    assert [context.session for context, _ in seen] == [session8] * 3
    assert [arguments.fetches for _, arguments in seen] == [fetch] * 3
    assert [arguments.feed_dict for _, arguments in seen] == [None, {fed: 1.0}, None]
    assert [arguments.options for _, arguments in seen] == [None, options, None]


def test_session_graph_and_close(graph):
    with cpu_session(graph, num_cpus=1) as session:
        hooked = HookedSession(session, [])
        assert hooked.session is session
        assert hooked.graph is graph
        constant = tf.constant(1)
        assert hooked.run(constant) == 1
        hooked.close()
        with pytest.raises((RuntimeError, tf.errors.OpError), match="closed"):
            hooked.run(constant)


def test_an_unknown_executor_is_an_error(session8):
    with pytest.raises(ConfigError, match="got executor=.*: expected one of"):
        HookedSession(session8, [], executor="thread")


@pytest.mark.parametrize("fetch", [None, "missing:0", [3]])
def test_what_cannot_be_fetched_is_an_error(session8, fetch):
    with pytest.raises(ConfigError, match="cannot fetch or feed"):
        HookedSession(session8, []).run(fetch)


# Plans.


def test_the_same_fetches_are_compiled_once(session8, plan_count):
    a, b = tf.constant(1), tf.constant(2, name="b")
    same = [b]
    for make in (
        lambda ctx: same,
        lambda ctx: [b],
        lambda ctx: tf.train.SessionRunArgs([b]),
        lambda ctx: ["".join(["b", ":0"])],
    ):
        asking = Asking(make)
        hooked = HookedSession(session8, [asking])
        plan_count.clear()
        assert [hooked.run(a) for _ in range(5)] == [1] * 5
        assert len(plan_count) == 1
        assert len(asking.told) == 5


def test_alternating_fetches_are_compiled_once_each(session8, plan_count):
    a, b, c = tf.constant(1), tf.constant(2), tf.constant(3)
    step = iter(range(100))
    asking = Asking(lambda ctx: [b, c] if next(step) % 3 == 0 else None)
    hooked = HookedSession(session8, [asking])
    for _ in range(9):
        hooked.run(a)
    assert [values.results for values in asking.told] == [[2, 3], None, None] * 3
    assert len(plan_count) == 2


def test_a_list_that_was_changed_is_noticed(session8):
    fetches, wanted = [tf.constant(1)], {"x": tf.constant(2)}
    asking = Asking(lambda ctx: wanted)
    hooked = HookedSession(session8, [asking])
    assert hooked.run(fetches) == [1]
    fetches.append(tf.constant(3))
    wanted["x"] = tf.constant(4)
    assert hooked.run(fetches) == [1, 3]
    assert [values.results["x"] for values in asking.told] == [2, 4]
    del fetches[0]
    assert hooked.run(fetches) == [3]


def test_the_oldest_plan_is_dropped(session8, plan_count, monkeypatch):
    assert MAX_PLANS >= 100
    monkeypatch.setattr(hooked_session, "MAX_PLANS", 3)
    constants = [tf.constant(k) for k in range(5)]
    hooked = HookedSession(session8, [])
    assert [hooked.run(constant) for constant in constants] == list(range(5))
    plan_count.clear()
    assert [hooked.run(constant) for constant in constants[2:]] == [2, 3, 4]
    assert plan_count == []
    assert hooked.run(constants[0]) == 0
    assert hooked.run(constants[2]) == 2
    assert plan_count == [[constants[0]], [constants[2]]]


def test_the_executor_runs_plans_with_feeds_too(session8, monkeypatch):
    a, b = tf.constant(2.0), tf.placeholder(tf.float32, [])
    calls = []
    original = fetch_plan.Autotuner.run

    def run(self, plan, *feed_values):
        values = original(self, plan, *feed_values)
        calls.append((plan.way.in_caller_thread, len(feed_values)))
        return values

    monkeypatch.setattr(fetch_plan.Autotuner, "run", run)
    hooked = HookedSession(session8, [], executor="caller")
    assert hooked.run(a * b, {b: 4.0}) == 8
    assert hooked.run(a) == 2
    assert calls == [(True, 1), (True, 0)]


# Feeds.


@pytest.mark.parametrize(
    ("dtype", "shape", "value"),
    [
        (tf.float32, [None], [1, 2, 3]),
        (tf.float32, [2], np.array([1.5, 2.5])),
        (tf.int32, [], 7.0),
        (tf.int64, None, np.int32([[1, 2]])),
        (tf.bool, [2], [0, 1]),
        (tf.string, [2], ["a", b"b"]),
        (tf.uint8, [1], np.array([200])),
        (tf.float64, [None, 2], np.arange(8, dtype="float32").reshape(2, 4)[:, ::2]),
    ],
)
def test_feeds_are_converted_as_session_run_does(session8, dtype, shape, value):
    fed = tf.placeholder(dtype, shape)
    fetch = tf.identity(fed)
    expected = session8.run(fetch, {fed: value})
    hooked = HookedSession(session8, [])
    for _ in range(2):
        got = hooked.run(fetch, {fed: value})
        assert np.asarray(got).dtype == np.asarray(expected).dtype
        np.testing.assert_array_equal(got, expected)


def test_feeds_may_be_named_and_come_from_callbacks(session8, plan_count):
    a, b = tf.placeholder(tf.float32, [], name="a"), tf.placeholder_with_default(10.0, [], name="b")
    total = a + b
    asking = Asking(lambda ctx: tf.train.SessionRunArgs(total, {b: 5}))
    assert HookedSession(session8, [asking]).run(total, {"".join(["a", ":0"]): 1}) == 6
    hooked = HookedSession(session8, [])
    plan_count.clear()
    assert [hooked.run(total, feeds) for feeds in ({a: 1}, {"a:0": 2}, {a: 3, b: 4}, {a: 5})] == [11, 12, 7, 15]
    assert len(plan_count) == 2


def test_a_value_fed_with_another_shape_is_an_error(session8):
    fed = tf.placeholder(tf.float32, [None, 3], name="fed")
    hooked = HookedSession(session8, [])
    with pytest.raises(ConfigError, match=r"fed:0 got an array of shape \(2,\): expected shape \(None, 3\)"):
        hooked.run(tf.identity(fed), {fed: [1, 2]})


@pytest.mark.parametrize("name", [lambda a: a, lambda a: a.name])
def test_a_tensor_that_is_fed_twice_is_an_error(session8, name):
    a = tf.placeholder(tf.float32, [], name="a")
    asking = Asking(lambda ctx: tf.train.SessionRunArgs(None, {name(a): 2}))
    with pytest.raises(ConfigError, match="'a:0'.* is fed twice in one run"):
        HookedSession(session8, [asking]).run(a, {a: 1})
    assert asking.told == []


@pytest.mark.parametrize(
    ("feed", "message"), [("op", "'op' is an operation: only tensors"), ("no:0", "cannot fetch or feed")]
)
def test_what_cannot_be_fed_is_an_error(session8, feed, message):
    op = tf.no_op(name="op")
    with pytest.raises(ConfigError, match=message):
        HookedSession(session8, []).run(op, {feed: 1})


def test_sparse_feeds_are_left_to_session_run(session8):
    sparse = tf.sparse_placeholder(tf.float32)
    dense = tf.sparse.to_dense(sparse)
    value = tf.SparseTensorValue([[1], [2]], [5.0, 6.0], [4])
    got = HookedSession(session8, []).run(dense, {sparse: value})
    np.testing.assert_array_equal(got, [0, 5, 6, 0])


# Options and metadata.


def test_options_and_metadata_are_those_of_session_run(session8):
    fed = tf.placeholder(tf.float32, [])
    fetch = tf.add(fed, 1.0, name="added")
    metadata = tf.RunMetadata()
    only_after = OnlyAfter()
    hooked = HookedSession(session8, [only_after])
    options = tf.RunOptions(output_partition_graphs=True)
    assert hooked.run(fetch, {fed: 1.0}, options, metadata) == 2
    assert "added" in {node.name for part in metadata.partition_graphs for node in part.node}
    assert only_after.told[0].options == options
    assert only_after.told[0].run_metadata is metadata
    metadata = tf.RunMetadata()
    assert hooked.run(fetch, {fed: 2.0}, run_metadata=metadata) == 3
    assert only_after.told[1].run_metadata is metadata


def test_options_of_callbacks_are_merged_and_nobody_s_own_are_changed(session8):
    full = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE, timeout_in_ms=50000)
    wanted = tf.RunOptions(trace_level=tf.RunOptions.SOFTWARE_TRACE, timeout_in_ms=10000, output_partition_graphs=True)
    asking, told = Asking(lambda ctx: tf.train.SessionRunArgs(None, options=wanted)), OnlyAfter()
    fetch = tf.constant(1) + tf.placeholder_with_default(1, [])
    assert HookedSession(session8, [asking, told]).run(fetch, options=full) == 2
    merged = told.told[0].options
    assert merged.trace_level == tf.RunOptions.FULL_TRACE
    assert merged.timeout_in_ms == 50000
    assert merged.output_partition_graphs
    assert not full.output_partition_graphs
    assert wanted.trace_level == tf.RunOptions.SOFTWARE_TRACE
    assert told.told[0].run_metadata.partition_graphs
    assert told.told[0].run_metadata.step_stats.dev_stats


def test_options_of_a_callback_alone_are_enough(session8):
    wanted = tf.RunOptions(output_partition_graphs=True)
    asking = Asking(lambda ctx: tf.train.SessionRunArgs(None, options=wanted))
    hooked = HookedSession(session8, [asking])
    hooked.run(tf.constant(1))
    assert asking.told[0].run_metadata.partition_graphs
    asking.make = lambda ctx: None
    hooked.run(tf.constant(1))
    assert (asking.told[1].options, asking.told[1].run_metadata) == (None, None)


def test_a_timeout_alone_stays_on_the_fast_path(session8, plan_count):
    request = tf.train.SessionRunArgs(None, options=tf.RunOptions(timeout_in_ms=60000))
    told = OnlyAfter()
    hooked = HookedSession(session8, [Asking(lambda ctx: request), told])
    fetch = tf.constant(1)
    for _ in range(3):
        assert hooked.run(fetch) == 1
    assert len(plan_count) == 1
    assert len(hooked._steps) == 1
    assert [values.run_metadata for values in told.told] == [None] * 3


@pytest.mark.parametrize("traced", [False, True])
@pytest.mark.parametrize("executor", ["pool", "caller"])
def test_a_run_that_exceeds_its_timeout_says_so(session8, executor, traced):
    options = tf.RunOptions(timeout_in_ms=50, trace_level=tf.RunOptions.SOFTWARE_TRACE if traced else 0)
    request = tf.train.SessionRunArgs(None, options=options)
    hooked = HookedSession(session8, [Asking(lambda ctx: request)], executor=executor)
    queue = tf.FIFOQueue(1, [tf.int32], [[]])
    dequeue, enqueue = queue.dequeue(), queue.enqueue(7)
    session8.run(enqueue)
    assert hooked.run(dequeue) == 7
    with pytest.raises(StepTimeoutError, match="longer than the 50 ms"):
        hooked.run(dequeue)


# Errors and stopping.


def empty_queue(session):
    """Return a dequeue of a queue that is closed and empty."""
    queue = tf.FIFOQueue(1, [tf.float32], [[]])
    dequeue = queue.dequeue()
    session.run(queue.close())
    return dequeue


@pytest.mark.parametrize("executor", ["pool", "caller"])
def test_the_end_of_the_data_is_an_error(session8, executor):
    hooked = HookedSession(session8, [Failing(None)], executor=executor)
    with pytest.raises(DataExhaustedError, match="a step found no more data") as caught:
        hooked.run(empty_queue(session8))
    assert isinstance(caught.value.__cause__, tf.errors.OutOfRangeError)


def test_the_end_of_a_dataset_is_an_error_after_the_last_element(session8):
    iterator = tf.data.make_one_shot_iterator(tf.data.Dataset.range(2))
    element = iterator.get_next()
    told = OnlyAfter()
    hooked = HookedSession(session8, [told])
    assert [hooked.run(element), hooked.run(element)] == [0, 1]
    with pytest.raises(DataExhaustedError):
        hooked.run(element)
    assert len(told.told) == 2


def thread_failure():
    """Return an error as a thread leaves it: raised there, with a cause."""
    try:
        try:
            raise KeyError("the file is gone")
        except KeyError as cause:
            raise ZeroDivisionError("reading failed") from cause
    except ZeroDivisionError as error:
        return error


def not_a_number(session):
    """Return a fetch that fails in any session."""
    del session
    return tf.debugging.check_numerics(tf.constant(np.nan), "it is")


@pytest.mark.parametrize("make_fetch", [empty_queue, not_a_number])
def test_the_failure_of_a_callback_replaces_tensorflow_s_error(session8, make_fetch):
    fetch, failure = make_fetch(session8), thread_failure()
    hooked = HookedSession(session8, [Callback(), Failing(None), Failing(failure)])
    with pytest.raises(ZeroDivisionError, match="reading failed") as caught:
        hooked.run(fetch)
    assert caught.value is failure
    assert isinstance(failure.__cause__, KeyError)
    assert "thread_failure" in [frame.name for frame in traceback.extract_tb(failure.__traceback__)]


def test_any_other_error_of_tensorflow_stays(session8):
    hooked = HookedSession(session8, [Failing(None)])
    with pytest.raises(tf.errors.InvalidArgumentError, match="it is"):
        hooked.run(not_a_number(session8))


def test_a_failure_is_not_asked_for_while_runs_succeed(session8):
    assert HookedSession(session8, [Failing(ZeroDivisionError())]).run(tf.constant(1)) == 1


def test_a_request_to_stop_stays(session8):
    a, b = tf.constant(1), tf.constant(2)
    asking = Asking()
    hooked = HookedSession(session8, [asking])
    hooked.run(a)
    assert hooked.should_stop() is False
    asking.make = lambda ctx: ctx.request_stop()
    hooked.run(a)
    asking.make = lambda ctx: None
    assert hooked.should_stop() is True
    hooked.run(b)
    assert hooked.should_stop() is True


# Who runs the kernels.


def test_both_executors_give_equal_values(graph, rng):
    data = rng.normal(size=(16, 8)).astype("float32")
    weight = tf.get_variable("w", [8, 4], initializer=tf.constant_initializer(0.1), use_resource=True)
    cost = tf.reduce_mean(tf.square(tf.matmul(tf.constant(data), weight) - 1))
    train_op = tf.train.AdamOptimizer(0.1).minimize(cost)
    results = []
    for executor in ("pool", "caller", "auto"):
        with cpu_session(graph, num_cpus=1) as session:
            session.run(tf.global_variables_initializer())
            asking = Asking(lambda ctx: cost)
            hooked = HookedSession(session, [asking], executor=executor)
            for _ in range(2 * fetch_plan.BLOCK_STEPS * (fetch_plan.NUM_BLOCKS + 1) + 5):
                hooked.run(train_op)
            results.append(([values.results for values in asking.told], session.run(weight)))
    for costs, value in results[1:]:
        np.testing.assert_array_equal(costs, results[0][0])
        np.testing.assert_array_equal(value, results[0][1])
