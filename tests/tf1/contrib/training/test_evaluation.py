import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.event_files import scalars_in
from tpack.errors import ConfigError
from tpack.tf1.contrib import training


@pytest.fixture
def checkpoints(graph, tmp_path):
    """Return the folder of a checkpoint in which ``w`` is 5, and a metric that averages it with its double."""
    w = tf.get_variable("w", initializer=5.0)
    step = tf.train.get_or_create_global_step()
    with tf.Session() as session:
        session.run([w.initializer, step.initializer])
        tf.train.Saver().save(session, str(tmp_path / "model"), global_step=7)
    return tmp_path


def metric():
    count = tf.cast(training.get_or_create_eval_step(), tf.float32)
    return tf.metrics.mean(tf.trainable_variables()[0] * (1 + count))


def test_a_checkpoint_is_evaluated_in_some_steps(checkpoints, capfd):
    mean, update = metric()
    tf.summary.scalar("average", mean)
    value = training.evaluate_once(
        tf.train.latest_checkpoint(str(checkpoints)),
        eval_ops=update,
        final_ops={"mean": mean},
        hooks=[training.StopAfterNEvalsHook(2), training.SummaryAtEndHook(str(checkpoints / "eval"))],
    )
    assert value == {"mean": 7.5}
    assert scalars_in(checkpoints / "eval")["average"] == [(0, 7.5)]


def test_what_no_step_is_made_for_is_computed(graph):
    tf.get_variable("w", initializer=5.0)
    assert training.evaluate_once(None, final_ops=tf.trainable_variables()[0] * 2) == 10.0


def test_each_new_checkpoint_is_evaluated(checkpoints):
    mean, update = metric()
    value = training.evaluate_repeatedly(
        str(checkpoints),
        eval_ops=[update],
        final_ops=mean,
        hooks=[training.StopAfterNEvalsHook(3, log_progress=False)],
        max_number_of_evaluations=1,
    )
    assert value == 10.0
    assert training.evaluate_repeatedly(str(checkpoints / "none"), timeout=0, timeout_fn=lambda: True) is None


def test_steps_are_counted_by_one_variable(graph):
    step = training.get_or_create_eval_step()
    assert (step.op.name, training.get_or_create_eval_step() is step) == ("eval_step", True)
    assert tf.local_variables() == [step]
    tf.add_to_collection(tf.GraphKeys.EVAL_STEP, step)
    with pytest.raises(ConfigError, match="found 2 variables in EVAL_STEP: expected one"):
        training.get_or_create_eval_step()


def test_wrong_arguments_are_refused():
    with pytest.raises(ConfigError, match="neither log_dir nor summary_writer"):
        training.SummaryAtEndHook()
    with pytest.raises(ConfigError, match="num_evals=0"):
        training.StopAfterNEvalsHook(0)
