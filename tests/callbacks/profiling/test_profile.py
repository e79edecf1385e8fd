"""Profiles of models whose input, or whose computation, is known to take the time."""

import itertools
import json
import threading

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.fake_trainer import FakeTrainer
from tests.helpers.log_lines import captured_log
from tests.helpers.toy_training import Line, line_input
from tpack.callbacks.profiling.profile import Profile
from tpack.dataflow.sources import DataFromGenerator
from tpack.errors import CallbackError, StopTraining
from tpack.input_source.feed import FeedInput
from tpack.input_source.queue_input import QueueInput
from tpack.input_source.staging import StagingInput
from tpack.input_source.tensors import TensorInput
from tpack.train.config import TrainConfig
from tpack.train.interface import launch_train_with_config
from tpack.train.trainers import SimpleTrainer, SyncMultiGPUTrainerReplicated

SECS = 0.02
X = np.linspace(-1, 1, 4, dtype="float32")


def slowly(x):
    """Return what is given, a while later."""
    threading.Event().wait(SECS)
    return x


class SlowLine(Line):
    """Takes its time to compute."""

    def build_graph(self, x, y):
        x = tf.ensure_shape(tf.numpy_function(slowly, [x], tf.float32), [4])
        return super().build_graph(tf.stop_gradient(x), y)


def slow_points():
    """Yield points that become slower where the profiled steps take them, far above a loaded machine's own time."""
    for number in itertools.count():
        threading.Event().wait(SECS if number < 52 else 10 * SECS)
        yield [X, 2 * X + 1]


def points():
    while True:
        yield [X, 2 * X + 1]


def slow_tensors():
    x = tf.ensure_shape(tf.numpy_function(slowly, [tf.constant(X)], tf.float32), [4])
    return [x, 2 * x + 1]


def profile(data, model=None, trainer=None, steps=(3, 5), num_steps=10, **options):
    callback = Profile(steps)
    config = TrainConfig(
        model=model or Line(), data=data, callbacks=[callback], steps_per_epoch=num_steps, max_epoch=1, **options
    )
    launch_train_with_config(config, trainer or SimpleTrainer())
    return callback


@pytest.mark.parametrize(
    ("make_data", "make_trainer", "options"),
    [
        (lambda: QueueInput(DataFromGenerator(slow_points)), SimpleTrainer, {}),
        (lambda: QueueInput(DataFromGenerator(slow_points)), SimpleTrainer, {"steps_per_call": 4}),
        (lambda: QueueInput(DataFromGenerator(slow_points)), lambda: SyncMultiGPUTrainerReplicated(2), {}),
        (lambda: StagingInput(QueueInput(DataFromGenerator(slow_points))), SimpleTrainer, {}),
        (lambda: TensorInput(slow_tensors), SimpleTrainer, {}),
        (lambda: FeedInput(DataFromGenerator(slow_points)), SimpleTrainer, {}),
    ],
    ids=["queue", "several steps per call", "towers", "staging", "tensors", "feed"],
)
def test_a_slow_input_is_waited_for(log_dir, make_data, make_trainer, options):
    # After all that the queue of 50 may have taken while the first step was prepared.
    callback = profile(make_data(), trainer=make_trainer(), steps=(57, 59), num_steps=60, **options)
    assert callback.times.waiting_ratio > 0.5
    assert "for data: more workers, or cheaper augmentation" in (log_dir / "profile-57-59.txt").read_text()


@pytest.mark.parametrize(
    ("make_data", "make_trainer", "options"),
    [
        (lambda: QueueInput(DataFromGenerator(points)), SimpleTrainer, {}),
        (lambda: QueueInput(DataFromGenerator(points)), SimpleTrainer, {"steps_per_call": 4}),
        (lambda: QueueInput(DataFromGenerator(points)), lambda: SyncMultiGPUTrainerReplicated(2), {}),
        (lambda: StagingInput(QueueInput(DataFromGenerator(points))), SimpleTrainer, {}),
    ],
    ids=["queue", "several steps per call", "towers", "staging"],
)
def test_a_slow_model_is_not_taken_for_waiting(log_dir, make_data, make_trainer, options):
    callback = profile(make_data(), SlowLine(), make_trainer(), **options)
    times = callback.times
    assert times.waiting_ratio < 0.3
    assert times.computing > times.waiting
    assert times.operations[0].name.endswith("PyFunc")
    assert times.kinds[0].name == "PyFunc"
    assert times.kinds[0].runs == 1.0


def test_all_files_are_written_and_nothing_after_the_steps_is_traced(log_dir):
    with captured_log() as lines:
        callback = profile(line_input())
    events = json.loads((log_dir / "profile-3-5.trace.json").read_text())["traceEvents"]
    assert [event["name"] for event in events if event.get("pid") == 1 and event.get("tid") == 0][1:] == [
        "step 3",
        "step 4",
        "step 5",
    ]
    assert len(list(log_dir.glob("plugins/profile/*/*.xplane.pb"))) == 1
    assert any("TensorBoard's profiler shows steps 6 to 8" in line for line in lines)
    assert any("Profile of steps 3 to 5: steps wait" in line for line in lines)
    assert callback.peaks[0].size_bytes > 0


def test_runs_of_several_steps_are_cut_where_the_trace_begins_and_ends(log_dir):
    data = QueueInput(DataFromGenerator(points))
    profile(data, steps=(4, 6), steps_per_call=10)
    events = json.loads((log_dir / "profile-4-6.trace.json").read_text())["traceEvents"]
    assert "steps 4 to 6" in {event["name"] for event in events}
    assert {event["args"]["operation"] for event in events if event["name"] == "ResourceApplyGradientDescent"} == {
        "train_op/update_w/ResourceApplyGradientDescent",
        "train_op/update_b/ResourceApplyGradientDescent",
    }


def test_what_is_left_of_an_epoch_is_recorded_for_tensorboard(log_dir):
    with captured_log() as lines:
        profile(line_input(), steps=(8, 9))
        tf.reset_default_graph()
        profile(line_input(), steps=(9, 10))
    assert any("shows steps 10 to 10" in line for line in lines)
    assert any("has no steps left in the epoch" in line for line in lines)


def test_a_training_that_is_too_short_is_told(log_dir):
    with captured_log() as lines:
        assert profile(line_input(), steps=(9, 12)).times is None
    assert any("Profile reports nothing: training ended after 10 steps, before step 12" in line for line in lines)
    assert not list(log_dir.glob("profile-*"))


def test_steps_count_from_where_a_run_begins_and_a_subclass_may_end_it(graph, tmp_path):
    class Ends(Profile):
        def _is_finished(self):
            raise StopTraining("enough")

    callback = Ends((1, 2), directory=tmp_path / "new")
    trainer = FakeTrainer()
    with pytest.raises(StopTraining, match="enough"):
        trainer.train([callback], steps_per_epoch=9, epochs=(3, 3), global_step=100)
    assert trainer.global_step == 104
    assert {path.name for path in (tmp_path / "new").iterdir()} == {
        "profile-1-2.txt",
        "profile-1-2.gradients.json",
        "profile-1-2.trace.json",
        "plugins",
    }


def test_a_directory_is_needed(graph):
    with pytest.raises(CallbackError, match="got no directory"):
        FakeTrainer().setup([Profile()])


class Deep(Line):
    """Two layers before the line."""

    def build_graph(self, x, y):
        hidden = tf.reshape(x, [4, 1])
        for n, width in enumerate((30, 20)):
            hidden = tf.nn.relu(hidden @ tf.get_variable(f"layer{n}", [hidden.shape[1], width]))
        return super().build_graph(x + tf.reduce_mean(hidden, 1), y)


@pytest.mark.parametrize(
    ("make_trainer", "optimizer"),
    [(SimpleTrainer, None), (lambda: SyncMultiGPUTrainerReplicated(2), tf.train.AdamOptimizer)],
)
def test_gradients_are_written_with_their_sizes_and_when_they_are_ready(log_dir, make_trainer, optimizer):
    model = Deep()
    if optimizer is not None:
        model.optimizer = lambda: optimizer(0.1)
    profile(QueueInput(DataFromGenerator(points)), model, make_trainer(), steps=(5, 7), num_steps=10)
    found = json.loads((log_dir / "profile-5-7.gradients.json").read_text())
    gradients = {each["name"]: each for each in found["gradients"]}
    assert {name: each["shape"] for name, each in gradients.items()} == {
        "layer0": [1, 30],
        "layer1": [30, 20],
        "w": [],
        "b": [],
    }
    # Backwards, the last layer comes first.
    assert 0 < gradients["layer1"]["ready"] <= gradients["layer0"]["ready"] <= 1
    assert {each["dtype"] for each in gradients.values()} == {"float32"}
    assert found["step_secs"] > 0
    assert found["jitter_secs"] >= 0


def test_steps_in_one_call_have_no_order_of_gradients(log_dir):
    profile(QueueInput(DataFromGenerator(points)), steps=(5, 8), num_steps=12, steps_per_call=4)
    assert (log_dir / "profile-5-8.txt").exists()
    assert not (log_dir / "profile-5-8.gradients.json").exists()
