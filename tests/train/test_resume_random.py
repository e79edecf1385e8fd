"""A run that was resumed draws the random numbers that an uninterrupted one draws."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.toy_training import Recorder, line_input
from tpack.callbacks.base import Callback, CallbackFactory
from tpack.callbacks.saver import ModelSaver
from tpack.callbacks.trigger import PeriodicTrigger
from tpack.distribute.strategies import MirroredStrategy
from tpack.distribute.trainer import StrategyTrainer
from tpack.errors import StopTraining
from tpack.graph_builder.model_desc import ModelDesc
from tpack.models.dropout import Dropout
from tpack.train.interface import launch_train_with_config
from tpack.train.resume import AutoResumeTrainConfig
from tpack.train.trainers import (
    AsyncMultiGPUTrainer,
    SimpleTrainer,
    SyncMultiGPUTrainerParameterServer,
    SyncMultiGPUTrainerReplicated,
)

TRAINERS = {
    "simple": SimpleTrainer,
    "replicated": lambda: SyncMultiGPUTrainerReplicated(3),
    "parameter-server": lambda: SyncMultiGPUTrainerParameterServer(2),
    "mirrored": lambda: StrategyTrainer(MirroredStrategy(num_gpus=2)),
}


class Dropped(ModelDesc):
    """Drops twice on the way to the cost; `mask` is what the first one left of ones."""

    def inputs(self):
        return [tf.TensorSpec([None], tf.float32, "x"), tf.TensorSpec([None], tf.float32, "y")]

    def build_graph(self, x, y):
        tf.identity(Dropout("noted", tf.ones([64]), keep_prob=0.5), name="mask")
        tf.random_normal([4], seed=3, name="noise")
        w = tf.get_variable("w", [], initializer=tf.zeros_initializer())
        hidden = Dropout(Dropout("first", w * x, keep_prob=0.7), rate=0.2)
        return tf.reduce_mean(tf.square(hidden + Dropout(x, rate=0.1) - y), name="cost")

    def optimizer(self):
        return tf.train.MomentumOptimizer(0.05, 0.9)


class Masks(Callback):
    """Keeps what each tower dropped at each step, and the noise of the first."""

    def __init__(self):
        self.masks, self.noise = {}, {}

    def _setup_graph(self):
        towers = self.trainer.towers.training()
        self._fetches = [[tower["mask"] for tower in towers], towers[0]["noise"]]

    def _before_run(self, ctx):
        return tf.train.SessionRunArgs(self._fetches)

    def _after_run(self, ctx, values):
        masks, self.noise[self.global_step] = values.results
        self.masks[self.global_step] = np.stack(masks)


def train(make_trainer, stop_at=None, max_epoch=3, seed=1):
    """Train, from where the log directory is, and return the callbacks that tell what happened."""

    def check(callback):
        if callback.global_step == stop_at:
            raise StopTraining("the test wants it")

    masks, recorder = Masks(), Recorder()
    stop = PeriodicTrigger(CallbackFactory(trigger=check), every_k_steps=1)
    with tf.Graph().as_default():
        tf.set_random_seed(seed)
        config = AutoResumeTrainConfig(
            model=Dropped(),
            data=line_input(),
            callbacks=[PeriodicTrigger(ModelSaver(), every_k_steps=3, every_k_epochs=1), masks, recorder, stop],
            steps_per_epoch=5,
            max_epoch=max_epoch,
        )
        launch_train_with_config(config, make_trainer())
    return masks, recorder


def cleared(log_dir):
    for path in log_dir.glob("*"):
        path.unlink()


@pytest.mark.parametrize("name", TRAINERS)
def test_dropout_of_a_resumed_run_is_that_of_an_uninterrupted_one(log_dir, name):
    train(TRAINERS[name], stop_at=6)
    resumed_masks, resumed = train(TRAINERS[name])
    cleared(log_dir)
    whole_masks, whole = train(TRAINERS[name])
    assert min(resumed_masks.masks) > 5
    assert resumed.weights == whole.weights
    for step, masks in resumed_masks.masks.items():
        np.testing.assert_array_equal(masks, whole_masks.masks[step])


@pytest.mark.parametrize("name", ["replicated", "mirrored"])
def test_masks_differ_by_tower_and_step(log_dir, name):
    masks, _ = train(TRAINERS[name])
    seen = [tower.tobytes() for step in masks.masks.values() for tower in step]
    assert len(seen) == len(set(seen)) == 15 * len(masks.masks[max(masks.masks)])


def test_another_seed_drops_something_else(log_dir):
    first, _ = train(SimpleTrainer, max_epoch=1)
    cleared(log_dir)
    second, _ = train(SimpleTrainer, max_epoch=1, seed=2)
    cleared(log_dir)
    without, _ = train(SimpleTrainer, max_epoch=1, seed=None)
    seen = {masks[min(masks)].tobytes() for masks in (first.masks, second.masks, without.masks)}
    assert len(seen) == 3


def test_other_random_operations_do_not_begin_anew(log_dir):
    first, _ = train(SimpleTrainer, stop_at=6)
    resumed, _ = train(SimpleTrainer)
    seen = [noise.tobytes() for run in (first, resumed) for noise in run.noise.values()]
    assert len(seen) == len(set(seen)) > 10


def test_asynchronous_towers_have_masks_of_their_own(log_dir):
    masks, _ = train(lambda: AsyncMultiGPUTrainer(2))
    assert all(a.tobytes() != b.tobytes() for a, b in masks.masks.values())
