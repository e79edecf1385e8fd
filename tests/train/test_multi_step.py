"""Training with several steps in each run of the session is training with one, bit for bit."""

import os
import signal

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.toy_training import Line, Recorder, points
from tpack.callbacks.base import Callback, WithSteps
from tpack.callbacks.monitors.base import MonitorBase
from tpack.callbacks.nan_checks import CheckNumerics
from tpack.callbacks.param_setters import ScheduledHyperParamSetter
from tpack.callbacks.progress import ProgressBar
from tpack.callbacks.saver import ModelSaver
from tpack.callbacks.summary import MergeAllSummaries
from tpack.callbacks.tensors import TensorPrinter
from tpack.callbacks.trigger import PeriodicCallback, PeriodicTrigger
from tpack.callbacks.weight_averages.ema import EMA
from tpack.dataflow.repeat import FixedSizeData
from tpack.dataflow.sources import DataFromList
from tpack.distribute.strategies import MirroredStrategy
from tpack.distribute.trainer import StrategyTrainer
from tpack.errors import ConfigError, DataExhaustedError, StopTraining
from tpack.graph_builder.model_desc import ModelDesc
from tpack.input_source.dataset import TFDatasetInput
from tpack.input_source.feed import FeedInput
from tpack.input_source.queue_input import QueueInput
from tpack.input_source.staging import StagingInput
from tpack.input_source.tensors import TensorInput
from tpack.models.dropout import Dropout
from tpack.tfutils.summary import add_moving_summary
from tpack.train.config import DEFAULT_CALLBACKS, TrainConfig
from tpack.train.interface import launch_train_with_config
from tpack.train.resume import AutoResumeTrainConfig
from tpack.train.trainers import (
    NoOpTrainer,
    SimpleTrainer,
    SyncMultiGPUTrainerParameterServer,
    SyncMultiGPUTrainerReplicated,
)

STEPS_PER_EPOCH, LAST_EPOCH = 10, 2


def flow():
    return DataFromList(points(), shuffle=False)


def line_input_of_four():
    x, y = points()[0]
    return TensorInput(lambda: [tf.constant(x), tf.constant(y)])


class Model(ModelDesc):
    """Draws random numbers of both kinds, has a schedule, a moving average and summaries."""

    def __init__(self, at_each_step=None):
        self._at_each_step = at_each_step

    def inputs(self):
        return [tf.TensorSpec([4], tf.float32, "x"), tf.TensorSpec([4], tf.float32, "y")]

    def build_graph(self, x, y):
        w, b = (tf.get_variable(name, [], initializer=tf.zeros_initializer()) for name in "wb")
        hidden = Dropout("dropout", w * x + 0.1, rate=0.3)
        cost = tf.reduce_mean(tf.square(hidden + b - y), name="cost")
        if self._at_each_step is None:
            # A run that resumes gets other numbers of this kind.
            cost *= tf.random_uniform([], 0.9, 1.1, seed=4)
        else:
            step = tf.train.get_or_create_global_step()
            cost += tf.reshape(tf.numpy_function(self._at_each_step, [step], tf.float32), [])
        add_moving_summary(cost)
        tf.summary.histogram("x", x)
        return cost

    def optimizer(self):
        rate = tf.get_variable("learning_rate", initializer=0.05, trainable=False)
        decayed = tf.train.exponential_decay(rate, tf.train.get_or_create_global_step(), 3, 0.9)
        return tf.train.MomentumOptimizer(decayed, 0.9)


class Kept(MonitorBase):
    """Keeps what was reported, but for how long things took."""

    def __init__(self):
        self.reported = []

    def process_summary(self, summary):
        values = [value for value in summary.value if "queue" not in value.tag and "wait" not in value.tag]
        self.reported += [(self.global_step, value.SerializeToString()) for value in values]


class Values(Recorder):
    """Keeps the variables, and where training stands between epochs; it sees no steps."""

    _before_run, _after_run, _trigger_step = Callback._before_run, Callback._after_run, Callback._trigger_step


def train(make_trainer, data, steps_per_call, callbacks=(), at_each_step=None, make_config=TrainConfig):
    """Return the variables, what was reported and the counters."""
    values, kept = Values(), Kept()
    with tf.Graph().as_default():
        tf.set_random_seed(1)
        config = make_config(
            model=Model(at_each_step),
            data=data,
            callbacks=[values, *callbacks],
            extra_callbacks=DEFAULT_CALLBACKS(),
            monitors=[kept],
            steps_per_epoch=STEPS_PER_EPOCH,
            max_epoch=LAST_EPOCH,
            steps_per_call=steps_per_call,
        )
        trainer = make_trainer()
        trainer.executor = "pool"
        launch_train_with_config(config, trainer)
    return {name: value.tobytes() for name, value in values.weights.items()}, kept.reported, values.calls


CASES = {
    "simple": (SimpleTrainer, lambda: QueueInput(flow())),
    "replicated": (lambda: SyncMultiGPUTrainerReplicated(2), lambda: StagingInput(QueueInput(flow()))),
    "parameter server": (lambda: SyncMultiGPUTrainerParameterServer(2), lambda: TFDatasetInput(flow())),
    "strategy": (lambda: StrategyTrainer(MirroredStrategy(num_gpus=2)), lambda: QueueInput(flow())),
}


@pytest.mark.parametrize("name", CASES)
def test_several_steps_a_call_are_as_many_single_ones(log_dir, name):
    make_trainer, make_data = CASES[name]
    assert train(make_trainer, make_data(), 4) == train(make_trainer, make_data(), 1)


class Steps(Callback):
    """Notes after which steps it was called."""

    def __init__(self):
        self.noted = []

    def _trigger(self):
        self.noted.append((self.local_step, self.global_step, self.trainer.sess.run(tf.train.get_global_step())))


class Announcing(ProgressBar):
    """Notes before and after each run what it is told, and shows the cost."""

    def __init__(self):
        super().__init__(["cost"])
        self.runs = []

    def _before_run(self, ctx):
        self.runs.append((self.local_step, self.coming_step))
        return super()._before_run(ctx)

    def _with_several_steps(self):
        return super()._with_several_steps()


def test_callbacks_that_act_every_so_many_steps_do_so_at_the_same_steps(log_dir):
    def callbacks(steps, shown):
        return [
            PeriodicTrigger(steps, every_k_steps=6),
            ScheduledHyperParamSetter("learning_rate", [(7, 0.02), (13, 0.01)], step_based=True),
            EMA(0.9),
            CheckNumerics(),
            MergeAllSummaries(period=5),
            shown,
        ]

    steps, shown, again = Steps(), Announcing(), Steps()
    several = train(SimpleTrainer, QueueInput(flow()), 100, callbacks(steps, shown))
    assert steps.noted == [(6, 6, 6), (2, 12, 12), (8, 18, 18)]
    assert shown.runs == [(0, 5), (5, 6), (6, 7), (7, 10), (0, 2), (2, 3), (3, 5), (5, 8), (8, 10)]
    assert several == train(SimpleTrainer, QueueInput(flow()), 1, callbacks(again, Announcing()))
    assert again.noted == steps.noted


class StopAt(Callback):
    """Ends training after a step."""

    def _trigger(self):
        if self.global_step == 6:
            raise StopTraining("the test wants it")


def saving(*others):
    return [PeriodicTrigger(ModelSaver(), every_k_steps=3, every_k_epochs=1), *others]


@pytest.mark.parametrize("end", ["stop", "signal"])
def test_a_run_that_was_ended_is_resumed_bit_for_bit(log_dir, end):
    made = []

    def at_each_step(step):
        # Not by the step, which is read before or after it is counted.
        made.append(step)
        if len(made) == 5:
            os.kill(os.getpid(), signal.SIGTERM)
        return np.float32(0)

    def run(steps_per_call, at_each_step=lambda step: np.float32(0), callbacks=()):
        return train(
            SimpleTrainer, QueueInput(flow()), steps_per_call, saving(*callbacks), at_each_step, AutoResumeTrainConfig
        )

    if end == "stop":
        run(5, callbacks=[PeriodicTrigger(StopAt(), every_k_steps=3)])
    else:
        with pytest.raises(SystemExit):
            run(5, at_each_step)
    weights, _, calls = run(5)
    before_train = next(call for call in calls if call[0] == "before_train")
    assert 3 <= before_train[3] <= 10
    for path in log_dir.glob("*"):
        path.unlink()
    assert weights == run(1)[0]


def test_a_signal_ends_a_long_run_after_the_step_that_is_being_made(log_dir):
    made = []

    def at_each_step(step):
        made.append(int(step))
        if len(made) == 3:
            os.kill(os.getpid(), signal.SIGTERM)
        return np.float32(0)

    saver = ModelSaver()
    values = Values()
    with tf.Graph().as_default(), pytest.raises(SystemExit):
        launch_train_with_config(
            TrainConfig(
                model=Model(at_each_step),
                data=line_input_of_four(),
                callbacks=[saver, values],
                steps_per_epoch=10**9,
                max_epoch=1,
                steps_per_call=10**9,
            ),
            SimpleTrainer(),
        )
    hook, epoch, local_step, global_step = values.calls[-1]
    assert (hook, epoch, local_step) == ("after_train", 1, global_step)
    assert global_step == len(made) == values.weights["global_step"]
    assert os.path.exists(log_dir / f"model-{global_step}.index")


def test_steps_before_one_that_fails_are_counted(log_dir):
    values = Values()
    with tf.Graph().as_default(), pytest.raises(DataExhaustedError, match="found no more data"):
        launch_train_with_config(
            TrainConfig(
                model=Line(),
                data=TFDatasetInput(TFDatasetInput.dataflow_to_dataset(FixedSizeData(flow(), 7), [tf.float32] * 2)),
                callbacks=[values],
                steps_per_epoch=10,
                max_epoch=1,
                steps_per_call=10,
            ),
            SimpleTrainer(),
        )
    assert values.calls[-1] == ("after_train", 1, 7, 7)


class Curious(ProgressBar):
    """Looks at each step, which the bar itself does not."""

    def _trigger_step(self):
        super()._trigger_step()


class CuriousTrigger(Recorder):
    """Is triggered, and looks at each step besides."""

    def _trigger(self):
        self._note("trigger")


@pytest.mark.parametrize(
    ("make_data", "callbacks", "names"),
    [
        (lambda: FeedInput(flow()), [], "FeedInput"),
        (line_input_of_four, [TensorPrinter(["cost"]), Recorder()], "TensorPrinter, Recorder"),
        (line_input_of_four, [Curious()], "Curious"),
        (line_input_of_four, [PeriodicCallback(Recorder(), every_k_steps=2)], "PeriodicCallback-Recorder"),
        (line_input_of_four, [PeriodicTrigger(CuriousTrigger(), every_k_steps=2)], "PeriodicTrigger-Curious"),
    ],
)
def test_callbacks_that_see_each_step_are_named(make_data, callbacks, names):
    with pytest.raises(
        ConfigError, match=f"steps_per_call got 2: expected 1 with callbacks that need each step: {names}"
    ):
        train(SimpleTrainer, make_data(), 2, callbacks)


@pytest.mark.parametrize(
    ("make_trainer", "steps_per_call", "message"),
    [
        (SimpleTrainer, 0, "steps_per_call=0: expected an integer of at least 1"),
        (NoOpTrainer, 2, "NoOpTrainer overrides run_step and got steps_per_call=2: expected 1"),
    ],
)
def test_numbers_and_trainers_that_cannot_be_are_errors(make_trainer, steps_per_call, message):
    with pytest.raises(ConfigError, match=message):
        train(make_trainer, line_input_of_four(), steps_per_call)


@pytest.mark.parametrize(
    ("make_request", "message"),
    [
        (lambda other: other, "a run of several steps fetches .*other:0, which with_several_steps did not announce"),
        (lambda other: tf.train.SessionRunArgs([], {other: 1.0}), "a callback feeds or sets options"),
    ],
)
def test_what_a_callback_did_not_announce_is_an_error(make_request, message):
    class Unannounced(Callback):
        def _setup_graph(self):
            self._request = make_request(tf.constant(1.0, name="other"))

        def _before_run(self, ctx):
            return self._request

        def _with_several_steps(self):
            return WithSteps()

    with pytest.raises(ConfigError, match=message):
        train(SimpleTrainer, line_input_of_four(), 2, [Unannounced()])
