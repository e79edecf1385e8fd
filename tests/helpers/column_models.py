"""Feature columns, data for them, and ways to train a ready-made model, for tests of ``tf.estimator``."""

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

from tests.helpers.replicated_models import devices, train
from tpack.estimator.estimator import Estimator
from tpack.estimator.replicate_model_fn import replicate_model_fn

WORDS = ["u", "v", "w"]


def column_data(rng: np.random.Generator, size: int = 16) -> dict[str, np.ndarray]:
    """Return features for the columns, and weights ``w``."""
    return {
        "x": rng.normal(size=(size, 2)).astype("float32"),
        "c": rng.choice(WORDS, size),
        "h": rng.integers(0, 4, size),
        "w": rng.uniform(0.5, 2, (size, 1)).astype("float32"),
    }


def linear_columns() -> list[Any]:
    """Return numbers, words and a cross of columns."""
    column = tf.feature_column
    words = column.categorical_column_with_vocabulary_list("c", WORDS)
    return [column.numeric_column("x", shape=(2,)), words, column.crossed_column(["c", "h"], 7)]


def dense_columns() -> list[Any]:
    """Return numbers, an embedding and an indicator."""
    column = tf.feature_column
    words = column.categorical_column_with_vocabulary_list("c", WORDS)
    numbers = column.categorical_column_with_identity("h", 4)
    embedding = column.embedding_column(numbers, 2, initializer=tf.constant_initializer(0.3))
    return [column.numeric_column("x", shape=(2,)), embedding, column.indicator_column(words)]


def train_in_towers(estimator: Estimator, data: Any, num_towers: int, reduction: str) -> dict[str, Any]:
    """Train a model some steps on one batch in towers of ``replicate_model_fn``, from the same values each time.

    Returns:
        What `train` returns.
    """

    def model_fn(features: Any, labels: Any, mode: str) -> Any:
        with tf.variable_scope("", initializer=tf.initializers.glorot_uniform(seed=1), reuse=tf.AUTO_REUSE):
            return estimator.model_fn(features, labels, mode, config=estimator.config)

    def seeded(features: Any, labels: Any, mode: str, params: Any = None) -> Any:
        tf.set_random_seed(1)
        return replicated(features, labels, mode=mode)

    replicated: Callable[..., Any] = replicate_model_fn(model_fn, reduction, devices(num_towers))
    return train(seeded, data)
