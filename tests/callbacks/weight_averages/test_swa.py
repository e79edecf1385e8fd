"""Means of the weights at the ends of epochs, against numpy."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.fake_trainer import FakeTrainer
from tests.helpers.toy_inference import make_trainer
from tests.helpers.toy_training import Line, line_input
from tpack.callbacks.base import Callback
from tpack.callbacks.saver import ModelSaver
from tpack.callbacks.trigger import PeriodicTrigger
from tpack.callbacks.weight_averages.ema import EMA
from tpack.callbacks.weight_averages.swa import SWA
from tpack.dataflow.batch import BatchData
from tpack.dataflow.sources import DataFromList
from tpack.errors import CallbackError, ConfigError, WrongTypeError
from tpack.input_source.queue_input import QueueInput
from tpack.tfutils.sessinit import SmartInit
from tpack.train.trainers import SimpleTrainer, SyncMultiGPUTrainerReplicated


class Watch(Callback):
    """Reads the weight after each step, and the weight and its mean when triggered."""

    def __init__(self, name="SWA"):
        self.name = name
        self.weights, self.means, self.seen = [], [], []

    def _before_train(self):
        variables = {variable.op.name: variable for variable in tf.global_variables()}
        self.weight, self.mean = variables["w"], variables[f"w/{self.name}"]

    def _trigger_step(self):
        self.weights.append(self.trainer.sess.run(self.weight))

    def _trigger_epoch(self):
        self.means.append(self.trainer.sess.run(self.mean))
        self.trigger()

    def _trigger(self):
        self.seen.append(self.trainer.sess.run(self.weight))


class Seen(Watch):
    """Reads the weight when triggered, and takes no part in steps."""

    def implements(self, hook):
        return hook != "trigger_step" and super().implements(hook)


def train_line(trainer, callbacks, **options):
    model = Line()
    trainer.setup_graph(model.get_input_signature(), line_input(None), model.build_graph, model.get_optimizer)
    options = {"steps_per_epoch": 3, "max_epoch": 5, **options}
    trainer.train_with_defaults(callbacks=callbacks, extra_callbacks=[], monitors=[], **options)


@pytest.mark.parametrize(
    "make", [SimpleTrainer, lambda: SyncMultiGPUTrainerReplicated(2)], ids=["simple", "replicated"]
)
def test_means_are_those_of_the_weights_at_the_ends_of_epochs(make):
    watch, plain, swa = Watch(), Seen(), SWA(start_epoch=3)
    evaluated = Seen()
    train_line(make(), [swa.evaluate(evaluated), watch, plain, swa])
    ends = np.array(watch.weights[2::3], np.float64)
    expected = [np.mean(ends[2 : epoch + 1]) for epoch in (2, 3, 4)]
    np.testing.assert_array_equal(watch.means[:2], [0, 0])
    np.testing.assert_allclose(watch.means[2:], expected, rtol=1e-6)
    # Until there is a mean, the weights are what is evaluated; and nobody else sees the mean in their place.
    np.testing.assert_array_equal(evaluated.seen, [*ends[:2].astype(np.float32), *watch.means[2:]])
    np.testing.assert_array_equal(plain.seen, ends.astype(np.float32))


@pytest.mark.parametrize("steps_per_call", [1, 4])
def test_weights_are_taken_every_so_many_steps_however_many_are_one_run(steps_per_call):
    """From the first step of the epoch on: after the steps 4, 6 and 8 of epochs of three."""
    watch, seen, trainer = Watch(), Seen("often"), SimpleTrainer()
    train_line(SimpleTrainer(), [SWA(), watch], max_epoch=3)
    trainer.steps_per_call = steps_per_call
    train_line(trainer, [seen, SWA(2, every_steps=2, name="often")], max_epoch=3)
    taken = np.array(watch.weights, np.float64)[[3, 5, 7]]
    np.testing.assert_allclose(seen.means, [0, taken[:2].mean(), taken.mean()], rtol=1e-6)


@pytest.mark.parametrize("stop_at", [5, 6])
def test_a_resumed_run_has_the_bits_of_an_uninterrupted_one(tmp_path, stop_at):
    """Also where it resumes from a checkpoint of the last step of an epoch, whose end it goes through again."""
    whole, second = Watch(), Watch()
    train_line(SimpleTrainer(), [SWA(2), whole], max_epoch=4)
    saver = PeriodicTrigger(ModelSaver(checkpoint_dir=str(tmp_path)), every_k_steps=stop_at)
    train_line(SimpleTrainer(), [saver, SWA(2)], max_epoch=2)
    restored = SmartInit(str(tmp_path / f"model-{stop_at}"))
    train_line(
        SimpleTrainer(),
        [SWA(2), second],
        max_epoch=4,
        starting_epoch=2,
        starting_step=stop_at - 3,
        session_init=restored,
    )
    np.testing.assert_array_equal(second.means, whole.means[1:])


def test_weights_that_count_already_do_not_count_twice(graph):
    swa, watch = SWA(), Watch()
    trainer = FakeTrainer()
    trainer.setup([swa, watch])
    with trainer.sess:
        trainer.callbacks.before_train()
        for step in (2, 2, 4):
            trainer.global_step, trainer.epoch_num = step, 1
            trainer.weight.load(float(step), trainer.sess)
            trainer.callbacks.after_epoch()
        assert trainer.sess.run(watch.mean) == 3


def endless():
    while True:
        yield [0]


def test_misuse_is_an_error():
    with pytest.raises(ConfigError, match="batch_norm_steps or batch_size: expected batch_norm_data"):
        SWA(batch_norm_steps=3)
    with pytest.raises(ConfigError, match="SWA got a tf.data.Dataset"):
        SWA(batch_norm_data=lambda: None)
    with pytest.raises(ConfigError, match="of unknown size: expected batch_norm_steps"):
        EMA(batch_norm_data=endless)
    with pytest.raises(WrongTypeError, match="SWA cannot take its batch_norm_data: the data are 5"):
        SWA(batch_norm_data=5)
    with tf.Graph().as_default(), pytest.raises(CallbackError, match="expected a trainer with a training tower"):
        FakeTrainer().setup([SWA(batch_norm_data=DataFromList([[0]]))])
    with tf.Graph().as_default(), pytest.raises(CallbackError, match="batch_norm_data that training reads too"):
        trainer = make_trainer()
        points = DataFromList([[0, 0]])
        trainer.input_source = QueueInput(points)
        trainer.setup([SWA(batch_norm_data=BatchData(points, 1))])
    with pytest.raises(CallbackError, match="training updates no statistics"):
        train_line(SimpleTrainer(), [SWA(batch_norm_data=DataFromList([[0]]))])
