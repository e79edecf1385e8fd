"""One model, four ways to replicate it, one result: strategies, model functions, trainers' builders, and one big batch.

The model is dense and has an embedding; see `tests.helpers.equivalence`.
"""

from typing import Any

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.equivalence import OPTIMIZERS, STEPS, batches, build_cost, one_tower, train
from tests.helpers.sessions import cpu_session
from tests.helpers.tower_grads import cpu_devices
from tpack.distribute.strategies import MirroredStrategy
from tpack.distribute.trainer import StrategyBuilder
from tpack.estimator import EstimatorSpec, TowerOptimizer, replicate_model_fn
from tpack.graph_builder.replicated import SyncMultiGPUReplicatedBuilder


def _train_model_fn(num_towers: int, optimizer: str) -> dict[str, np.ndarray]:
    """Make the steps with `replicate_model_fn` and return the weights."""

    def model_fn(features: Any, labels: Any, mode: str) -> EstimatorSpec:
        loss = build_cost(features["x"], features["p"], features["ids"], labels)
        step = tf.train.get_or_create_global_step()
        train_op = TowerOptimizer(OPTIMIZERS[optimizer]()).minimize(loss, global_step=step)
        return EstimatorSpec(mode, loss=loss, train_op=train_op)

    data = batches(num_towers, "float64")
    with tf.Graph().as_default() as graph:
        number = tf.placeholder(tf.int32, [])
        features = {key: tf.constant(data[key])[number] for key in ("x", "p", "ids")}
        labels = tf.constant(data["y"])[number]
        spec = replicate_model_fn(model_fn, devices=cpu_devices(num_towers))(features, labels, "train")
        with cpu_session(graph) as session:
            session.run(tf.global_variables_initializer())
            for step in range(STEPS):
                session.run(spec.train_op, {number: step})
            return dict(session.run({variable.op.name: variable for variable in tf.trainable_variables()}))


@pytest.mark.parametrize(
    ("num_towers", "optimizer"), [(1, "adam"), (2, "adam"), (2, "momentum"), (4, "adam"), (8, "momentum")]
)
def test_all_ways_to_replicate_give_the_same_weights(num_towers: int, optimizer: str) -> None:
    oracle = one_tower(optimizer, num_towers).weights[0]
    strategy = StrategyBuilder(MirroredStrategy(cpu_devices(num_towers)))
    ways = {
        "MirroredStrategy": train(strategy, optimizer, num_towers).weights[-1],
        "replicated builder": train(SyncMultiGPUReplicatedBuilder(num_towers), optimizer, num_towers).weights[-1],
        "replicate_model_fn": _train_model_fn(num_towers, optimizer),
    }
    for way, weights in ways.items():
        assert weights.keys() == oracle.keys(), way
        for name, value in oracle.items():
            np.testing.assert_allclose(weights[name], value, rtol=1e-9, atol=1e-11, err_msg=f"{name} of {way}")
