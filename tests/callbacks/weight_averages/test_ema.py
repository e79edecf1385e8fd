"""Averages of weights against numpy, on every builder; and nobody else ever sees them in the weights' place."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.fake_trainer import FakeTrainer
from tests.helpers.log_lines import captured_log
from tests.helpers.toy_training import Line, line_input, points
from tpack.callbacks.base import Callback, CallbackFactory
from tpack.callbacks.inference.inferencers import ScalarStats
from tpack.callbacks.inference.runners import InferenceRunner
from tpack.callbacks.min_max_saver import MinSaver
from tpack.callbacks.saver import ModelSaver
from tpack.callbacks.trigger import PeriodicTrigger
from tpack.callbacks.weight_averages.ema import EMA
from tpack.dataflow.sources import DataFromList
from tpack.errors import CallbackError, ConfigError
from tpack.tfutils.sessinit import SmartInit
from tpack.train.trainer import Trainer
from tpack.train.trainers import (
    AsyncMultiGPUTrainer,
    SimpleTrainer,
    SyncMultiGPUTrainerParameterServer,
    SyncMultiGPUTrainerReplicated,
)

SUFFIX = "ExponentialMovingAverage"


class Watch(Callback):
    """Reads weight and average after each step."""

    def __init__(self, suffix=SUFFIX):
        self.suffix = suffix
        self.weights, self.averages = [], []

    def _before_train(self):
        variables = {variable.op.name: variable for variable in tf.global_variables()}
        self.reads = [variables["w"], variables[f"w/{self.suffix}"]]

    def _trigger_step(self):
        weight, average = self.trainer.sess.run(self.reads)
        self.weights.append(float(weight))
        self.averages.append(float(average))


class ClimbingTrainer(FakeTrainer):
    """Its weight is 0 and then goes up by 1, 2, 3, ... in steps."""

    def __init__(self):
        tf.get_variable("w", initializer=0.0, use_resource=True)
        step = tf.get_variable("step", initializer=0.0, use_resource=True, trainable=False)
        with tf.variable_scope("", reuse=True):
            self.weight = tf.get_variable("w")
        super().__init__(tf.assign_add(self.weight, step.assign_add(1.0)).op)


def means(weights, decay):
    """Return the weighted mean of the first t weights for each t, in double precision."""
    values = np.array(weights, np.float64)
    powers = [decay ** np.arange(t, -1, -1.0) for t in range(len(values))]
    return [float(np.sum(power * values[: t + 1]) / np.sum(power)) for t, power in enumerate(powers)]


def train_line(trainer, callbacks, **options):
    model = Line()
    trainer.setup_graph(model.get_input_signature(), line_input(None), model.build_graph, model.get_optimizer)
    options = {"steps_per_epoch": 7, "max_epoch": 2, **options}
    trainer.train_with_defaults(callbacks=callbacks, extra_callbacks=[], monitors=[], **options)


@pytest.mark.parametrize("decay", [0.0, 0.9, 0.9999])
@pytest.mark.parametrize(
    "trainer",
    [
        SimpleTrainer,
        lambda: SyncMultiGPUTrainerReplicated(3),
        lambda: SyncMultiGPUTrainerParameterServer(2),
        lambda: AsyncMultiGPUTrainer(2),
    ],
    ids=["simple", "replicated", "parameter server", "async"],
)
def test_averages_are_those_of_numpy_after_every_step(trainer, decay):
    watch = Watch()
    train_line(trainer(), [watch, EMA(decay)])
    assert len(set(watch.weights)) > 7
    np.testing.assert_allclose(watch.averages, means(watch.weights, decay), rtol=2e-5)


def test_a_step_that_does_not_run_the_train_op_with_callbacks_is_averaged_when_it_is_over():
    class Twice(SimpleTrainer):
        def run_step(self):
            self.sess.run(self.train_op)
            self.sess.run(self.train_op)

    watch = Watch()
    train_line(Twice(), [EMA(0.8), watch])
    np.testing.assert_allclose(watch.averages, means(watch.weights, 0.8), rtol=1e-5)


def test_a_trainer_without_a_train_op_has_averages_too():
    class Own(Trainer):
        def __init__(self):
            super().__init__()
            self.climb = tf.get_variable("w", initializer=1.0, use_resource=True).assign_add(2.0).op

        def run_step(self):
            self.hooked_sess.run(self.climb)

    watch = Watch()
    with tf.Graph().as_default():
        Own().train_with_defaults(
            callbacks=[EMA(0.8), watch], extra_callbacks=[], monitors=[], steps_per_epoch=5, max_epoch=1
        )
    assert watch.weights == [3, 5, 7, 9, 11]
    np.testing.assert_allclose(watch.averages, means(watch.weights, 0.8), rtol=1e-6)


@pytest.mark.parametrize("stop_at", [1, 5])
def test_a_resumed_run_has_the_averages_of_an_uninterrupted_one(tmp_path, stop_at):
    whole, first, second = Watch(), Watch(), Watch()
    train_line(SimpleTrainer(), [EMA(0.8), whole])
    # The saver stands before, and saves after a step as well.
    saver = PeriodicTrigger(ModelSaver(checkpoint_dir=str(tmp_path)), every_k_steps=stop_at)
    train_line(SimpleTrainer(), [saver, EMA(0.8), first], steps_per_epoch=stop_at, max_epoch=1)
    restored = SmartInit(str(tmp_path / f"model-{stop_at}"))
    train_line(
        SyncMultiGPUTrainerReplicated(2),
        [EMA(0.8), second],
        steps_per_epoch=14 - stop_at,
        max_epoch=1,
        session_init=restored,
    )
    np.testing.assert_allclose(first.averages + second.averages, whole.averages, rtol=1e-5)


def test_a_checkpoint_without_averages_is_where_averaging_begins(tmp_path):
    watch, at_start = Watch(), []
    train_line(SimpleTrainer(), [ModelSaver(checkpoint_dir=str(tmp_path))], max_epoch=1)
    ema = EMA(0.8)
    read = CallbackFactory(before_train=lambda cb: at_start.append(cb.trainer.sess.run(watch.reads)))
    train_line(SimpleTrainer(), [ema, watch, read], session_init=SmartInit(str(tmp_path / "model-7")))
    weight, average = at_start[0]
    assert weight == average != 0
    np.testing.assert_allclose(watch.averages, means(watch.weights, 0.8), rtol=1e-5)


class Reading(Callback):
    """Reads the weight when triggered."""

    def __init__(self, error=None):
        self.seen = []
        self.error = error

    def _trigger(self):
        self.seen.append(float(self.trainer.sess.run(self.trainer.weight)))
        if self.error is not None:
            raise self.error


def test_only_the_wrapped_callback_sees_averages(graph):
    ema, plain, wrapped, watch = EMA(0.5), [Reading(), Reading()], Reading(), Watch()
    trainer = ClimbingTrainer()
    trainer.train([plain[0], ema.evaluate(wrapped), ema, plain[1], watch], steps_per_epoch=2, epochs=(1, 5))
    ends = slice(1, None, 2)
    assert plain[0].seen == plain[1].seen == watch.weights[ends] == [3, 10, 21, 36, 55]
    assert wrapped.seen == watch.averages[ends]
    np.testing.assert_allclose(watch.averages, means(watch.weights, 0.5), rtol=1e-6)


def test_inference_on_averages_and_on_weights_side_by_side():
    validation = DataFromList(points(), shuffle=False)
    x, y = (np.concatenate(part) for part in zip(*points(), strict=True))
    ema, variables, found = EMA(0.7), {}, []

    def read(callback):
        trainer = callback.trainer
        names = ["w", "b", f"w/{SUFFIX}", f"b/{SUFFIX}"]
        w, b, mean_w, mean_b = trainer.sess.run([variables[name] for name in names])
        expected = [np.mean((mean_w * x + mean_b - y) ** 2), np.mean((w * x + b - y) ** 2)]
        np.testing.assert_allclose(
            [trainer.monitors.get_latest(n) for n in ("ema_cost", "validation_cost")], expected, rtol=1e-5
        )
        found.append(expected)

    callbacks = [
        CallbackFactory(
            setup_graph=lambda _: variables.update({v.op.name: v for v in tf.global_variables()}), trigger=read
        ),
        ema.evaluate(InferenceRunner(validation, ScalarStats("cost", prefix="ema"), "OnAverages")),
        ema,
        InferenceRunner(validation, ScalarStats("cost")),
    ]
    # Statistics are read after all were reported.
    callbacks[0].reads_statistics = True
    train_line(SyncMultiGPUTrainerReplicated(2), callbacks, max_epoch=3)
    assert len(found) == 3
    assert all(averaged > plain for averaged, plain in found)


def test_weights_come_back_after_an_error_which_is_the_one_to_see(graph):
    ema = EMA(0.5)
    trainer = ClimbingTrainer()
    trainer.setup([ema, ema.evaluate(Reading(OSError("mine")))])
    with trainer.sess:
        trainer.callbacks.before_train()
        for _ in range(3):
            trainer.hooked_sess.run(trainer.train_op)
            ema.trigger_step()
        with pytest.raises(OSError, match="mine"):
            trainer.callbacks.trigger_epoch()
        assert trainer.sess.run(trainer.weight) == 6
        with ema.averages_in_use(), ema.averages_in_use():
            np.testing.assert_allclose(trainer.sess.run(trainer.weight), means([1, 3, 6], 0.5)[-1], rtol=1e-6)
        assert trainer.sess.run(trainer.weight) == 6


def test_an_error_that_closes_the_session_is_the_one_to_see(graph):
    ema = EMA(0.5)
    trainer = ClimbingTrainer()
    trainer.setup([ema])

    def break_off():
        with ema.averages_in_use():
            trainer.sess.close()
            raise OSError("mine")

    with captured_log() as lines, pytest.raises(OSError, match="mine"):
        break_off()
    assert "cannot put the weights back, is the session closed already?" in lines[-1]


def test_checkpoints_hold_weights_or_averages_as_asked(graph, log_dir):
    ema, watch = EMA(0.5), Watch()
    best = ema.evaluate(MinSaver("epoch", filename="averages"))
    report = CallbackFactory(trigger=lambda cb: cb.trainer.monitors.put_scalar("epoch", cb.epoch_num))
    # Savers stand before the EMA, whose variables they save too.
    ClimbingTrainer().train([ModelSaver(), best, report, ema, watch], epochs=(1, 1), steps_per_epoch=4)
    weights = tf.train.load_checkpoint(str(log_dir / "model-4"))
    averages = tf.train.load_checkpoint(str(log_dir / "averages"))
    assert weights.get_tensor("w") == averages.get_tensor(f"w/{SUFFIX}") == watch.weights[-1]
    assert averages.get_tensor("w") == weights.get_tensor(f"w/{SUFFIX}") == watch.averages[-1]
    assert weights.get_tensor(f"{SUFFIX}/num_updates") == 4


def test_two_averages_need_two_names(graph):
    slow, fast, watches = EMA(0.99), EMA(0.5, name="fast"), [Watch(), Watch("fast")]
    ClimbingTrainer().train([slow, fast, *watches], steps_per_epoch=4)
    for watch, decay in zip(watches, (0.99, 0.5), strict=True):
        np.testing.assert_allclose(watch.averages, means(watch.weights, decay), rtol=1e-5)
    with type(graph)().as_default(), pytest.raises(CallbackError, match=f"name='{SUFFIX}', which is taken"):
        ClimbingTrainer().train([EMA(0.5), EMA(0.9)])


def test_averages_lie_where_their_variables_lie(graph):
    with tf.device("/cpu:3"):
        tf.get_variable("there", initializer=1.0, use_resource=True)
    FakeTrainer().setup([EMA(0.5)])
    found = {v.op.name: v.device for v in tf.global_variables() if v.op.name.endswith(SUFFIX)}
    assert found == {f"there/{SUFFIX}": "/device:CPU:3", f"w/{SUFFIX}": ""}


def test_misuse_is_an_error(graph):
    for decay in (-0.1, 1, 2):
        with pytest.raises(ConfigError, match=r"decay=.*: expected a number in \[0, 1\)"):
            EMA(decay)
    trainer = FakeTrainer(tf.no_op())
    with pytest.raises(CallbackError, match="got no trainable variables"):
        trainer.setup([EMA()])
    with pytest.raises(
        CallbackError, match=r"^EMA is used by a callback .*: expected it among .*set_chief_only\(True\)"
    ):
        trainer.setup([EMA().evaluate(Reading())])
    tf.get_variable("old", initializer=1.0, use_resource=False)
    with pytest.raises(CallbackError, match="got old, a reference variable: expected resource variables"):
        trainer.setup([EMA()])
