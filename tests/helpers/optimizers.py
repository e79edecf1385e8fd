"""All optimizers of TensorFlow 1, and a small model with a dense and a sparse gradient to try them on."""

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

OPTIMIZERS: dict[str, Callable[[], Any]] = {
    "sgd": lambda: tf.train.GradientDescentOptimizer(0.1),
    "momentum": lambda: tf.train.MomentumOptimizer(0.1, 0.9),
    "adam": lambda: tf.train.AdamOptimizer(0.1),
    "rmsprop": lambda: tf.train.RMSPropOptimizer(0.1, momentum=0.5, centered=True),
    "adagrad": lambda: tf.train.AdagradOptimizer(0.1),
    "adadelta": lambda: tf.train.AdadeltaOptimizer(1.0, epsilon=1e-2),
    "ftrl": lambda: tf.train.FtrlOptimizer(0.1, l1_regularization_strength=0.01),
}

# Adam has variables beside its slots, Ftrl reads the variable that it writes, and centered RMSProp has three slots and
# its own kernel for rows. What wraps optimizers is tried on these; all of them against one tower: test_equivalence.py.
REPRESENTATIVE = ("adam", "ftrl", "rmsprop")


def make_model(scope: str, seed: int) -> tuple[list[Any], list[Any]]:
    """Create a dense variable and an embedding under a scope.

    Returns:
        The variables, and gradients for them that depend on their values: a tensor and IndexedSlices with an index
        that comes twice.
    """
    rng = np.random.default_rng(seed)
    with tf.variable_scope(scope, use_resource=True):
        dense = tf.get_variable("W", initializer=rng.standard_normal((2, 3)).astype("float32"))
        embedding = tf.get_variable("embedding", initializer=rng.standard_normal((4, 3)).astype("float32"))
    rows = tf.nn.embedding_lookup(embedding, [1, 3, 1])
    cost = tf.reduce_sum(tf.square(dense)) + tf.reduce_sum(tf.square(tf.reduce_sum(rows, 0)))
    return [dense, embedding], tf.gradients(cost, [dense, embedding])
