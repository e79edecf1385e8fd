"""A session with everything ready, hooks around each run, and an orderly end."""

import os

import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.checkpoints import save_checkpoint
from tests.helpers.sessions import cpu_session
from tpack.errors import CheckpointError, ConfigError, DataExhaustedError
from tpack.estimator.session import SessionPlan, WholeModelSaver, initialize, model_session, restore


class Recorder(tf.train.SessionRunHook):
    """Notes the calls, and whether the graph and session are the default ones in them."""

    def __init__(self):
        self.calls = []

    def begin(self):
        self.calls.append("begin")
        tf.get_variable("of_the_hook", [], initializer=tf.ones_initializer())

    def after_create_session(self, session, coord):
        assert tf.get_default_session() is session
        assert coord.should_stop() is False
        self.calls.append(("after_create_session", session.run(tf.global_variables())))

    def after_run(self, run_context, run_values):
        self.calls.append("after_run")

    def end(self, session):
        assert tf.get_default_session() is session
        assert tf.get_default_graph() is session.graph
        self.calls.append("end")


def plan(**changes):
    return SessionPlan(**{"scaffold": tf.train.Scaffold(), "checkpoint": None, "session_config": None, **changes})


def test_hooks_live_through_a_session(graph):
    variable = tf.get_variable("v", [], initializer=tf.zeros_initializer())
    dataset = tf.data.Dataset.range(2)
    iterator = tf.data.make_initializable_iterator(dataset)
    element, local = iterator.get_next(), tf.Variable(3.0, collections=[tf.GraphKeys.LOCAL_VARIABLES])
    with tf.device("/device:CPU:4"):
        far = tf.identity(variable)
    hook = Recorder()
    with model_session(graph, plan(input_initializer=iterator.initializer), [hook]) as session:
        assert tf.get_default_session() is None
        assert session.run((element, far, local)) == (0, 0, 3)
        assert session.run(element) == 1
        with pytest.raises(DataExhaustedError):
            session.run(element)
    assert hook.calls == ["begin", ("after_create_session", [0, 1]), "after_run", "after_run", "end"]
    assert graph.finalized
    with pytest.raises(RuntimeError, match="closed"):
        session.session.run(element)


def test_an_error_ends_no_hook_and_closes_the_session(graph):
    value, hook = tf.constant(1), Recorder()
    with pytest.raises(ZeroDivisionError), model_session(graph, plan(), [hook]) as session:
        raise ZeroDivisionError
    assert "end" not in hook.calls
    with pytest.raises(RuntimeError, match="closed"):
        session.session.run(value)


def test_sums_have_a_fixed_order(graph):
    total = tf.add_n([tf.constant(1.0), tf.constant(2.0), tf.constant(3.0)])
    with model_session(graph, plan(), []):
        assert "_forward_input" in total.op.node_def.attr


def test_initialisation_of_the_models_own(graph):
    placeholder = tf.placeholder(tf.float32, [])
    variable = tf.get_variable("v", initializer=placeholder)
    local = tf.Variable(placeholder, collections=[tf.GraphKeys.LOCAL_VARIABLES])
    done = []
    scaffold = tf.train.Scaffold(
        init_feed_dict={placeholder: 5.0},
        local_init_feed_dict={placeholder: 6.0},
        init_fn=lambda scaffold, session: done.append(session.run(variable)),
    )
    with model_session(graph, plan(scaffold=scaffold), []) as session:
        assert session.run([variable, local]) == [5, 6]
    assert done == [5]


def test_a_checkpoint_takes_the_place_of_init_fn(graph, tmp_path):
    path = save_checkpoint(tmp_path, {"v": 7.0})
    variable = tf.get_variable("v", [])
    scaffold = tf.train.Scaffold(init_fn=lambda scaffold, session: 1 / 0)
    with model_session(graph, plan(scaffold=scaffold, checkpoint=path), []) as session:
        assert session.run(variable) == 7


def test_variables_without_a_value_are_named(graph):
    tf.get_variable("forgotten", [])
    scaffold = tf.train.Scaffold(init_op=tf.no_op()).finalize()
    with cpu_session() as session, pytest.raises(ConfigError, match="without a value: forgotten"):
        initialize(session, plan(scaffold=scaffold))


def test_checkpoints_that_do_not_fit_are_named(graph, tmp_path):
    path = save_checkpoint(tmp_path, {"other": 1.0})
    tf.get_variable("v", [])
    saver = tf.train.Saver()
    with cpu_session() as session, pytest.raises(CheckpointError, match=f"{os.path.basename(path)} does not fit"):
        restore(session, saver, path)


def test_queue_runners_run_and_end(graph):
    batch = tf.train.batch([tf.train.input_producer([1, 2, 3], shuffle=False, num_epochs=1).dequeue()], 1)
    with model_session(graph, plan(), []) as session:
        seen = [session.run(batch).tolist() for _ in range(3)]
        with pytest.raises(DataExhaustedError):
            session.run(batch)
    assert seen == [[1], [2], [3]]


def test_what_a_queue_runner_raises_surfaces(graph):
    broken = tf.check_numerics(tf.log(tf.placeholder_with_default(-1.0, [])), "the reader broke")
    batch, hook = tf.train.batch([broken], 1), Recorder()
    with (
        pytest.raises(tf.errors.InvalidArgumentError, match="the reader broke"),
        model_session(graph, plan(), [hook]) as session,
        pytest.raises(DataExhaustedError),
    ):
        session.run(batch)
    # It did not end well, so hooks are not to save or report an end.
    assert "end" not in hook.calls


def test_saves_and_restores(session8, tmp_path):
    variable = tf.get_variable("v", [2], initializer=tf.ones_initializer(), use_resource=True)
    saver = WholeModelSaver(max_to_keep=1)
    saver.build()
    session8.run(variable.initializer)
    paths = [saver.save(session8, str(tmp_path / "model"), global_step=step) for step in (1, 2)]
    assert not (tmp_path / "model-1.index").exists()
    session8.run(variable.assign([5.0, 6.0]))
    saver.restore(session8, paths[1])
    assert session8.run(variable).tolist() == [1, 1]


def test_other_shapes_are_refused(session8, tmp_path):
    fits = tf.get_variable("fits", [], initializer=tf.zeros_initializer(), use_resource=True)
    tf.get_variable("v", [], use_resource=True)
    saver = WholeModelSaver()
    saver.build()
    session8.run(fits.initializer)
    path = save_checkpoint(tmp_path, {"v": [1.0, 2.0], "fits": 3.0})
    with pytest.raises(CheckpointError, match=r"does not fit the model: v has shape \[2\]: expected \(\)"):
        saver.restore(session8, path)
    assert session8.run(fits) == 0
