"""Evaluate checkpoints."""

import pytest
import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError
from tpack.tf1.contrib import slim
from tpack.tf1.contrib.slim import evaluation


@pytest.fixture
def checkpoints(log_dir):
    """A directory with the checkpoints of two steps, in which ``w`` is the step."""
    with tf.Graph().as_default(), tf.Session() as session:
        w = tf.get_variable("w", [], use_resource=True)
        step = tf.train.create_global_step()
        saver = tf.train.Saver()
        for number in (1, 2):
            w.load(float(number), session)
            step.load(number, session)
            saver.save(session, str(log_dir / "model"), number)
    return log_dir


def build():
    w = tf.get_variable("w", [], use_resource=True)
    tf.train.get_or_create_global_step()
    names_to_values, names_to_updates = slim.metrics.aggregate_metric_map({"mean": tf.metrics.mean(w)})
    count = tf.get_variable("count", [], initializer=tf.zeros_initializer(), collections=["local_variables"])
    tf.summary.scalar("mean", names_to_values["mean"])
    return {
        "eval_op": [*names_to_updates.values(), tf.assign_add(count, 1.0)],
        "final_op": [names_to_values["mean"], count],
        "variables_to_restore": slim.get_variables_to_restore(),
    }


def test_a_checkpoint_is_evaluated(checkpoints, graph):
    told = []

    class Hook(tf.train.SessionRunHook):
        def after_run(self, run_context, run_values):
            told.append(1)

    initial = tf.placeholder(tf.float32, [])
    path = str(checkpoints / "model-1")
    result = evaluation.evaluate_once(
        "", path, str(checkpoints / "eval"), 3, tf.identity(initial), {initial: 1.0}, hooks=[Hook()], **build()
    )
    assert result == [1.0, 3.0]
    assert len(told) >= 5
    assert list((checkpoints / "eval").iterdir())


def test_new_checkpoints_are_evaluated(checkpoints, graph):
    options = {"num_evals": 2, "max_number_of_evaluations": 1, "eval_interval_secs": 0}
    assert evaluation.evaluation_loop("", str(checkpoints), None, **options, **build()) == [2.0, 2.0]
    newest = str(checkpoints / "model-2")
    assert evaluation.wait_for_new_checkpoint(str(checkpoints)) == newest
    assert evaluation.wait_for_new_checkpoint(str(checkpoints), newest, timeout=0) is None
    assert next(evaluation.checkpoints_iterator(str(checkpoints))) == newest


def test_one_graph_evaluates_several(checkpoints, graph):
    final = build()["final_op"][0].graph.get_tensor_by_name("w/Read/ReadVariableOp:0")
    names = ("initial_op", "eval_op", "final_op_feed_dict", "summary_op", "variables_to_restore", "session_config")
    given = {**dict.fromkeys(names), "hooks": None, "logdir": None, "final_op": final, "num_evals": 1, "master": ""}
    evaluated = evaluation._Evaluation(**given)
    assert [evaluated.run(str(checkpoints / f"model-{step}")) for step in (1, 2)] == [1.0, 2.0]


def test_what_cannot_be_is_refused(graph):
    with pytest.raises(ConfigError, match="got checkpoint_path=None: expected a path"):
        evaluation.evaluate_once("", None, None)
    with pytest.raises(ConfigError, match="got master='grpc://a': expected '', for this process"):
        evaluation.evaluate_once("grpc://a", "path", None)
    with pytest.raises(ConfigError, match="num_evals"):
        evaluation.evaluate_once("", "path", None, num_evals=0)
    with pytest.raises(ConfigError, match="expected None, since all variables come from the checkpoint"):
        evaluation.evaluation_loop("", "path", None, init_fn=len)
