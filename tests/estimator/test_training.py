"""The steps of training: how many, what is written down, and what ends them."""

import os
import signal

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.event_files import scalars_in
from tests.helpers.log_lines import captured_log
from tpack.errors import ConfigError, GraphBuildError, NumericsError
from tpack.estimator.building import ModelParts, build_model
from tpack.estimator.inputs import GivenInput, Inputs, call_input_fn
from tpack.estimator.run_config import RunConfig
from tpack.estimator.spec import EstimatorSpec
from tpack.estimator.training import TrainLimits, train_model
from tpack.tfutils.checkpoint import CheckpointReader


def counting(features, mode):
    """Adds 0.5 to a variable at each step with an input; the loss is the input."""
    variable = tf.get_variable("v", [], initializer=tf.zeros_initializer())
    loss = tf.cast(features, tf.float32)
    tf.summary.scalar("input", loss)
    with tf.control_dependencies([loss]):
        update = variable.assign_add(0.5)
    with tf.control_dependencies([update.op]):
        train_op = tf.train.get_global_step().assign_add(1)
    return EstimatorSpec(mode, loss=loss, train_op=train_op)


class Told(tf.train.CheckpointSaverListener):
    """Notes the steps that are saved."""

    def __init__(self):
        self.steps = []

    def after_save(self, session, global_step_value):
        self.steps.append(global_step_value)


def numbers(number):
    return lambda: tf.data.Dataset.range(number)


def train(directory, input_fn, *, last_step=None, hooks=(), listeners=(), model=counting, **options):
    parts = ModelParts(model, None, RunConfig(**options), str(directory))
    with tf.Graph().as_default():
        built = build_model(
            parts, "train", lambda: call_input_fn(GivenInput(input_fn), "train", params=None, config=None)
        )
        train_model(parts, built, TrainLimits(last_step, None), hooks, listeners)


def value(directory, name):
    return CheckpointReader(tf.train.latest_checkpoint(str(directory))).read(name)


def test_trains_to_the_end_of_the_data(tmp_path):
    with captured_log() as lines:
        train(tmp_path, numbers(7))
    assert (value(tmp_path, "global_step"), value(tmp_path, "v")) == (7, 3.5)
    assert "The data ended at global step 7." in lines
    assert "Training ended at global step 7 with a loss of 6." in lines


def test_trains_to_the_last_step(tmp_path):
    train(tmp_path, numbers(100), last_step=4)
    assert (value(tmp_path, "global_step"), value(tmp_path, "v")) == (4, 2)


def test_writes_down_losses_summaries_and_speed(tmp_path):
    with captured_log() as lines:
        train(tmp_path, numbers(8), save_summary_steps=3, log_step_count_steps=4)
    found = scalars_in(tmp_path)
    # The first step, and then every third.
    assert found["loss"] == found["input"] == [(1, 0), (4, 3), (7, 6)]
    assert [step for step, _ in found["global_step/sec"]] == [4, 8]
    assert [line.partition(",")[0] for line in lines if line.startswith("Global step")] == [
        "Global step 4: loss 3",
        "Global step 8: loss 7",
    ]


def test_writes_nothing_when_nothing_is_wanted(tmp_path):
    train(tmp_path, numbers(8), save_summary_steps=None, log_step_count_steps=0, save_checkpoints_secs=None)
    assert os.listdir(tmp_path) == []


def test_hooks_see_steps_and_stop(tmp_path):
    class Stop(tf.train.SessionRunHook):
        def before_run(self, run_context):
            return tf.train.SessionRunArgs(tf.train.get_global_step())

        def after_run(self, run_context, run_values):
            if run_context.session.run(tf.train.get_global_step()) == 5:
                run_context.request_stop()

    train(tmp_path, numbers(100), hooks=[Stop(), tf.train.StepCounterHook(2, output_dir=str(tmp_path / "hook"))])
    assert value(tmp_path, "global_step") == 5


def test_tensorflows_own_hooks_work(tmp_path):
    hooks = [
        tf.train.StopAtStepHook(last_step=6),
        tf.train.LoggingTensorHook(["v"], every_n_iter=2),
        tf.train.CheckpointSaverHook(str(tmp_path / "own"), save_steps=2),
    ]
    train(tmp_path, numbers(100), hooks=hooks)
    assert value(tmp_path / "own", "v") == 3
    assert tf.train.latest_checkpoint(str(tmp_path)) is None


def test_hooks_of_the_model_run(tmp_path):
    class Note(tf.train.SessionRunHook):
        def __init__(self):
            self.num_runs = 0

        def after_run(self, run_context, run_values):
            self.num_runs += 1

    hooks = [Note(), Note()]

    def model(features, mode):
        spec = counting(features, mode)
        return spec._replace(training_hooks=hooks[:1], training_chief_hooks=hooks[1:])

    train(tmp_path, numbers(3), model=model)
    assert [hook.num_runs for hook in hooks] == [3, 3]


def test_listeners_stop(tmp_path):
    class Stop(tf.train.CheckpointSaverListener):
        def after_save(self, session, global_step_value):
            return global_step_value >= 4

    train(tmp_path, numbers(100), listeners=[Stop()], save_checkpoints_steps=2)
    assert value(tmp_path, "global_step") == 4


def test_a_loss_that_is_no_number_ends_it(tmp_path):
    def model(features, mode):
        loss = tf.where(features < 3, 1.0, np.nan)
        return EstimatorSpec(mode, loss=loss, train_op=tf.train.get_global_step().assign_add(1))

    with pytest.raises(NumericsError, match="the loss is NaN after global step 4"):
        train(tmp_path, numbers(10), model=model)
    assert value(tmp_path, "global_step") == 0


@pytest.mark.parametrize("by_signal", [False, True])
def test_steps_before_an_interrupt_are_saved(tmp_path, by_signal):
    class Interrupt(tf.train.SessionRunHook):
        def after_run(self, run_context, run_values):
            # The graph has counted this step, and the loop has not.
            if run_context.session.run(tf.train.get_global_step()) == 3:
                if not by_signal:
                    raise KeyboardInterrupt
                signal.raise_signal(signal.SIGINT)

        def end(self, session):
            raise AssertionError("it did not end well")

    listener = Told()
    with captured_log() as lines, pytest.raises(KeyboardInterrupt):
        train(tmp_path, numbers(100), hooks=[Interrupt()], listeners=[listener])
    assert "Training was interrupted at global step 3." in lines
    assert (value(tmp_path, "global_step"), value(tmp_path, "v")) == (3, 1.5)
    assert listener.steps == [0]


def test_an_interrupt_saves_nothing_where_nothing_is_wanted(tmp_path):
    class Interrupt(tf.train.SessionRunHook):
        def after_run(self, run_context, run_values):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(tmp_path, numbers(9), hooks=[Interrupt()], save_checkpoints_secs=None)
    assert tf.train.latest_checkpoint(str(tmp_path)) is None


def test_no_data_at_all_are_warned_of(tmp_path):
    with captured_log() as lines:
        train(tmp_path, numbers(0))
    assert lines[-1] == "Training ended at global step 0 without a step."
    assert value(tmp_path, "global_step") == 0


def test_a_step_that_is_not_counted_is_warned_of(tmp_path):
    def model(features, mode):
        return EstimatorSpec(mode, loss=1.0, train_op=tf.identity(features))

    with captured_log() as lines:
        train(tmp_path, numbers(150), model=model)
    assert len([line for line in lines if "has been 0 for 100 steps" in line]) == 1


def test_listeners_beside_a_saver_hook_are_refused(tmp_path):
    hook = tf.train.CheckpointSaverHook(str(tmp_path), save_steps=1)
    with pytest.raises(ConfigError, match="got saving_listeners and a CheckpointSaverHook"):
        train(tmp_path, numbers(1), hooks=[hook], listeners=[tf.train.CheckpointSaverListener()])


def test_input_may_be_tensors(tmp_path):
    parts = ModelParts(counting, None, RunConfig(), str(tmp_path))
    with tf.Graph().as_default():
        built = build_model(parts, "train", lambda: Inputs(tf.constant(2), None))
        train_model(parts, built, TrainLimits(3, None), (), ())
    assert value(tmp_path, "v") == 1.5


def not_counting(features, mode):
    return EstimatorSpec(mode, loss=1.0, train_op=tf.identity(features))


def test_a_limit_that_is_never_reached_is_an_error_before_the_first_step(tmp_path):
    seen = []

    def read(features, mode):
        return not_counting(tf.py_func(lambda x: seen.append(x) or x, [features], tf.int64), mode)

    with pytest.raises(GraphBuildError, match="nothing in the model increments the global step"):
        train(tmp_path, numbers(10**9), model=read, last_step=2)
    assert seen == []


def test_a_limit_that_is_not_reached_for_long_is_an_error(tmp_path, monkeypatch):
    def model(features, mode):
        tf.assign_add(tf.train.get_global_step(), 1)
        return not_counting(features, mode)

    monkeypatch.setattr("tpack.estimator.training._STUCK_STEPS", 150)
    with pytest.raises(GraphBuildError, match="has been 0 for 150 steps: expected the train_op to"):
        train(tmp_path, numbers(10**9), model=model, last_step=2)


def test_a_step_may_be_counted_now_and_then(tmp_path):
    def model(features, mode):
        step = tf.train.get_global_step()
        counted = tf.cond(tf.equal(features % 3, 2), lambda: tf.assign_add(step, 1).op, tf.no_op)
        return EstimatorSpec(mode, loss=1.0, train_op=counted)

    train(tmp_path, numbers(100), model=model, last_step=2)
    assert value(tmp_path, "global_step") == 2


def test_what_queue_runners_apply_after_the_last_step_is_saved(tmp_path):
    def model(features, mode):
        variable = tf.get_variable("x", [], initializer=tf.zeros_initializer())
        optimizer = tf.train.SyncReplicasOptimizer(tf.train.GradientDescentOptimizer(1.0), replicas_to_aggregate=1)
        loss = tf.square(variable - 1.0) + 0.0 * tf.cast(features, tf.float32)
        train_op = optimizer.minimize(loss, tf.train.get_global_step())
        return EstimatorSpec(mode, loss=loss, train_op=train_op, training_hooks=[optimizer.make_session_run_hook(True)])

    train(tmp_path, numbers(1), model=model)
    assert (value(tmp_path, "global_step"), value(tmp_path, "x")) == (1, 2)
