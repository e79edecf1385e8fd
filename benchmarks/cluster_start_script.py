"""What `cluster_start.py` starts: one step of a small model by the trainer of several workers, or of one process.

Its arguments are a folder and whether it trains alone, whoever else was started. It leaves a file in the folder, with
the time of its first step.
"""

import os
import sys
import time
from pathlib import Path

import tensorflow.compat.v1 as tf

from tpack import Callback, SimpleTrainer, StopTraining, TensorInput
from tpack.multi_worker.replicated_trainer import MultiWorkerTrainerReplicated


class FirstStep(Callback):
    """Notes when the first step is over, and ends training."""

    _chief_only = False

    def __init__(self, folder):
        self._folder = Path(folder)

    def _trigger_step(self):
        (self._folder / str(os.getpid())).write_text(repr(time.time()), encoding="ascii")
        raise StopTraining("one step is enough")


def cost(inputs):
    """Return the loss of a linear model."""
    weights = tf.get_variable("W", [64, 1], initializer=tf.zeros_initializer())
    return tf.reduce_mean(tf.square(inputs @ weights - 1.0))


def main():
    folder, mode = sys.argv[1:]
    trainer = SimpleTrainer() if mode == "alone" else MultiWorkerTrainerReplicated(1)
    signature = [tf.TensorSpec([8, 64], tf.float32, "inputs")]
    data = TensorInput(lambda: [tf.ones([8, 64])], size=1)
    trainer.setup_graph(signature, data, cost, lambda: tf.train.GradientDescentOptimizer(0.1))
    trainer.train_with_defaults(
        callbacks=[FirstStep(folder)], extra_callbacks=[], monitors=[], steps_per_epoch=1, max_epoch=1
    )


if __name__ == "__main__":
    main()
