"""A model with given gradients, and their noise scale, in this process and in those of `tests.helpers.worker_job`."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

from tests.helpers.worker_scenarios import outcome, place, trainer
from tpack.callbacks.gradient_noise import GradientNoiseScale
from tpack.graph_builder.model_desc import ModelDesc
from tpack.input_source.tensors import TensorInput
from tpack.tfutils.graph_lookup import get_global_step_var
from tpack.tower.context import current_tower_context
from tpack.train.config import TrainConfig
from tpack.train.interface import launch_train_with_config
from tpack.utils import logger

NUM_STEPS, BATCH = 6, 8
GRADIENTS = np.random.default_rng(5).normal(0.5, size=(NUM_STEPS, 4, 3))
"""For each step and tower: the gradient of two weights, and what that of a table is made of."""


class Given(ModelDesc):
    """Two weights and a table, of which one row is touched twice and another once; gradients are the input."""

    def inputs(self) -> list[Any]:
        return [tf.TensorSpec([3], tf.float64, "gradient")]

    def build_graph(self, gradient: Any) -> Any:
        weights = tf.get_variable("w", [2], tf.float64, tf.zeros_initializer())
        table = tf.get_variable("table", [4, 1], tf.float64, tf.zeros_initializer())
        rows = tf.nn.embedding_lookup(table, [1, 1, 2])
        return tf.reduce_sum(weights * gradient[:2]) + tf.reduce_sum(rows) * gradient[2]

    def optimizer(self) -> Any:
        return tf.train.GradientDescentOptimizer(0.25)


def given_data(towers: int, rank: int = 0) -> TensorInput:
    """Return an input with the gradient of each tower of a worker."""

    def get_tensors() -> list[Any]:
        tower = rank * towers + current_tower_context().index
        return [tf.constant(GRADIENTS[:, tower])[get_global_step_var().read_value()]]

    return TensorInput(get_tensors, size=NUM_STEPS)


def estimates(num_towers: int, step: int, of_own: int) -> np.ndarray:
    """Return the squared norm and the trace that one step gives, as numpy has them.

    Args:
        num_towers: the number of all towers.
        step: the step, from 0.
        of_own: the number of towers, the first ones, whose own gradients count.
    """

    def square(gradient: np.ndarray) -> float:
        a, b, c = gradient
        return a * a + b * b + (2 * c) ** 2 + c * c

    rows = GRADIENTS[step, :num_towers]
    own, of_mean = np.mean([square(row) for row in rows[:of_own]]), square(rows.mean(0))
    whole = BATCH * num_towers
    trace = (own - of_mean) / (1 / BATCH - 1 / whole)
    return np.array([(whole * of_mean - BATCH * own) / (whole - BATCH), trace])


def smoothed(num_towers: int, steps: Sequence[int], smoothing: float, of_own: int | None = None) -> dict[str, float]:
    """Return what is reported after some steps: means with weights that fall by a factor."""
    of_own = num_towers if of_own is None else of_own
    weights = smoothing ** np.arange(len(steps))[::-1]
    square, trace = np.average([estimates(num_towers, step, of_own) for step in steps], axis=0, weights=weights)
    scale = {"gradient_noise/scale": trace / square} if square > 0 else {}
    return {"gradient_noise/squared_norm": square, "gradient_noise/trace": trace, **scale}


def reported(made: Any, callback: Any, model: Any = None, data: Any = None, **settings: Any) -> dict[str, float]:
    """Train by a trainer with a callback; return the last values of the noise."""
    rank = 0 if made.peers is None else made.peers.rank
    config = TrainConfig(
        model=model or Given(),
        data=data or given_data(len(made.devices), rank),
        callbacks=[callback],
        extra_callbacks=[],
        monitors=[],
        **{"steps_per_epoch": NUM_STEPS, "max_epoch": 1, **settings},
    )
    launch_train_with_config(config, made)
    rows = list(made.history)
    return {key: value for row in rows for key, value in row.items() if key.startswith("gradient_noise/")}


def of_workers() -> dict[str, Any]:
    """Train in one of several workers in several ways; return what is reported, or the error."""
    place()
    logger.set_logger_dir("log", action="k")

    def run(towers: int, **options: Any) -> Any:
        with tf.Graph().as_default():
            return reported(trainer(towers, **options), GradientNoiseScale(BATCH))

    return {
        "mean": run(2),
        "one tower each": run(1),
        "sum": run(2, average=False),
        "codec": outcome(lambda: run(2, exchange="int8")),
        "adasum": outcome(lambda: run(2, exchange="adasum")),
        "sharded": outcome(lambda: run(2, shard_optimizer=True)),
    }
