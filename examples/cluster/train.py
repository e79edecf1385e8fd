"""A training in several workers, the same whoever starts them.

    python train.py                               # one worker
    tpack launch -n 4 train.py                    # four processes of this machine
    tpack launch --on ray -n 4 train.py           # four workers of a Ray cluster
    sbatch train.sbatch                           # a job of Slurm
    kubectl apply -f job.yaml                     # a Job of Kubernetes

Each worker takes its share of the points, and all of them have the same weights after each step. A run that was killed,
moved or started anew goes on from the last checkpoint in `--logdir`, also with another number of workers; so all
machines need that directory in common. The model is a small one: what is shown is how a job is started.
"""

import argparse

import numpy as np
import tensorflow.compat.v1 as tf

from tpack import (
    AutoResumeTrainConfig,
    BatchData,
    DataFromList,
    ModelDesc,
    ModelSaver,
    MultiWorkerTrainerReplicated,
    ShardData,
    launch_train_with_config,
    logger,
)

CLASSES = 3


class SpiralModel(ModelDesc):
    """Tells which of three spirals a point of the plane belongs to."""

    def inputs(self):
        return [tf.TensorSpec([None, 2], tf.float32, "point"), tf.TensorSpec([None], tf.int32, "label")]

    def build_graph(self, point, label):
        hidden = tf.nn.relu(dense("hidden", point, 64))
        logits = dense("logits", tf.nn.relu(dense("hidden2", hidden, 64)), CLASSES)
        loss = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=label, logits=logits)
        return tf.reduce_mean(loss, name="cost")

    def optimizer(self):
        return tf.train.AdamOptimizer(1e-2)


def dense(name, features, size):
    """Add a layer with its variables."""
    with tf.variable_scope(name):
        weights = tf.get_variable("W", [features.shape[-1], size], initializer=tf.initializers.he_normal())
        return tf.matmul(features, weights) + tf.get_variable("b", [size], initializer=tf.zeros_initializer())


def spirals(num_points=3000):
    """Return points of three spirals with a little noise, the same in every worker."""
    rng = np.random.default_rng(0)
    label = rng.integers(CLASSES, size=num_points).astype(np.int32)
    radius = rng.uniform(0.1, 1.0, num_points)
    angle = 4 * radius + 2 * np.pi * label / CLASSES + rng.normal(0, 0.05, num_points)
    points = np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1).astype(np.float32)
    return list(zip(points, label, strict=True))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--logdir", default="train_log/spirals", help="where checkpoints and statistics are")
    parser.add_argument("--epochs", type=int, default=5, help="the last epoch (default: 5)")
    parser.add_argument("--steps", type=int, default=50, help="steps in each epoch (default: 50)")
    parser.add_argument("--batch", type=int, default=32, help="points a step in each tower (default: 32)")
    parser.add_argument("--towers", type=int, default=1, help="towers, which are GPUs, of each worker (default: 1)")
    options = parser.parse_args()

    logger.set_logger_dir(options.logdir, action="k")
    config = AutoResumeTrainConfig(
        model=SpiralModel(),
        dataflow=BatchData(ShardData(DataFromList(spirals())), options.batch),
        steps_per_epoch=options.steps,
        callbacks=[ModelSaver()],
        max_epoch=options.epochs,
    )
    launch_train_with_config(config, MultiWorkerTrainerReplicated(options.towers))


if __name__ == "__main__":
    main()
