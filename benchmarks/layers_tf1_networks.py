"""The networks of ``tf.layers`` that `layers_tf1` measures: functions of ``tf`` that return outputs."""

import numpy as np

BATCH = 32


def inputs(tf, *shape):
    """Return a batch of an unknown size."""
    values = np.random.default_rng(0).normal(size=[BATCH, *shape])
    return tf.placeholder_with_default(tf.constant(values, tf.float32), [None, *shape])


def perceptron(tf):
    x = inputs(tf, 512)
    for _ in range(6):
        x = tf.layers.dropout(tf.layers.dense(x, 512, tf.nn.relu), 0.0, training=True)
    return tf.layers.dense(x, 10)


def convolutional(tf):
    x = inputs(tf, 32, 32, 16)
    for filters in (32, 32, 64, 64):
        x = tf.layers.conv2d(x, filters, 3, padding="same", use_bias=False)
        x = tf.nn.relu(tf.layers.batch_normalization(x, training=True))
        x = tf.layers.max_pooling2d(x, 2, 2)
    return tf.layers.dense(tf.layers.flatten(x), 10)


def separable(tf):
    x = inputs(tf, 32, 32, 16)
    for _ in range(4):
        x = tf.layers.separable_conv2d(x, 32, 3, padding="same", activation=tf.nn.relu)
        x = tf.layers.batch_normalization(x, training=True, fused=False)
    return tf.layers.average_pooling2d(x, 2, 2)


def generator(tf):
    x = inputs(tf, 4, 4, 64)
    for filters in (64, 32, 16):
        x = tf.layers.conv2d_transpose(x, filters, 4, 2, padding="same")
        x = tf.nn.relu(tf.layers.batch_normalization(x, training=tf.placeholder_with_default(True, [])))
    return tf.layers.conv2d(x, 3, 3, activation=tf.nn.tanh)


def sequences(tf):
    x = inputs(tf, 64, 32)
    for _ in range(6):
        x = tf.layers.conv1d(x, 64, 3, padding="same", activation=tf.nn.relu)
    return tf.layers.dense(tf.layers.max_pooling1d(x, 2, 2), 10)


LAYERS = {
    "dense and dropout": perceptron,
    "conv2d, batch_normalization, max_pooling2d": convolutional,
    "separable_conv2d, batch_normalization not fused": separable,
    "conv2d_transpose, training when it runs": generator,
    "conv1d and dense": sequences,
}
