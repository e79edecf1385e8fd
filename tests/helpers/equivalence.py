"""A small model for comparing K towers with one tower, and the runs that are compared.

The model has a dense layer, an embedding whose gradient is an ``IndexedSlices`` with duplicate rows, and a layer
normalised by the statistics of its batch. The rows that are normalised are the same in every tower, in another order,
so that a tower's statistics are those of the whole batch; everything else differs between towers.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

from tests.helpers.sessions import cpu_session
from tpack.graph_builder.base import GraphBuilder
from tpack.graph_builder.towers import SimpleBuilder
from tpack.graph_copy.towers import replicate_by_copy
from tpack.tower.context import current_tower_context

STEPS = 5
TOWER_BATCH = 4
NUM_ROWS = 7

OPTIMIZERS = {
    "sgd": lambda: tf.train.GradientDescentOptimizer(0.1),
    "momentum": lambda: tf.train.MomentumOptimizer(0.1, 0.9),
    "adam": lambda: tf.train.AdamOptimizer(0.05),
    "rmsprop": lambda: tf.train.RMSPropOptimizer(0.05, momentum=0.5),
    "adagrad": lambda: tf.train.AdagradOptimizer(0.1),
    "adadelta": lambda: tf.train.AdadeltaOptimizer(1.0, epsilon=1e-3),
    "ftrl": lambda: tf.train.FtrlOptimizer(0.1),
}


@dataclass(frozen=True)
class Run:
    """The weights after `STEPS` steps: {name: value} for each tower, and the cost of each step in each tower."""

    weights: list[dict[str, np.ndarray]]
    costs: np.ndarray


@lru_cache
def batches(num_towers: int, dtype: str) -> dict[str, np.ndarray]:
    """Return the data of all steps: arrays of shape [STEPS, K * B, ...]."""
    rng = np.random.default_rng(7)
    rows = num_towers * TOWER_BATCH
    normalised = rng.normal(size=(STEPS, TOWER_BATCH, 3))
    shuffled = [normalised[:, rng.permutation(TOWER_BATCH)] for _ in range(num_towers)]
    return {
        "x": rng.normal(size=(STEPS, rows, 5)).astype(dtype),
        "p": np.concatenate(shuffled, axis=1).astype(dtype),
        "ids": rng.integers(0, NUM_ROWS, size=(STEPS, rows, 3)),
        "y": rng.normal(size=(STEPS, rows, 2)).astype(dtype),
    }


def build_cost(x: Any, p: Any, ids: Any, y: Any) -> Any:
    """Build the model and return its cost, the mean over the batch."""
    dtype = x.dtype

    def weight(name: str, *shape: int) -> Any:
        values = np.random.default_rng(len(name)).normal(size=shape, scale=0.5)
        return tf.get_variable(name, shape, dtype, tf.constant_initializer(values))

    normalised = p @ weight("normalised/W", 3, 2)
    mean, variance = tf.nn.moments(normalised, axes=[0])
    offset, scale = weight("normalised/beta", 2), weight("normalised/gamma_", 2)
    normalised = tf.nn.batch_normalization(normalised, mean, variance, offset, scale, 1e-3)
    embedded = tf.reduce_sum(tf.nn.embedding_lookup(weight("embedding", NUM_ROWS, 2), ids), axis=1)
    output = tf.nn.tanh(x @ weight("dense/W", 5, 2) + weight("dense/bias", 2)) + normalised + embedded
    return tf.reduce_mean(tf.square(output - y), name="cost")


def train(
    builder: GraphBuilder, optimizer: Any, num_towers: int, dtype: str = "float64", *, rewrites: bool = True
) -> Run:
    """Make `STEPS` steps with ``builder`` on the data of ``num_towers`` towers and return what came out.

    The optimizer is the name of one of `OPTIMIZERS`, or a function that makes one.
    """
    data = batches(num_towers, dtype)
    with tf.Graph().as_default() as graph:
        step = tf.placeholder(tf.int32, [])
        costs = []

        def grad_fn() -> Any:
            tower = current_tower_context()
            rows = num_towers * TOWER_BATCH // tower.total
            part = slice(tower.index * rows, (tower.index + 1) * rows)
            return replicate_by_copy(build, *(tf.constant(data[key][:, part])[step] for key in ("x", "p", "ids", "y")))

        def build(*inputs: Any) -> Any:
            cost = build_cost(*inputs)
            costs.append(cost)
            variables = current_tower_context().get_collection_in_tower(tf.GraphKeys.TRAINABLE_VARIABLES)
            return list(zip(tf.gradients(cost, variables, colocate_gradients_with_ops=True), variables, strict=True))

        made: list[Any] = []

        def optimizer_fn() -> Any:
            if not made:
                made.append(OPTIMIZERS.get(optimizer, optimizer)())
            return made[0]

        result = builder.build(grad_fn, optimizer_fn)
        with cpu_session(graph, num_cpus=num_towers, rewrites=rewrites) as session:
            session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
            if result.init_op is not None:
                session.run(result.init_op)
            values = [session.run([costs, result.train_op], {step: number})[0] for number in range(STEPS)]
            weights = [_weights(session, tower) for tower in result.towers]
    return Run(weights, np.array(values))


@lru_cache
def one_tower(optimizer: Any, num_towers: int, dtype: str = "float64") -> Run:
    """Return the oracle: one tower that gets the whole batch of K towers."""
    return train(SimpleBuilder(), optimizer, num_towers, dtype, rewrites=False)


def _weights(session: Any, tower: Any) -> dict[str, np.ndarray]:
    variables = tower.get_collection_in_tower(tf.GraphKeys.TRAINABLE_VARIABLES)
    names = [variable.op.name[len(tower.vs_name) :].lstrip("/") for variable in variables]
    return dict(zip(names, session.run(variables), strict=True))
