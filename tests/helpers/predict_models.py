"""Models for tests of predictors; at the top level of a module, so that they can be sent to other processes."""

from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

from tpack.predict.config import PredictConfig
from tpack.tfutils.sessinit import DictRestore

SIGNATURE = [tf.TensorSpec([None, 3], tf.float32, "image"), tf.TensorSpec([], tf.float32, "factor")]
WEIGHTS = {
    "fc/W": np.random.default_rng(5).normal(size=(3, 2)).astype("float32"),
    "bias": np.array([0.5, -1.0], "float32"),
}


def two_layers(image: Any, factor: Any) -> Any:
    """Build a model of two weights, with one output for each row and two that are not."""
    with tf.variable_scope("fc"):
        weight = tf.get_variable("W", [3, 2])
    logits = tf.matmul(image, weight) * factor
    tf.add(tf.nn.softplus(logits), tf.get_variable("bias", [2]), name="scores")
    tf.reduce_sum(logits, name="total")
    tf.identity(weight, name="weight")
    return logits


def make_config(**options: Any) -> PredictConfig:
    """Return a config of the model with fixed weights."""
    defaults = {
        "tower_func": two_layers,
        "input_signature": SIGNATURE,
        "output_names": ["scores"],
        "session_init": DictRestore(WEIGHTS),
    }
    return PredictConfig(**{**defaults, **options})


def scores(image: Any, factor: float) -> np.ndarray:
    """Return what the model gives, by numpy."""
    return np.log1p(np.exp(np.asarray(image) @ WEIGHTS["fc/W"] * factor)) + WEIGHTS["bias"]
