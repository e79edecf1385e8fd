"""Sessions of TensorFlow 1: a fetched variable has its value after the updates of the run."""

import functools

import numpy as np
import pytest
import tensorflow.compat.v1 as tfv1

import tpack.tf1 as tf
from tests.helpers.sessions import cpu_session


@pytest.fixture
def training():
    """A graph, its global step and the operation that makes a step."""
    with tfv1.Graph().as_default() as graph:
        weights = tf.get_variable("w", [4, 1], initializer=tf.zeros_initializer())
        cost = tf.reduce_mean(tf.square(tf.matmul(tf.ones([8, 4]), weights) - 1.0))
        step = tf.train.get_or_create_global_step()
        train_op = tf.train.GradientDescentOptimizer(0.1).minimize(cost, global_step=step)
        graph.add_to_collection("cost", cost)
        yield graph, step, train_op


def initialized(session):
    session.run(tf.global_variables_initializer())
    return session


def interactive():
    return initialized(tf.InteractiveSession())


def managed():
    return tf.train.SessionManager().prepare_session("", init_op=tf.global_variables_initializer())


def recovered():
    manager = tf.train.SessionManager()
    return initialized(manager.recover_session("")[0])


def supervised():
    return tf.train.Supervisor(logdir=None, summary_op=None, saver=None).prepare_or_wait_for_session()


def created():
    return tf.train.MonitoredSession(tf.train.ChiefSessionCreator())


SESSIONS = {
    "Session": lambda: initialized(tf.Session()),
    "InteractiveSession": interactive,
    "SessionManager": managed,
    "SessionManager.recover_session": recovered,
    "Supervisor": supervised,
    "ChiefSessionCreator": lambda: tf.train.ChiefSessionCreator().create_session(),
    "MonitoredSession": lambda: tf.train.MonitoredSession(),
    "MonitoredSession(ChiefSessionCreator)": created,
    "SingularMonitoredSession": lambda: tf.train.SingularMonitoredSession(),
    "MonitoredTrainingSession": lambda: tf.train.MonitoredTrainingSession(),
}


@pytest.mark.parametrize("make", SESSIONS.values(), ids=SESSIONS)
def test_the_step_is_that_after_the_update(training, make):
    graph, step, train_op = training
    cost, weights = graph.get_collection("cost")[0], tf.global_variables()[0]
    session = make()
    for index in range(1, 6):
        values = session.run([cost, step, train_op, {"name": "global_step:0"}, weights])
        assert (values[1], values[3]["name"]) == (index, index)
        assert np.all(values[4] > 0)
    assert values[0].dtype == np.float32
    session.close()


def test_hooks_see_the_step_after_the_update(training):
    _, step, train_op = training
    seen = []

    class Hook(tf.train.SessionRunHook):
        def before_run(self, run_context):
            return tf.train.SessionRunArgs({"step": step})

        def after_run(self, run_context, run_values):
            seen.append(int(run_values.results["step"]))

    stop = tf.train.StopAtStepHook(last_step=4)
    with tf.train.MonitoredTrainingSession(hooks=[Hook(), stop]) as session:
        while not session.should_stop():
            last = session.run([train_op, step])[1]
    assert (seen, last) == ([1, 2, 3, 4], 4)


def test_a_session_after_a_failure_reads_so_too(training):
    _, step, train_op = training
    failures = [tf.errors.AbortedError(None, None, "made up")]

    class Failing(tf.train.SessionRunHook):
        def before_run(self, run_context):
            if failures:
                raise failures.pop()

    with tf.train.MonitoredTrainingSession(hooks=[Failing()]) as session:
        before = session._tf_sess()
        assert session.run([train_op, step])[1] == 1
        assert session._tf_sess() is not before


@pytest.mark.parametrize("structure", [lambda *all_: list(all_), lambda *all_: dict(enumerate(all_))])
def test_a_callable_reads_after_the_update(training, structure):
    graph, step, train_op = training
    with initialized(tf.Session()) as session:
        call = session.make_callable(structure(step, train_op))
        assert [call()[0] for _ in range(3)] == [1, 2, 3]
        plain = session.make_callable([graph.get_collection("cost")[0], train_op])
        assert plain()[0].dtype == np.float32
        assert not isinstance(plain, functools.partial)


def test_parts_of_a_partial_run_read_after_what_ran_before():
    with tfv1.Graph().as_default():
        first, second = tf.placeholder(tf.float32, []), tf.placeholder(tf.float32, [])
        variable = tf.get_variable("w", [], initializer=tf.zeros_initializer())
        update, last = tf.assign_add(variable, first), second * 2
        with initialized(tf.Session()) as session:
            handle = session.partial_run_setup([update, last, variable], [first, second])
            assert session.partial_run(handle, update, {first: 3.0}) == 3
            assert session.partial_run(handle, [last, variable], {second: 1.0}) == [2, 3]


def test_a_session_on_a_server_runs_its_reads_by_the_protocol_of_runs(training, monkeypatch):
    _, step, train_op = training
    monkeypatch.setattr(tf.Session, "sess_str", b"grpc://somewhere")
    with initialized(tf.Session()) as session:
        assert [session.run([step, train_op, step * 10])[::2] for _ in range(2)] == [[1, 0], [2, 10]]
        assert "_reads" not in vars(session)


def test_sets_of_fetches_are_forgotten_when_there_are_many(training, monkeypatch):
    monkeypatch.setattr("tpack.estimator.variable_fetches._MAX_KEPT", 2)
    _, step, train_op = training
    with initialized(tf.Session()) as session:
        for index in range(1, 6):
            assert session.run([step, train_op, tf.constant(index)])[0] == index
            assert len(session._known_runs) <= 2


def test_sessions_of_tensorflow_count_as_these(training):
    with cpu_session() as session:
        assert isinstance(session, tf.Session)
        assert not isinstance(session, tf.InteractiveSession)
    assert isinstance(tf.Session(), tfv1.Session)
    assert not isinstance(object(), tf.train.MonitoredSession)


def test_other_sessions_are_not_changed(training):
    _, step, train_op = training
    with tfv1.Session() as session:
        assert type(initialized(session)) is tfv1.Session
        assert session.run([step, train_op])[0] in (0, 1)
