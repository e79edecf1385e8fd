"""Recognise handwritten digits: a small convolution network, trained on eight towers.

    python examples/digits.py                                        # eight towers, each with its own variables
    python examples/digits.py --trainer parameter-server --towers 4  # the same model, trained another way
    python examples/digits.py --epochs 30 --resume                   # go on where the last run stopped

The data are the 1797 images of 8 x 8 pixels that scikit-learn ships; nothing is downloaded. After 25 epochs, about 15
seconds on two cores, more than 98 % of the validation images are recognised. A machine without GPUs trains the towers
on logical CPU devices, and a line of the log says so. The log directory, `train_log/digits`, then holds

    checkpoint, model-*         the latest checkpoints: --resume goes on from the last one
    max-validation_accuracy.*   the checkpoint with the best validation accuracy
    stats.json, log.log          the statistics of every epoch, and everything that was logged
    events.out.tfevents.*       the statistics for TensorBoard
"""

import argparse

import numpy as np
import tensorflow.compat.v1 as tf
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from tpack import (
    AsyncMultiGPUTrainer,
    AutoResumeTrainConfig,
    BatchData,
    DataFromList,
    InferenceRunner,
    JSONWriter,
    MaxSaver,
    MirroredStrategy,
    ModelDesc,
    ModelSaver,
    ScalarStats,
    SimpleTrainer,
    StrategyTrainer,
    SyncMultiGPUTrainerParameterServer,
    SyncMultiGPUTrainerReplicated,
    TrainConfig,
    fix_rng_seed,
    get_global_step_var,
    launch_train_with_config,
    logger,
)
from tpack.dataflow.dataset import check_labels
from tpack.tfutils.summary import add_moving_summary

CLASSES = 10

TRAINERS = {
    "simple": lambda towers: SimpleTrainer(),
    "replicated": SyncMultiGPUTrainerReplicated,
    "parameter-server": SyncMultiGPUTrainerParameterServer,
    "async": AsyncMultiGPUTrainer,
    "strategy": lambda towers: StrategyTrainer(MirroredStrategy(num_gpus=towers)),
}


class DigitModel(ModelDesc):
    """What is trained. The trainer calls `build_graph` once for each tower, and once more for validation."""

    def inputs(self):
        return [tf.TensorSpec([None, 8, 8, 1], tf.float32, "image"), tf.TensorSpec([None], tf.int32, "label")]

    def build_graph(self, image, label):
        features = convolution("conv1", image, 32)
        features = convolution("conv2", features, 64)
        features = tf.nn.max_pool2d(features, ksize=2, strides=2, padding="SAME")
        features = tf.reshape(features, [-1, 4 * 4 * 64])
        if self.training:
            features = tf.nn.dropout(features, rate=0.4)
        weights, bias = parameters("logits", [4 * 4 * 64, CLASSES])
        logits = tf.matmul(features, weights) + bias

        # One number for each image: validation averages them over all images, whatever the batches are.
        loss = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=label, logits=logits)
        loss = tf.identity(loss, name="loss")
        accuracy = tf.cast(tf.nn.in_top_k(logits, label, k=1), tf.float32, name="accuracy")

        cost = tf.reduce_mean(loss, name="cost")
        add_moving_summary(cost, tf.reduce_mean(accuracy, name="train_accuracy"))
        return cost

    def optimizer(self):
        learning_rate = tf.train.exponential_decay(3e-3, get_global_step_var(), decay_steps=200, decay_rate=0.5)
        tf.summary.scalar("learning_rate", learning_rate)
        return tf.train.AdamOptimizer(learning_rate)


def parameters(name, shape):
    """Return the weights and the bias of a layer."""
    with tf.variable_scope(name):
        weights = tf.get_variable("W", shape, initializer=tf.initializers.he_normal())
        return weights, tf.get_variable("b", shape[-1:], initializer=tf.zeros_initializer())


def convolution(name, features, channels):
    """Add a 3 x 3 convolution and a ReLU."""
    weights, bias = parameters(name, [3, 3, features.shape[-1], channels])
    return tf.nn.relu(tf.nn.conv2d(features, weights, strides=1, padding="SAME") + bias)


def load_data():
    """Return 1437 data points (image, label) to train on and 360 to validate on, the same ones in every run."""
    images, labels = load_digits(return_X_y=True)
    # With others the cost is an error on a CPU, and NaN on a GPU.
    check_labels(labels, CLASSES)
    images = images.reshape(-1, 8, 8, 1).astype(np.float32) / 16
    points = list(zip(images, labels.astype(np.int32), strict=True))
    training, validation = train_test_split(points, test_size=360, stratify=labels, random_state=0)
    return DataFromList(training), DataFromList(validation, shuffle=False)


def train(options, towers):
    """Train, and return the validation accuracy after the last epoch."""
    training, validation = load_data()
    config = (AutoResumeTrainConfig if options.resume else TrainConfig)(
        model=DigitModel(),
        # Each tower takes a batch of its own from a queue that a thread fills.
        dataflow=BatchData(training, options.batch // towers),
        steps_per_epoch=len(training) // options.batch,
        callbacks=[
            ModelSaver(max_to_keep=3),
            InferenceRunner(BatchData(validation, 64, remainder=True), ScalarStats(["loss", "accuracy"])),
            MaxSaver("validation_accuracy"),
        ],
        max_epoch=options.epochs,
    )
    launch_train_with_config(config, TRAINERS[options.trainer](towers))
    return JSONWriter.load_existing_json()[-1]["validation_accuracy"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--trainer", choices=TRAINERS, default="replicated")
    parser.add_argument("--towers", type=int, default=8, help="how many; the simple trainer has one (default: 8)")
    parser.add_argument("--epochs", type=int, default=25, help="the last epoch (default: 25)")
    parser.add_argument("--batch", type=int, default=64, help="images a step, in all towers together (default: 64)")
    parser.add_argument("--logdir", default="train_log/digits", help="one that exists is moved aside, or resumed from")
    parser.add_argument("--resume", action="store_true", help="go on from the last checkpoint in the log directory")
    parser.add_argument("--seed", type=int, default=0, help="of the weights, dropout and the order of the images")
    options = parser.parse_args()
    towers = 1 if options.trainer == "simple" else options.towers
    if towers < 1 or options.batch < 1 or options.batch % towers:
        parser.error(f"a batch of {options.batch} images cannot be divided among {towers} towers")

    logger.set_logger_dir(options.logdir, action="k" if options.resume else "b")
    fix_rng_seed(options.seed)
    with tf.Graph().as_default():
        tf.set_random_seed(options.seed)
        accuracy = train(options, towers)
    print(f"Validation accuracy: {accuracy:.2%}")


if __name__ == "__main__":
    main()
