"""A model of one weight and uneven batches, for the tests of inference."""

from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

from tests.helpers.fake_trainer import FakeTrainer
from tpack.dataflow.sources import DataFromList
from tpack.tower.context import TowerContext
from tpack.tower.tower_func import TowerFunc

SIGNATURE = [tf.TensorSpec([None], tf.float32, name="x"), tf.TensorSpec([None], tf.int32, name="label")]


def model(x: Any, label: Any) -> Any:
    """Predict 1 where w * x is positive."""
    weight = tf.get_variable("weight", initializer=1.0, use_resource=True)
    score = tf.multiply(weight, x, name="score")
    prediction = tf.cast(score > 0, tf.int32, name="prediction")
    tf.cast(tf.not_equal(prediction, label), tf.float32, name="incorrect_vector")
    cost = tf.reduce_mean(tf.square(score - tf.cast(label, tf.float32)), name="cost")
    if tf.get_variable_scope().reuse is False:
        tf.identity(cost, name="only_in_training")
    return cost


def make_trainer() -> FakeTrainer:
    """Return a trainer whose steps add 1 to the weight and use none of the data of the training tower."""
    tower_func = TowerFunc(model, SIGNATURE)
    inputs = [tf.placeholder(spec.dtype, spec.shape) for spec in SIGNATURE]
    with TowerContext("", is_training=True):
        tower_func(*inputs)
    weight = tower_func.towers[0].get_variable("weight")
    return FakeTrainer(tf.assign_add(weight, 1.0).op, tower_func)


def uneven_batches(rng: np.random.Generator, num_batches: int) -> list[list[np.ndarray]]:
    """Return batches of 4 samples, the last one of 3."""
    sizes = [4] * (num_batches - 1) + [3]
    return [[rng.normal(size=n).astype(np.float32), rng.integers(0, 2, n).astype(np.int32)] for n in sizes]


def flow(batches: list[Any]) -> DataFromList:
    """Return the batches as a DataFlow in their own order."""
    return DataFromList(batches, shuffle=False)


def expected_statistics(batches: list[Any], weight: float) -> dict[str, float]:
    """Compute with numpy what the inferencers should find."""
    x, label = (np.concatenate(parts) for parts in zip(*batches, strict=True))
    prediction = (np.float32(weight) * x > 0).astype(np.int32)
    costs = [np.mean((weight * xs - labels) ** 2) for xs, labels in batches]
    right = (prediction & label).sum()
    return {
        "validation_error": float(np.mean(prediction != label)),
        "validation_cost": float(np.mean(costs)),
        "validation_score": float(np.mean(weight * x.astype(np.float64))),
        "val_precision": right / prediction.sum() if prediction.any() else 0.0,
        "val_recall": right / label.sum() if label.any() else 0.0,
    }
