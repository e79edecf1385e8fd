"""Models written as a model_fn, and the training of a replicated one, for tests of the estimators."""

from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

from tests.helpers.sessions import cpu_session
from tpack.estimator.spec import EstimatorSpec, ModeKeys, PredictOutput, RegressionOutput
from tpack.estimator.tower_optimizer import TowerOptimizer

NUM_WORDS = 5


def batch(rng: np.random.Generator, size: int = 16) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Return features, numbers and words, and labels."""
    x = rng.normal(size=(size, 3)).astype("float32")
    words = rng.integers(NUM_WORDS, size=size).astype("int32")
    return {"x": x, "words": words}, (x @ [1, -2, 3] + words).astype("float32")


def regression(features: Any, labels: Any, mode: str, params: Any = None) -> EstimatorSpec:
    """A dense layer and an embedding; wraps its optimizer.

    Parameters: ``optimizer``, a function that returns one; ``reduce``, which makes one loss of those of examples.
    """
    params = params or {}
    weights = tf.get_variable("weights", [3], initializer=tf.zeros_initializer())
    table = tf.get_variable("table", [NUM_WORDS, 1], initializer=tf.ones_initializer())
    values = tf.linalg.matvec(features["x"], weights) + tf.nn.embedding_lookup(table, features["words"])[:, 0]
    values = tf.identity(values, name="values")
    if mode == ModeKeys.PREDICT:
        outputs = {"serving_default": PredictOutput({"values": values}), "regress": RegressionOutput(values)}
        return EstimatorSpec(mode, {"values": values}, export_outputs=outputs)
    loss = params.get("reduce", tf.reduce_mean)(tf.square(values - labels))
    train_op = None
    if mode == ModeKeys.TRAIN:
        optimizer = TowerOptimizer(params.get("optimizer", lambda: tf.train.GradientDescentOptimizer(0.05)))
        train_op = optimizer.minimize(loss, tf.train.get_global_step())
    metrics = {"error": tf.metrics.mean_squared_error(labels, values)} if mode == ModeKeys.EVAL else None
    return EstimatorSpec(mode, {"values": values}, loss, train_op, metrics)


def devices(num_towers: int) -> list[str]:
    """Return names of GPUs, which are CPU devices on a machine without any."""
    return [f"/gpu:{k}" for k in range(num_towers)]


def train(model_fn: Any, data: Any, *, params: Any = None, steps: int = 5) -> dict[str, Any]:
    """Train on one batch over and over in a graph of its own.

    Returns:
        The last value of each variable in GLOBAL_VARIABLES by name, and the losses under ``losses``.
    """
    with tf.Graph().as_default(), cpu_session() as session:
        tf.train.get_or_create_global_step()
        features, labels = tf.nest.map_structure(tf.constant, data)
        spec = model_fn(features, labels, mode=ModeKeys.TRAIN, params=params)
        session.run([tf.global_variables_initializer(), tf.local_variables_initializer(), tf.tables_initializer()])
        losses = [session.run((spec.loss, spec.train_op))[0] for _ in range(steps)]
        return {"losses": losses, **session.run({variable.op.name: variable for variable in tf.global_variables()})}
