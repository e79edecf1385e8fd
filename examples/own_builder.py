"""Local SGD as a builder of one's own: towers train each by itself, and are averaged every so many steps.

    python examples/own_builder.py --towers 4 --every-steps 8

The page docs/own_builder.md goes through it. It classifies 94 % and more of the digits that it was not trained on, and
exchanges weights in every eighth step only.
"""

import argparse

import tensorflow.compat.v1 as tf
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import tpack
import tpack.graph_builder as gb
from tpack.reduction import RoundRobinReducer, on_device_of, split_grad_list


class LocalSGDBuilder(gb.DataParallelBuilder):
    """K towers with variables of their own, which become their mean after every ``every_steps`` steps."""

    def __init__(self, towers, every_steps):
        super().__init__(towers)
        self.every_steps = every_steps

    def build(self, grad_fn, optimizer_fn):
        towers = gb.build_replicas(grad_fn, self.devices)  # K x N pairs (gradient, variable)
        train_op = gb.apply_in_replicas(towers.contexts, towers.outputs, optimizer_fn())
        copying = gb.copy_to_replicas(towers.contexts)
        average = gb.SyncOp(average_op(split_grad_list(towers.outputs)[1]), self.every_steps)
        return gb.BuildResult(train_op, towers.contexts, copying.op, (average, gb.SyncOp(copying.op)), copying.copies)


def average_op(variables):
    """Return the operation that sets K x N variables to their means over the towers."""
    means = RoundRobinReducer().reduce(tf.nest.map_structure(read, variables))  # K x N, each in its tower
    return tf.group(tf.nest.map_structure(tf.assign, variables, means))


def read(variable):
    with on_device_of(variable):  # not where the caller is
        return variable.read_value()


class Digits(tpack.ModelDesc):
    def inputs(self):
        return [tf.TensorSpec([None, 64], tf.float32, "image"), tf.TensorSpec([None], tf.int32, "label")]

    def build_graph(self, image, label):
        weights = tf.get_variable("W", [64, 10], initializer=tf.zeros_initializer())
        logits = tf.matmul(image, weights) + tf.get_variable("b", [10], initializer=tf.zeros_initializer())
        tf.cast(tf.nn.in_top_k(logits, label, k=1), tf.float32, name="accuracy")
        return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=label, logits=logits), name="cost")

    def optimizer(self):
        return tf.train.GradientDescentOptimizer(0.3)


def train(trainer, epochs):
    images, labels = load_digits(return_X_y=True)
    data = train_test_split((images / 16).astype("float32"), labels.astype("int32"), test_size=360, random_state=0)
    training, testing = tpack.DataFromArrays(data[::2]), tpack.DataFromArrays(data[1::2])
    validation = tpack.InferenceRunner(tpack.BatchData(testing, 360), tpack.ScalarStats("accuracy"))
    config = tpack.TrainConfig(training, None, Digits(), [validation], batch_size=64, max_epoch=epochs)
    tpack.launch_train_with_config(config, trainer)
    return tpack.JSONWriter.load_existing_json()[-1]["validation_accuracy"]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--towers", type=int, default=4)
    parser.add_argument("--every-steps", type=int, default=8)
    parser.add_argument("--epochs", type=int, default=20)
    options = parser.parse_args()
    tpack.logger.set_logger_dir("train_log/own_builder", action="d")
    tpack.fix_rng_seed(0)
    trainer = tpack.BuilderTrainer(LocalSGDBuilder(options.towers, options.every_steps))
    print(f"Validation accuracy: {train(trainer, options.epochs):.2%}")
