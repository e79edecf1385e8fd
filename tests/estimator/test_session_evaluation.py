"""Metrics over an input, from a checkpoint."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.checkpoints import save_checkpoint
from tests.helpers.event_files import scalars_in
from tests.helpers.log_lines import captured_log
from tpack.errors import ConfigError, DataExhaustedError
from tpack.estimator import session as evaluation
from tpack.estimator.building import ModelParts, build_model
from tpack.estimator.inputs import GivenInput, call_input_fn
from tpack.estimator.run_config import RunConfig
from tpack.estimator.session import write_results
from tpack.estimator.spec import EstimatorSpec


def scaling(features, mode):
    """Multiplies the input with a variable; the loss is the mean of that."""
    values = tf.get_variable("scale", []) * tf.cast(features, tf.float32)
    counter = tf.Variable(0.0, collections=[tf.GraphKeys.LOCAL_VARIABLES])
    with tf.control_dependencies([values]):
        count = counter.assign_add(1.0)
    metrics = {"mean": tf.metrics.mean(values), "also": tf.metrics.mean(values), "batches": (counter.value(), count)}
    return EstimatorSpec(mode, loss=tf.reduce_mean(values), eval_metric_ops=metrics)


def evaluate(directory, data, *, steps=None, hooks=(), model=scaling):
    checkpoint = save_checkpoint(directory, {"scale": 2.0, "global_step": np.int64(30)})
    parts = ModelParts(model, None, RunConfig(), str(directory))

    def input_fn():
        return tf.data.Dataset.from_tensor_slices(data).batch(2)

    with tf.Graph().as_default():
        built = build_model(
            parts, "eval", lambda: call_input_fn(GivenInput(input_fn), "eval", params=None, config=None)
        )
        return evaluation.evaluate_model(parts, built, checkpoint, steps, hooks)


def test_metrics_are_of_all_examples_and_the_loss_of_all_batches(tmp_path):
    results = evaluate(tmp_path, [1, 2, 6])
    # The mean over the batches (1, 2) and (6) is not that over the examples.
    assert results == {"mean": 6, "also": 6, "batches": 2, "loss": (3 + 12) / 2, "global_step": 30}


def test_some_steps_only(tmp_path):
    assert evaluate(tmp_path, [1, 2, 6, 7], steps=1)["mean"] == 3
    assert evaluate(tmp_path, [1, 2, 6], steps=5)["mean"] == 6


def test_hooks_stop_it(tmp_path):
    class Stop(tf.train.SessionRunHook):
        def after_run(self, run_context, run_values):
            run_context.request_stop()

    assert evaluate(tmp_path, [1, 2, 6], hooks=[Stop()])["batches"] == 1

    def model(features, mode):
        return scaling(features, mode)._replace(evaluation_hooks=[Stop()])

    assert evaluate(tmp_path, [1, 2, 6], model=model)["batches"] == 1


def test_empty_input_is_refused(tmp_path):
    with pytest.raises(DataExhaustedError, match="no batch to evaluate"):
        evaluate(tmp_path, np.zeros(0))


@pytest.mark.parametrize("name", ["loss", "global_step"])
def test_names_of_the_results_own_are_refused(tmp_path, name):
    def model(features, mode):
        return scaling(features, mode)._replace(eval_metric_ops={name: tf.metrics.mean(1.0)})

    with pytest.raises(ConfigError, match=f"eval_metric_ops has '{name}': expected another name"):
        evaluate(tmp_path, [1], model=model)


def test_results_are_reported(tmp_path):
    assert evaluation.evaluation_dir("dir", None) == "dir/eval"
    assert evaluation.evaluation_dir("dir", "test") == "dir/eval_test"
    with captured_log() as lines:
        evaluation.report(str(tmp_path), {"loss": 0.5, "a": 1, "global_step": 3})
    assert lines == ["Evaluation: a = 1, global_step = 3, loss = 0.5"]
    assert scalars_in(tmp_path) == {"loss": [(3, 0.5)], "a": [(3, 1)]}


def test_numbers_are_written(tmp_path):
    results = {"loss": np.float32(0.5), "hits": 3, "curve": np.zeros(3), "name": b"text", "global_step": np.int64(7)}
    write_results(str(tmp_path / "eval"), results, 7)
    assert scalars_in(tmp_path / "eval") == {"loss": [(7, 0.5)], "hits": [(7, 3.0)]}


def test_results_of_one_second_are_all_kept(tmp_path):
    for step in range(3):
        write_results(str(tmp_path), {"loss": step / 2}, step)
    assert scalars_in(tmp_path)["loss"] == [(0, 0.0), (1, 0.5), (2, 1.0)]
