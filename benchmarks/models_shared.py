"""The models of the benchmarks that compare kinds of models, in plain TensorFlow calls, so that every way can use them.

A model is small where its size does not matter. What counts is how many operations it has and of what kind:
convolutions and batch normalisation, matrix products and element-wise chains, a loop, or next to nothing.

Source:
    Vaswani et al., "Attention Is All You Need", https://arxiv.org/abs/1706.03762;
    Hochreiter and Schmidhuber, "Long Short-Term Memory", Neural Computation 9(8).
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
import resnet50
import tensorflow.compat.v1 as tf

WORDS = 256


@dataclass(frozen=True)
class Model:
    """A model with data of its own.

    Attributes:
        shape: that of an example; one that has no channels is a sequence of words.
        cost: called with a batch of examples and one of labels, returns the mean loss.
        classes: labels are integers below it.
    """

    shape: tuple[int, ...]
    cost: Callable
    classes: int

    @property
    def example_dtype(self):
        """What examples are: words, or floats."""
        return tf.int32 if self.cost.func in (transformer, lstm) else tf.float32

    def signature(self, batch):
        """Return the specs of a batch."""
        return [
            tf.TensorSpec([batch, *self.shape], self.example_dtype, "example"),
            tf.TensorSpec([batch], tf.int32, "label"),
        ]

    def arrays(self, batch, seed=0):
        """Return a random batch as numpy arrays."""
        rng = np.random.default_rng(seed)
        shape = (batch, *self.shape)
        is_words = self.example_dtype == tf.int32
        examples = (
            rng.integers(WORDS, size=shape, dtype=np.int32) if is_words else rng.standard_normal(shape, np.float32)
        )
        return [examples, rng.integers(self.classes, size=[batch], dtype=np.int32)]

    def tensors(self, batch):
        """Return a random batch as constants of the current graph."""
        return [tf.constant(array) for array in self.arrays(batch)]


def perceptron(example, label, *, widths=(128, 128)):
    """Return the mean loss of a perceptron."""
    for index, width in enumerate(widths):
        example = tf.nn.relu(linear(f"hidden{index}", example, width))
    return loss(linear("logits", example, WORDS), label)


def transformer(words, label, *, layers=2, width=64, heads=4):
    """Return the mean loss of an encoder whose mean output is classified; normalisation comes before each part."""
    length = words.shape[1]
    features = tf.gather(variable("words", [WORDS, width]), words) + variable("places", [length, width])
    for index in range(layers):
        with tf.variable_scope(f"layer{index}"):
            features += attention(layer_norm("norm1", features), heads)
            hidden = gelu(linear("wide", layer_norm("norm2", features), 4 * width))
            features += linear("narrow", hidden, width)
    return loss(linear("logits", tf.reduce_mean(layer_norm("norm", features), axis=1), WORDS), label)


def attention(features, heads):
    """Add attention of each place to all others."""
    _, length, width = features.shape
    parts = tf.reshape(linear("parts", features, 3 * width), [-1, length, 3, heads, width // heads])
    queries, keys, values = tf.unstack(tf.transpose(parts, [2, 0, 3, 1, 4]))
    weights = tf.nn.softmax(tf.matmul(queries, keys, transpose_b=True) * (width // heads) ** -0.5)
    together = tf.transpose(tf.matmul(weights, values), [0, 2, 1, 3])
    return linear("together", tf.reshape(together, [-1, length, width]), width)


def lstm(words, label, *, layers=2, width=64):
    """Return the mean loss of layers of LSTM, each a loop in the graph, of which the last output is classified."""
    features = tf.transpose(tf.gather(variable("words", [WORDS, width]), words), [1, 0, 2])
    for index in range(layers):
        with tf.variable_scope(f"layer{index}"):
            features = lstm_layer(features, width)
    return loss(linear("logits", features[-1], WORDS), label)


def lstm_layer(features, width):
    """Add a loop over the first dimension."""
    length, batch = features.shape[:2]
    kernel = variable("kernel", [features.shape[-1] + width, 4 * width])
    bias = variable("bias", [4 * width], tf.zeros_initializer())
    inputs = tf.TensorArray(tf.float32, length).unstack(features)

    def step(time, state, output, outputs):
        gates = tf.matmul(tf.concat([inputs.read(time), output], axis=1), kernel) + bias
        new, add, forget, show = tf.split(gates, 4, axis=1)
        state = state * tf.sigmoid(forget + 1) + tf.sigmoid(add) * tf.tanh(new)
        output = tf.sigmoid(show) * tf.tanh(state)
        return time + 1, state, output, outputs.write(time, output)

    zeros = tf.zeros([batch, width])
    first = (tf.constant(0), zeros, zeros, tf.TensorArray(tf.float32, length))
    outputs = tf.while_loop(lambda time, *_: time < length, step, first)[-1]
    return tf.ensure_shape(outputs.stack(), [length, batch, width])


def linear(name, features, width):
    """Add a matrix product and a bias."""
    with tf.variable_scope(name):
        weights = variable("W", [features.shape[-1], width])
        bias = variable("b", [width], tf.zeros_initializer())
        if features.shape.rank > 2:
            return tf.tensordot(features, weights, 1) + bias
        return tf.matmul(features, weights) + bias


def layer_norm(name, features):
    """Add a normalisation over the last dimension."""
    width = features.shape[-1]
    with tf.variable_scope(name):
        scale, offset = variable("scale", [width], tf.ones_initializer()), variable("offset", [width])
    mean, variance = tf.nn.moments(features, [-1], keepdims=True)
    return (features - mean) * tf.rsqrt(variance + 1e-6) * scale + offset


def gelu(features):
    """Add the activation of transformers, by its approximation."""
    return 0.5 * features * (1 + tf.tanh(0.7978845608 * (features + 0.044715 * features**3)))


def variable(name, shape, initializer=None):
    """Return a variable, random by default."""
    return tf.get_variable(name, shape, initializer=initializer or tf.random_normal_initializer(stddev=0.02))


def loss(logits, label):
    """Return the mean loss of a batch."""
    return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=label, logits=logits), name="cost")


MODELS = {
    "resnet50": Model((64, 64, 3), partial(resnet50.cost), resnet50.CLASSES),
    "transformer": Model((32,), partial(transformer), WORDS),
    "transformer12": Model((32,), partial(transformer, layers=12), WORDS),
    "lstm": Model((16,), partial(lstm), WORDS),
    "perceptron": Model((64,), partial(perceptron), WORDS),
}
