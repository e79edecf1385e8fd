"""Towers that create their variables in different orders: every trainer against one tower, checkpoints included."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tpack import EMA, Callback, ModelDesc, ModelSaver, TensorInput, TrainConfig, launch_train_with_config
from tpack.distribute import MirroredStrategy
from tpack.distribute.trainer import StrategyTrainer
from tpack.tower.context import current_tower_context
from tpack.train.trainers import (
    AsyncMultiGPUTrainer,
    SimpleTrainer,
    SyncMultiGPUTrainerHierarchical,
    SyncMultiGPUTrainerParameterServer,
    SyncMultiGPUTrainerReplicated,
)

TRAINERS = {
    "replicated": lambda: SyncMultiGPUTrainerReplicated(2),
    "replicated by a ring": lambda: SyncMultiGPUTrainerReplicated(3, mode="xring"),
    "hierarchical": lambda: SyncMultiGPUTrainerHierarchical(4),
    "parameter server": lambda: SyncMultiGPUTrainerParameterServer(2),
    "async": lambda: AsyncMultiGPUTrainer(2),
    "mirrored": lambda: StrategyTrainer(MirroredStrategy(num_gpus=2)),
}
SLOPES = {"a": 1.0, "b": 5.0, "layer/a": 2.0, "layer/b": 10.0}
STEPS, RATE = 3, 0.01


def weight(name):
    """Make a variable in one of the two ways in which there are some."""
    if name == "b":
        return tf.Variable(0.0, name="b", trainable=True)
    return tf.get_variable(name.rpartition("/")[2], initializer=0.0)


class Model(ModelDesc):
    def __init__(self, optimizer):
        self._make_optimizer = optimizer

    def inputs(self):
        return [tf.TensorSpec([], tf.float32, "x")]

    def build_graph(self, x):
        made = {}
        for scope in ("", "layer"):
            names = [name for name in SLOPES if name.rpartition("/")[0] == scope]
            for name in reversed(names) if current_tower_context().index % 2 else names:
                with tf.variable_scope(scope):
                    made[name] = weight(name)
        return tf.add_n([made[name] * slope for name, slope in SLOPES.items()]) * x

    def optimizer(self):
        return self._make_optimizer()


class Replicas(Callback):
    """Reads what each tower has of the weights when all is over."""

    def _setup_graph(self):
        self._weights = [{name: tower.get_variable(name) for name in SLOPES} for tower in self.trainer.towers]

    def _after_train(self):
        self.values = self.trainer.sess.run(self._weights)


def train(trainer, optimizer, log_dir):
    """Return what each tower has of the weights, and what the checkpoint has of all variables."""
    replicas = Replicas()
    with tf.Graph().as_default():
        config = TrainConfig(
            model=Model(optimizer),
            data=TensorInput(lambda: [tf.constant(1.0)], size=STEPS),
            callbacks=[EMA(0.5), ModelSaver(checkpoint_dir=str(log_dir)), replicas],
            monitors=[],
            steps_per_epoch=STEPS,
            max_epoch=1,
        )
        launch_train_with_config(config, trainer())
    reader = tf.train.load_checkpoint(str(log_dir))
    return replicas.values, {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()}


@pytest.mark.parametrize("name", TRAINERS)
def test_gradients_go_to_the_variables_of_their_names(name, tmp_path):
    values, saved = train(TRAINERS[name], lambda: tf.train.GradientDescentOptimizer(RATE), tmp_path)
    wanted = {weight: -STEPS * RATE * slope for weight, slope in SLOPES.items()}
    for tower in values:
        assert tower == pytest.approx(wanted)
    assert {weight: saved[weight] for weight in SLOPES} == pytest.approx(wanted)


@pytest.mark.parametrize("name", [name for name in TRAINERS if name != "async"])
def test_slots_averages_and_checkpoints_are_those_of_one_tower(name, tmp_path):
    values, saved = train(TRAINERS[name], lambda: tf.train.AdagradOptimizer(RATE), tmp_path / "towers")
    alone, expected = train(SimpleTrainer, lambda: tf.train.AdagradOptimizer(RATE), tmp_path / "alone")
    assert saved.keys() == expected.keys()
    for key, value in expected.items():
        np.testing.assert_allclose(saved[key], value, rtol=1e-6, err_msg=key)
    for tower in values:
        assert tower == pytest.approx(alone[0])
