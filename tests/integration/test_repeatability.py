"""Two runs with one seed and one order of data are bit-identical, whatever the timing of kernels was."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tpack.callbacks.base import Callback
from tpack.dataflow.batch import BatchData
from tpack.dataflow.sources import DataFromList
from tpack.graph_builder.model_desc import ModelDesc
from tpack.train.config import TrainConfig
from tpack.train.interface import launch_train_with_config
from tpack.train.trainers import SimpleTrainer, SyncMultiGPUTrainerParameterServer, SyncMultiGPUTrainerReplicated
from tpack.utils.rng import fix_rng_seed

TRAINERS = {
    "simple": SimpleTrainer,
    "parameter-server-cpu": lambda: SyncMultiGPUTrainerParameterServer(8, "cpu"),
    "parameter-server-gpu": lambda: SyncMultiGPUTrainerParameterServer(8, "gpu"),
    "replicated": lambda: SyncMultiGPUTrainerReplicated(8),
    "hierarchical": lambda: SyncMultiGPUTrainerReplicated(8, mode="hierarchical"),
    "collective": lambda: SyncMultiGPUTrainerReplicated(8, mode="collective"),
}


class Recurrent(ModelDesc):
    """Uses one weight many times, so that its gradient is a sum of many; with dropout and a decaying learning rate."""

    def inputs(self):
        return [tf.TensorSpec([None, 16], tf.float32, "x"), tf.TensorSpec([None], tf.int32, "label")]

    def build_graph(self, x, label):
        weight = tf.get_variable("W", [16, 16])
        states = [x]
        for _ in range(5):
            states.append(tf.nn.dropout(tf.nn.tanh(states[-1] @ weight), rate=0.1))
        logits = tf.add_n(states) @ tf.get_variable("logits", [16, 4])
        return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=label, logits=logits))

    def optimizer(self):
        rate = tf.train.exponential_decay(0.05, tf.train.get_or_create_global_step(), 10, 0.9)
        return tf.train.AdamOptimizer(rate)


class KeepWeights(Callback):
    """Keeps every tower's weights at the end."""

    def _setup_graph(self):
        self._variables = [tower.get_variables(["W", "logits"]) for tower in self.trainer.towers]

    def _after_train(self):
        self.weights = [[value.tobytes() for value in tower] for tower in self.trainer.sess.run(self._variables)]


def trained_weights(trainer):
    fix_rng_seed(11)
    rng = np.random.default_rng(5)
    points = [[rng.normal(size=16).astype("float32"), rng.integers(4)] for _ in range(64)]
    keep = KeepWeights()
    config = TrainConfig(
        model=Recurrent(),
        dataflow=BatchData(DataFromList(points), 8),
        callbacks=[keep],
        monitors=[],
        steps_per_epoch=25,
        max_epoch=2,
    )
    try:
        with trainer.graph.as_default():
            tf.set_random_seed(3)
        launch_train_with_config(config, trainer)
    finally:
        fix_rng_seed(None)
    return keep.weights


@pytest.mark.parametrize("name", TRAINERS)
def test_a_run_can_be_repeated_bit_by_bit(name):
    first, second, third = (trained_weights(TRAINERS[name]()) for _ in range(3))

    assert first == second == third
    assert all(tower == first[0] for tower in first)
