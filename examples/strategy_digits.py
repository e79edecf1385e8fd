"""A distribution strategy without a trainer: model code that meets across towers, and a loop of one's own.

    python examples/strategy_digits.py
    python examples/strategy_digits.py --towers 8

It shows the API that TensorFlow 1 had in `contrib.distribute`: variables that are made under `scope()` are mirrored on
every device, `call_for_each_tower` builds the model on each part of the batch, an optimizer of plain TensorFlow reduces
the gradients, and `read_var` and `reduce` bring values out. `examples/digits.py --trainer strategy` trains a
`ModelDesc` under the same strategy. On scikit-learn's digits, of which the last 360 are kept for the test, it ends with
9 % wrong or less after 300 steps, 10 seconds on two cores.
"""

import argparse

import numpy as np
import tensorflow.compat.v1 as tf

from tpack import Conv2D, FullyConnected, MirroredStrategy, argscope, sesscreate
from tpack.dataflow.dataset import Digits

BATCH = 64


def network(images):
    """Return logits, [B, 10], of images, [B, 8, 8]; each tower sees its own mirror of the variables."""
    with (
        argscope(Conv2D, kernel_size=3, activation=tf.nn.relu, filters=24),
        tf.variable_scope("net", reuse=tf.AUTO_REUSE),
    ):
        x = Conv2D("conv0", tf.expand_dims(images, 3))  # [B, 8, 8, 24]
        x = Conv2D("conv1", x, strides=2)  # [B, 4, 4, 24]
        return FullyConnected("fc", x, 10)


def tower_step(images, labels):
    """Build a tower's part of a step; return the operation and the tower's loss."""
    loss = tf.losses.sparse_softmax_cross_entropy(labels, network(images))
    # The gradients of all towers meet here. Each mirror gets their mean, since the loss is a mean over the batch.
    return tf.train.AdamOptimizer(3e-3).minimize(loss), loss


def digits(train_or_test):
    """Return images, [N, 8, 8], and labels, [N]."""
    images, labels = (np.stack(part) for part in zip(*Digits(train_or_test, shuffle=False), strict=True))
    return images, labels.astype("int32")


def build(strategy, num_towers):
    """Return the operation of a step, the mean loss, and the digits that are recognised in the test, [360]."""
    images, labels = digits("train")

    def dataset():
        examples = tf.data.Dataset.from_tensor_slices((images, labels)).shuffle(len(images)).repeat()
        return examples.batch(BATCH // num_towers, drop_remainder=True)

    with strategy.scope():
        batch = strategy.distribute_dataset(dataset).make_one_shot_iterator().get_next()
        step, loss = strategy.call_for_each_tower(tower_step, *batch)
        mean = strategy.unwrap(strategy.reduce(tf.VariableAggregation.MEAN, loss, "/device:CPU:0"))[0]
        logits = strategy.unwrap(strategy.call_for_each_tower(network, tf.constant(digits("test")[0])))[0]
        return strategy.group(step), mean, tf.argmax(logits, axis=1)


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--towers", type=int, default=2, help=f"how many, a divisor of {BATCH} (default: 2)")
    parser.add_argument("--steps", type=int, default=300, help="how many (default: 300)")
    options = parser.parse_args(argv)
    if options.towers < 1 or BATCH % options.towers:
        parser.error(f"a batch of {BATCH} images cannot be divided among {options.towers} towers")

    with tf.Graph().as_default():
        step, loss, recognised = build(MirroredStrategy(num_gpus=options.towers), options.towers)
        with sesscreate.NewSessionCreator().create_session() as session:
            session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
            for number in range(1, options.steps + 1):
                value, _ = session.run([loss, step])
                if number % 100 == 0:
                    print(f"step {number}: loss {value:.4f}")
            wrong = session.run(recognised) != digits("test")[1]
    print(f"Test error: {wrong.mean():.2%}")


if __name__ == "__main__":
    main()
