"""What `recovery.py` starts: a training that saves its steps, and prints the number of its process and of each step.

Its arguments are a folder and a network: ``tiny``, two layers in one tower, or ``resnet50`` in two towers.
"""

import os
import sys
import time

import numpy as np
import resnet50
import tensorflow.compat.v1 as tf

from tpack import AutoResumeTrainConfig, Callback, ModelDesc, ModelSaver, PeriodicTrigger, launch_train_with_config
from tpack.dataflow import BatchData, DataFromList, ShardData
from tpack.multi_worker.replicated_trainer import MultiWorkerTrainerReplicated
from tpack.utils import logger

SHAPES = {"tiny": [64], "resnet50": [64, 64, 3]}
TOWERS = {"tiny": 1, "resnet50": 2}


class Model(ModelDesc):
    """One of the networks, trained by Adam or momentum."""

    def __init__(self, network):
        super().__init__()
        self._network = network

    def inputs(self):
        return [tf.TensorSpec([2, *SHAPES[self._network]], tf.float32, "x"), tf.TensorSpec([2], tf.int32, "label")]

    def build_graph(self, x, label):
        if self._network == "resnet50":
            return resnet50.cost(x, label)
        hidden = tf.tanh(x @ tf.get_variable("hidden", [64, 64]))
        logits = hidden @ tf.get_variable("out", [64, 10])
        return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=label, logits=logits))

    def optimizer(self):
        return tf.train.MomentumOptimizer(0.01, 0.9)


class Report(Callback):
    """Prints the time and number of each step."""

    _chief_only = False

    def _trigger_step(self):
        print("step", self.global_step, time.time(), flush=True)


def main():
    folder, network = sys.argv[1:]
    print("pid", os.getpid(), time.time(), flush=True)
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    logger.set_logger_dir(os.path.join(folder, f"worker{rank}"), action="k")
    rng = np.random.default_rng(0)
    points = [[rng.normal(size=SHAPES[network]).astype("float32"), np.int32(n % 10)] for n in range(64 * size)]
    config = AutoResumeTrainConfig(
        model=Model(network),
        dataflow=BatchData(ShardData(DataFromList(points, shuffle=True)), 2),
        callbacks=[PeriodicTrigger(ModelSaver(max_to_keep=2), every_k_steps=4), Report()],
        extra_callbacks=[],
        steps_per_epoch=1000,
        max_epoch=100,
    )
    launch_train_with_config(config, MultiWorkerTrainerReplicated(TOWERS[network]))


if __name__ == "__main__":
    main()
