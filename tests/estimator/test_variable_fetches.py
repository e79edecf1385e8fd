"""Fetches of variables in the run of their updates, as TensorFlow 1 answered them."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tpack.compat.operations import run_after
from tpack.estimator.session import SessionPlan, model_session
from tpack.estimator.variable_fetches import SplitPlan, split_run
from tpack.utils import logger


@pytest.fixture
def added(session8):
    """A variable of 0, an addition of 1 to it, and the value of the addition."""
    variable = tf.get_variable("w", [2, 1], initializer=tf.zeros_initializer(), use_resource=True)
    update = tf.assign_add(variable, np.ones([2, 1]))
    session8.run(variable.initializer)
    return variable, update.op, update


def graph_element(fetch):
    return tf.get_default_graph().as_graph_element(fetch)


ALIASES = {
    "object": lambda w: w,
    "value": lambda w: w.value(),
    "read_value": lambda w: w.read_value(),
    "tensor": tf.convert_to_tensor,
    "name": lambda w: "w:0",
    "identity": tf.identity,
    "stopped": lambda w: tf.stop_gradient(tf.identity(w)),
}


@pytest.mark.parametrize("fetch", ALIASES.values(), ids=ALIASES)
@pytest.mark.parametrize("is_partial", [False, True])
def test_a_fetched_variable_is_read_after_the_run(added, fetch, is_partial):
    variable, update, _ = added
    tensor = graph_element(fetch(variable))
    parts = split_run([tensor], [update], is_partial=is_partial)
    assert [read.op.type for read in parts.late.values()] == ["ReadVariableOp"]
    assert [read.op.control_inputs for read in parts.late.values()] == [[]]
    assert parts.main == ({0: tensor} if is_partial else {})
    assert parts.targets == [update]


def test_the_value_of_an_assignment_is_that_after_all_of_them(session8, added):
    variable, _, first = added
    with tf.control_dependencies([first]):
        second = tf.assign_add(variable, np.ones([2, 1]))
    plan = SplitPlan(session8, [first, {"after": second}, variable])
    assert [np.sum(value) for value in (plan.run()[0], plan.run()[2])] == [4, 8]


@pytest.mark.parametrize("reshape", [lambda w: tf.reshape(w, [-1]), tf.squeeze, lambda w: tf.expand_dims(w, 0)])
def test_a_reshaped_variable_keeps_its_shape(session8, added, reshape):
    variable, update, _ = added
    fetch = reshape(variable)
    value, nothing = SplitPlan(session8, [fetch, update]).run()
    assert value.shape == tuple(fetch.shape)
    assert value.sum() == 2
    assert nothing is None


def test_a_run_without_an_update_of_the_fetched_variable_is_one_run(added):
    variable, update, _ = added
    other = tf.get_variable("v", [], use_resource=True)
    assert split_run([graph_element(variable)], []) is None
    assert split_run([graph_element(other), tf.constant(1)], [update]) is None
    # Nor is what is fed.
    read = graph_element(variable)
    assert split_run([read], [update], {read.name}) is None


def test_a_name_of_a_variable_stands_for_its_value(session8, added):
    assert np.array_equal(SplitPlan(session8, "w:0").run(), np.zeros([2, 1]))


@pytest.mark.parametrize("branch", [tf.cond, lambda *_: tf.while_loop(lambda i: i < 2, _[1], [0])])
def test_updates_inside_of_conditions_and_loops_count(session8, added, branch):
    variable = added[0]

    def update(i=0):
        with tf.control_dependencies([variable.assign_add(np.ones([2, 1]))]):
            return tf.identity(i) + 1

    value, _ = SplitPlan(session8, [variable, branch(tf.constant(True), update, update)]).run()
    assert value.sum() in (2, 4)


def test_what_is_computed_of_variables_alone_is_computed_before(session8, added):
    variable, update, _ = added
    plan = SplitPlan(session8, [variable * 2, tf.reduce_sum(variable), update, variable])
    for step in range(3):
        twice, total, _, after = plan.run()
        assert (twice.sum(), total, after.sum()) == (4 * step, 2 * step, 2 * (step + 1))


def test_a_fetch_whose_order_is_determined_stays_in_the_run(added):
    variable, update, value = added
    with tf.control_dependencies([update]):
        after = variable * 2
    before = variable * 3
    ordered = tf.assign(variable, tf.square(before))
    assert split_run([after], [update]) is None
    assert split_run([before], [ordered.op]) is None
    assert split_run([value * 2], []) is None


def test_an_order_that_nothing_determines_is_reported_once(added, monkeypatch):
    lines = []
    monkeypatch.setattr(logger, "_write", lambda level, message, *_: lines.append(message))
    variable, update, _ = added
    logger._log_new.cache_clear()
    fed = tf.placeholder_with_default(np.ones([2, 1], np.float32), [2, 1], name="x")
    random = tf.multiply(variable, tf.random_uniform([2, 1]), name="of_noise")
    for _ in range(2):
        assert split_run([random], [update]) is None
    # A fetch that is fed is left alone too, since a second run of it would cost the time of the first.
    assert split_run([variable * fed], [update], {fed.name}) is None
    assert len(lines) == 2
    assert "The run of 'of_noise:0' also updates the variables it is computed of (w)" in lines[0]


def test_a_finalized_graph_without_a_plain_read_is_reported(monkeypatch):
    lines = []
    monkeypatch.setattr(logger, "_write", lambda level, message, *_: lines.append(message))
    logger._log_new.cache_clear()
    with tf.Graph().as_default() as graph:
        handle = tf.raw_ops.VarHandleOp(dtype=tf.float32, shape=[], shared_name="v", name="v")
        update = tf.raw_ops.AssignVariableOp(resource=handle, value=1.0)
        read = tf.raw_ops.ReadVariableOp(resource=handle, dtype=tf.float32)
        run_after(read.op, [update])
        assert split_run([read], [update]).late[0] is not read
        with tf.Graph().as_default() as finalized:
            tf.import_graph_def(graph.as_graph_def(), name="")
            for op in finalized.get_operations():
                if op.type == "ReadVariableOp":
                    run_after(op, [finalized.get_operation_by_name(update.name)])
            finalized.finalize()
            tensor = finalized.get_tensor_by_name(read.name)
            assert split_run([tensor], []) is None
    assert any("'v' is fetched from a finalized graph" in line for line in lines)


def test_a_hook_of_an_estimator_sees_the_step_after_the_update():
    seen = []

    class Hook(tf.train.SessionRunHook):
        def before_run(self, run_context):
            return tf.train.SessionRunArgs(tf.train.get_global_step())

        def after_run(self, run_context, run_values):
            seen.append(int(run_values.results))

    with tf.Graph().as_default() as graph:
        step = tf.train.get_or_create_global_step()
        update = tf.assign_add(step, 1).op
        plan = SessionPlan(tf.train.Scaffold(), None, None)
        with model_session(graph, plan, [Hook()]) as session:
            for _ in range(3):
                session.run(update)
            # A traced step goes another way.
            session.run(update, options=tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE))
            assert session.session.run([update, step])[1] == 5
    assert seen == [1, 2, 3, 4]
