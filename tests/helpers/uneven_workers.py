"""What workers do whose data end early, for `tests.helpers.worker_job`."""

from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

from tests.helpers.drawn_weights import Weights
from tests.helpers.worker_scenarios import outcome, place, trainer
from tpack.dataflow.sources import DataFromList
from tpack.errors import ConfigError
from tpack.graph_builder.model_desc import ModelDesc
from tpack.models.batch_norm import BatchNorm
from tpack.multi_worker.tables.embedding import sharded_embedding
from tpack.multi_worker.uneven import UnevenData
from tpack.train.config import TrainConfig
from tpack.train.interface import launch_train_with_config

COUNTS = (3, 7)
"""The data points of each worker."""
RATE, MOMENTUM = 0.25, 0.5
POINTS = [
    [[np.float64(value), np.int64(row)] for value, row in zip(values, rows, strict=True)]
    for values, rows in (([1.0, -2.0, 4.0], [0, 1, 1]), ([3.0, 5.0, -1.0, 2.0, 8.0, -6.0, 0.5], [2, 0, 1, 2, 2, 0, 1]))
]
"""A target and a row of the table for each data point of each worker."""


class Drawn(ModelDesc):
    """A weight that is drawn to targets, and a table of which each data point touches one row."""

    def inputs(self) -> list[Any]:
        return [tf.TensorSpec([], tf.float64, "target"), tf.TensorSpec([], tf.int64, "row")]

    def build_graph(self, target: Any, row: Any) -> Any:
        weight = tf.get_variable("w", [], tf.float64, tf.zeros_initializer())
        table = tf.get_variable("table", [3, 1], tf.float64, tf.zeros_initializer())
        found = tf.nn.embedding_lookup(table, [row])
        return tf.square(weight - target) / 2 + tf.reduce_sum(tf.square(found - target)) / 2

    def optimizer(self) -> Any:
        return tf.train.MomentumOptimizer(RATE, MOMENTUM)


class Synchronised(Drawn):
    """The same with a layer whose statistics are those of all workers."""

    def build_graph(self, target: Any, row: Any) -> Any:
        features = tf.cast(tf.reshape(target, [1, 1]), tf.float32)
        normalised = BatchNorm("bn", features, sync_statistics="workers")
        return super().build_graph(target, row) + tf.cast(tf.reduce_sum(normalised), tf.float64)


class Dealt(Drawn):
    """The same with a table whose rows are dealt out over the workers."""

    def build_graph(self, target: Any, row: Any) -> Any:
        rows = sharded_embedding("dealt", tf.reshape(row, [1]), 3, 1)
        return super().build_graph(target, row) + tf.cast(tf.reduce_sum(rows), tf.float64)


def trained(
    towers: int, points: Any, size: int, steps: int, max_epoch: int = 2, model: Any = None, **options: Any
) -> dict[str, Any]:
    """Train with the data points of a worker; return the weights after each step and the last values."""
    weights = Weights()
    with tf.Graph().as_default():
        config = TrainConfig(
            model=model or Drawn(),
            dataflow=UnevenData(DataFromList(points, shuffle=False), size),
            callbacks=[weights],
            extra_callbacks=[],
            monitors=[],
            steps_per_epoch=steps,
            max_epoch=max_epoch,
        )
        training = trainer(towers, **options)
        launch_train_with_config(config, training)
    try:
        afterwards = ", ".join(sorted(training.get_weights()))
    except ConfigError as error:
        afterwards = str(error)
    return {"seen": weights.seen, "last": weights.last, "afterwards": afterwards}


def train_uneven() -> dict[str, Any]:
    """Train in several ways; return what came of each."""
    rank, _ = place()
    points = POINTS[rank]
    return {
        # First, since the server of a process keeps its number of devices.
        "many": trained(4, points, 8, 2),
        "means": trained(2, points, 8, 4),
        "sums": trained(2, points, 8, 4, average=False),
        "encoded": trained(1, points, 7, 7, exchange="float16"),
        "too long": trained(2, points, 10, 5),
        "of all workers": [
            outcome(lambda kind=kind: trained(2, points, 8, 4, model=kind())) for kind in (Synchronised, Dealt)
        ],
        "other steps": outcome(lambda: trained(2, points, 8, 3)),
        "other sizes": outcome(lambda: trained(2, points, 8 + 2 * rank, 4)),
        "refused": [
            outcome(lambda options=options: trained(2, points, 8, 4, **options))
            for options in (
                {"accumulate": 2},
                {"shard_optimizer": True},
                {"sync_every_steps": 2},
                {"exchange": "adasum"},
            )
        ],
    }


def train_alone() -> dict[str, Any]:
    """Train with seven data points on two towers of one process."""
    return trained(2, POINTS[1], 8, 4)


def expected(
    towers: int, *, op: str = "mean", workers: Any = POINTS, num_epochs: int = 2
) -> tuple[list[float], np.ndarray]:
    """Return the weight after each step and the table at the end, as numpy has them: means over those with data."""
    weight, velocity = 0.0, 0.0
    table, velocities = np.zeros(3), np.zeros(3)
    seen = []
    steps = -(-max(COUNTS) // towers)
    for step in list(range(steps)) * num_epochs:
        batch = [point for points in workers for point in points[step * towers : (step + 1) * towers]]
        divisor = len(batch) if op == "mean" else 1
        velocity = MOMENTUM * velocity + sum(weight - target for target, _ in batch) / divisor
        weight -= RATE * velocity
        seen.append(weight)
        touched = sorted({int(row) for _, row in batch})
        slopes = np.zeros(3)
        for target, row in batch:
            slopes[row] += (table[row] - target) / divisor
        velocities[touched] = MOMENTUM * velocities[touched] + slopes[touched]
        table[touched] -= RATE * velocities[touched]
    return seen, table
