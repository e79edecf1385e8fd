import contextlib
import json
import os
import signal

import numpy as np
import psutil
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.toy_training import Line, Recorder, line_input, points
from tpack.callbacks.base import Callback, CallbackFactory
from tpack.callbacks.saver import ModelSaver
from tpack.dataflow.parallel.process_runner import MultiProcessRunner
from tpack.dataflow.sources import DataFromList
from tpack.errors import ConfigError, MissingNameError
from tpack.graph_builder.model_desc import ModelDescBase
from tpack.tfutils.checkpoint import latest_checkpoint
from tpack.train.config import TrainConfig
from tpack.train.interface import launch_train_with_config
from tpack.train.trainer import Trainer
from tpack.train.trainers import SimpleTrainer, SyncMultiGPUTrainerReplicated


@pytest.mark.parametrize("make_trainer", [SimpleTrainer, lambda: SyncMultiGPUTrainerReplicated(4)])
def test_a_model_is_trained_with_everything_around_it(log_dir, make_trainer):
    recorder = Recorder()
    config = TrainConfig(
        model=Line(),
        dataflow=DataFromList(points(), shuffle=False),
        callbacks=[recorder, ModelSaver()],
        steps_per_epoch=100,
        max_epoch=2,
    )
    launch_train_with_config(config, make_trainer())

    np.testing.assert_allclose([recorder.weights["w"], recorder.weights["b"]], [2, 1], rtol=1e-2)
    assert [entry["epoch_num"] for entry in json.loads((log_dir / "stats.json").read_text())] == [1, 2]
    assert latest_checkpoint(str(log_dir)).endswith("model-200")
    assert list(log_dir.glob("events.out.tfevents.*"))
    assert "w" in (log_dir / "log.log").read_text()


def test_workers_of_the_data_end_with_training(log_dir):
    before = psutil.Process().children()
    ds = MultiProcessRunner(DataFromList(points()), 4, 1)
    seen = []

    class Look(Callback):
        def _trigger(self):
            seen.append([child for child in psutil.Process().children() if child not in before])

    config = TrainConfig(model=Line(), dataflow=ds, callbacks=[Look()], steps_per_epoch=5, max_epoch=1)
    trainer = SimpleTrainer()
    launch_train_with_config(config, trainer)
    assert len(seen) == len(seen[0]) == 1
    assert psutil.Process().children() == before
    # Neither was garbage collected.
    assert trainer.input_source.ds is ds


def test_wrong_arguments_are_errors():
    config = TrainConfig(model=Line(), data=line_input())
    with pytest.raises(ConfigError, match="trainer=a Trainer: expected a SingleCostTrainer"):
        launch_train_with_config(config, Trainer())
    with pytest.raises(ConfigError, match="config=3: expected a TrainConfig"):
        launch_train_with_config(3, SimpleTrainer())
    with pytest.raises(ConfigError, match="config.model=None: expected a ModelDesc"):
        launch_train_with_config(TrainConfig(data=line_input()), SimpleTrainer())
    with pytest.raises(ConfigError, match="config.model=a ModelDescBase: expected a ModelDesc"):
        launch_train_with_config(TrainConfig(model=ModelDescBase(), data=line_input()), SimpleTrainer())


class Odd(Line):
    """A model one of whose methods is wrong."""

    def __init__(self, inputs=None, rate=0.1):
        self._inputs, self._rate = inputs, rate

    def inputs(self):
        return super().inputs() if self._inputs is None else self._inputs[0]

    def optimizer(self):
        return tf.train.MomentumOptimizer(self._rate, 0.9)


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        (None, r"Odd.inputs\(\) returned None: expected a list of tf.TensorSpec"),
        (tf.TensorSpec([], tf.float32, "x"), r"Odd.inputs\(\) returned a TensorSpec: expected a list"),
        ([tf.TensorSpec([], tf.float32, "my x!"), tf.TensorSpec([], tf.float32, "y")], "name='my x!': expected"),
        ([tf.TensorSpec([], tf.float32, "x")], r"build_graph got 1 inputs \(x\): expected a .*, and it has \(x.*, y"),
    ],
)
def test_inputs_that_cannot_be_are_errors_before_anything_is_built(inputs, message):
    trainer = SimpleTrainer()
    with pytest.raises(ConfigError, match=message):
        launch_train_with_config(TrainConfig(model=Odd([inputs]), data=line_input(), monitors=[]), trainer)
    assert not trainer.graph.get_operations()


@pytest.mark.parametrize("rate", [None, "0.1", float("nan"), float("inf"), -0.1, True, [0.1]])
def test_a_learning_rate_that_cannot_be_is_an_error(rate):
    config = TrainConfig(model=Odd(rate=rate), data=line_input(), monitors=[], max_epoch=1, steps_per_epoch=1)
    with pytest.raises(ConfigError, match="MomentumOptimizer got learning_rate=.*: expected a number of at least 0"):
        launch_train_with_config(config, SimpleTrainer())


@pytest.mark.parametrize(
    "rate", [0, np.float32(0.1), np.array(0.1), lambda: 0.1, lambda: tf.constant(0.1), lambda: tf.Variable(0.1)]
)
def test_other_learning_rates_train(rate):
    class Rated(Line):
        def optimizer(self):
            made = rate() if callable(rate) else rate
            return tf.train.AdamOptimizer(made)

    config = TrainConfig(model=Rated(), data=line_input(), monitors=[], max_epoch=1, steps_per_epoch=1)
    trainer = SimpleTrainer()
    launch_train_with_config(config, trainer)
    assert trainer.global_step == 1


class LosesCtrlC(Line):
    """Gets Ctrl-C where Python can only print what is raised, in one of its methods."""

    def __init__(self, method):
        self._method = method

    def _lose_ctrl_c(self, method):
        class Loses:
            def __del__(self):
                with contextlib.suppress(BaseException):
                    os.kill(os.getpid(), signal.SIGINT)

        if method == self._method:
            Loses()

    def build_graph(self, x, y):
        self._lose_ctrl_c("build_graph")
        return super().build_graph(x, y)


@pytest.mark.parametrize("method", ["build_graph", "setup_graph", "before_train"])
def test_ctrl_c_ends_training_wherever_it_comes(log_dir, method):
    model = LosesCtrlC(method)
    callback = CallbackFactory(
        setup_graph=lambda _: model._lose_ctrl_c("setup_graph"),
        before_train=lambda _: model._lose_ctrl_c("before_train"),
    )
    callbacks = [callback, ModelSaver()]
    config = TrainConfig(model=model, data=line_input(), callbacks=callbacks, steps_per_epoch=3, max_epoch=1)
    trainer = SimpleTrainer()
    with pytest.raises(KeyboardInterrupt):
        launch_train_with_config(config, trainer)
    assert trainer.global_step == 0
    assert latest_checkpoint(str(log_dir)) is None


def test_a_trainer_is_used_once():
    trainer = SimpleTrainer()
    config = TrainConfig(model=Line(), data=line_input(), monitors=[], max_epoch=1, steps_per_epoch=1)
    launch_train_with_config(config, trainer)
    again = TrainConfig(model=Line(), data=line_input(), monitors=[], max_epoch=1, steps_per_epoch=1)
    with pytest.raises(ConfigError, match="this SimpleTrainer was used before: use a new one, in a new graph"):
        launch_train_with_config(again, trainer)
    with pytest.raises(ConfigError, match="this SimpleTrainer was used before: use a new one"):
        trainer.train_with_defaults(steps_per_epoch=1)


def test_a_script_may_override_the_loop_with_its_three_numbers():
    calls = []

    class Mine(SimpleTrainer):
        def main_loop(self, steps_per_epoch, starting_epoch, max_epoch):
            calls.append((steps_per_epoch, starting_epoch, max_epoch))
            super().main_loop(steps_per_epoch, starting_epoch, max_epoch)

    config = TrainConfig(model=Line(), data=line_input(), monitors=[], max_epoch=2, steps_per_epoch=3)
    config.starting_step = 1
    trainer = Mine()
    launch_train_with_config(config, trainer)
    assert calls == [(3, 1, 2)]
    assert trainer.global_step == 5


def test_config_that_was_trained_with_is_refused():
    config = TrainConfig(model=Line(), data=line_input(), monitors=[], max_epoch=1)
    with tf.Graph().as_default():
        launch_train_with_config(config, SimpleTrainer())
    message = "launch_train_with_config got a TrainConfig that was trained with before: expected a new one"
    with tf.Graph().as_default(), pytest.raises(ConfigError, match=message):
        launch_train_with_config(config, SimpleTrainer())


class WrittenForOne(Line):
    def build_graph(self, x, y):
        return tf.reduce_mean(tf.layers.dense(x, 1) - y)


def test_a_model_with_names_of_tensorflow_1_is_told_what_to_write(log_dir):
    config = TrainConfig(model=WrittenForOne(), data=line_input(), steps_per_epoch=1, max_epoch=1)
    with pytest.raises(
        MissingNameError, match=r"TensorFlow 2 has no tf.layers.dense, .* write 'import tpack.tf1 as tf'"
    ):
        launch_train_with_config(config, SimpleTrainer())
