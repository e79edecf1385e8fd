"""Runs that are shorter than their config says."""

import os

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.log_lines import captured_log
from tests.helpers.toy_training import Line, Recorder, line_input, points
from tpack.callbacks.base import Callback
from tpack.callbacks.inference.inferencers import ScalarStats
from tpack.callbacks.inference.runners import InferenceRunner
from tpack.callbacks.min_max_saver import MinSaver
from tpack.callbacks.saver import ModelSaver
from tpack.callbacks.trigger import PeriodicTrigger
from tpack.dataflow.sources import DataFromList
from tpack.errors import ConfigError, WrongTypeError
from tpack.input_source.feed import FeedInput
from tpack.input_source.queue_input import QueueInput
from tpack.train.config import TrainConfig
from tpack.train.debug_options import DebugOptions
from tpack.train.interface import launch_train_with_config
from tpack.train.trainers import SimpleTrainer, SyncMultiGPUTrainerReplicated


class Seen(Callback):
    """Keeps the first element of what each step used in the first tower."""

    _chief_only = False

    def __init__(self):
        self.values = []

    def _setup_graph(self):
        self.first = tf.train.SessionRunArgs(tf.reshape(self.trainer.towers.training()[0].inputs[0], [-1])[0])

    def _before_run(self, ctx):
        return self.first if ctx.original_args.fetches is self.trainer.train_op else None

    def _after_run(self, ctx, values):
        if values.results is not None:
            self.values.append(float(values.results))


def train(options, *, trainer=SimpleTrainer, callbacks=(), seen=None, **config):
    """Train and return the lines about limits and the recorder."""
    recorder = Recorder()
    config = {"dataflow": DataFromList(points(), shuffle=False), "monitors": [], "max_epoch": 2, **config}
    if config.get("data") is not None:
        del config["dataflow"]
    made = TrainConfig(model=Line(), callbacks=[recorder, *([seen] if seen else []), *callbacks], **config)
    with captured_log() as lines, tf.Graph().as_default():
        launch_train_with_config(made, trainer(), **options)
    return [line for line in lines if line.split("=")[0] in options], recorder


def epochs(recorder):
    """Return (epoch, steps of it) as they were trained."""
    return [(epoch, local) for hook, epoch, local, _ in recorder.calls[1:] if hook == "after_epoch"]


DATA = {
    "flow": {},
    "arrays": {"dataflow": tuple(np.concatenate(part) for part in zip(*points(), strict=True)), "batch_size": 4},
    "fed": {"data": lambda: FeedInput(DataFromList(points(), shuffle=False))},
    "queue": {"data": lambda: QueueInput(DataFromList(points(), shuffle=False))},
    "tf.data": {
        "dataflow": lambda: tf.data.Dataset.from_tensor_slices(
            tuple(np.stack(part) for part in zip(*points(), strict=True))
        )
    },
    "feedfree": {"data": line_input},
}


def data_of(name):
    return {key: value() if key == "data" else value for key, value in DATA[name].items()}


@pytest.mark.parametrize("name", DATA)
def test_few_batches_are_learned_by_heart_whatever_the_input(name, log_dir):
    seen = Seen()
    lines, recorder = train({"overfit_batches": 2}, seen=seen, **data_of(name))
    assert epochs(recorder) == [(1, 2), (2, 2)]
    assert seen.values[:2] == seen.values[2:]
    assert lines == [
        "overfit_batches=2: all steps repeat the data of the first 2, an epoch has 2 steps, and evaluations stay whole."
    ]


@pytest.mark.parametrize("name", DATA)
def test_epochs_are_limited_whatever_the_input(name, log_dir):
    lines, recorder = train({"limit_batches": 3}, **data_of(name))
    assert epochs(recorder) == [(1, 3), (2, 3)]
    assert lines == ["limit_batches=3: an epoch has 3 of 8 steps."]


@pytest.mark.parametrize("name", DATA)
def test_everything_is_tried_once_whatever_the_input(name, log_dir):
    before = sorted(os.listdir(log_dir))
    saver = PeriodicTrigger(ModelSaver(), every_k_steps=1)
    lines, recorder = train({"fast_dev_run": True}, callbacks=[saver, MinSaver("cost")], monitors=None, **data_of(name))
    assert epochs(recorder) == [(1, 1)]
    assert sorted(os.listdir(log_dir)) == before
    assert lines == [
        "fast_dev_run=True: one epoch of 1 step(s), evaluations of at most 1 batch(es), and nothing is saved: "
        "without PeriodicTrigger-ModelSaver, MinSaver(cost), TFEventWriter, JSONWriter."
    ]


def test_towers_have_data_of_their_own(log_dir):
    seen = Seen()
    train(
        {"overfit_batches": 2},
        trainer=lambda: SyncMultiGPUTrainerReplicated(2),
        seen=seen,
        steps_per_epoch=5,
        max_epoch=1,
        steps_per_call=1,
    )
    first = [float(points()[index][0][0]) for index in (0, 2)]
    np.testing.assert_allclose(seen.values, [*first, *first, first[0]])


def test_steps_without_python_use_the_same_data(log_dir):
    _, one = train({"overfit_batches": 2}, steps_per_epoch=6, max_epoch=1)

    class Weights(Callback):
        def _after_train(self):
            self.found = self.trainer.sess.run(tf.trainable_variables())

    by_calls = Weights()
    config = TrainConfig(
        model=Line(),
        dataflow=DataFromList(points(), shuffle=False),
        callbacks=[by_calls],
        monitors=[],
        steps_per_epoch=6,
        steps_per_call=3,
        max_epoch=1,
    )
    with tf.Graph().as_default():
        launch_train_with_config(config, SimpleTrainer(), overfit_batches=2)
    np.testing.assert_allclose(by_calls.found, [one.weights["w"], one.weights["b"]], rtol=1e-5)


@pytest.mark.parametrize(
    ("options", "steps", "batches"),
    [
        ({"limit_batches": 0.5}, 4, 2),
        ({"limit_batches": 1.0}, 8, 5),
        ({"limit_batches": 1}, 1, 1),
        ({"limit_batches": 0.01}, 1, 1),
        ({"limit_batches": 100}, 8, 5),
        ({"fast_dev_run": 3}, 3, 3),
    ],
)
def test_evaluations_are_limited_as_epochs_are(log_dir, options, steps, batches):
    class Counts(ScalarStats):
        num = 0

        def on_fetches(self, results):
            self.num += 1
            super().on_fetches(results)

    stats = Counts("cost")
    runner = InferenceRunner(DataFromList(points()[:5], shuffle=False), stats)
    evaluates = PeriodicTrigger(runner, every_k_epochs=1)
    _, recorder = train(options, callbacks=[evaluates], max_epoch=1, sanity_steps=0)
    assert epochs(recorder) == [(1, steps)]
    assert stats.num == batches


@pytest.mark.parametrize(
    "options",
    [
        {"fast_dev_run": 0},
        {"fast_dev_run": -1},
        {"fast_dev_run": 1.5},
        {"overfit_batches": 0},
        {"overfit_batches": 0.5},
        {"overfit_batches": True},
        {"limit_batches": 0},
        {"limit_batches": 0.0},
        {"limit_batches": 1.5},
        {"limit_batches": float("nan")},
        {"limit_batches": True},
        {"limit_batches": "half"},
        {"fast_dev_run": True, "limit_batches": 2},
        {"fast_dev_run": 1, "overfit_batches": 2},
    ],
)
def test_wrong_limits_are_errors_before_anything_is_built(options):
    trainer = SimpleTrainer()
    with pytest.raises(ConfigError, match="launch_train_with_config got "):
        launch_train_with_config(TrainConfig(model=Line(), data=line_input(), monitors=[]), trainer, **options)
    assert not trainer.graph.get_operations()


def test_wrong_kinds_are_told_apart():
    with pytest.raises(WrongTypeError):
        DebugOptions(limit_batches="half")
    assert DebugOptions() == DebugOptions(False, None, None)
