"""Towers under every strategy end with the weights of one tower that gets the whole batch."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.equivalence import OPTIMIZERS, build_cost, one_tower, train
from tests.helpers.optimizers import REPRESENTATIVE
from tests.helpers.same_graphs import structure
from tests.helpers.sessions import cpu_session
from tests.helpers.tower_grads import cpu_devices
from tpack.distribute.default_strategy import DEFAULT_STRATEGY
from tpack.distribute.strategies import (
    CollectiveAllReduceStrategy,
    MirroredStrategy,
    OneDeviceStrategy,
    ParameterServerStrategy,
)
from tpack.distribute.strategy import DistributionStrategy
from tpack.distribute.trainer import StrategyBuilder
from tpack.errors import ConfigError, GraphBuildError, StrategyError
from tpack.graph_builder.replicated import SyncMultiGPUReplicatedBuilder
from tpack.graph_builder.towers import SimpleBuilder
from tpack.models.batch_norm import BatchNorm
from tpack.tower.context import current_tower_context

STRATEGIES: dict[str, Callable[[int], DistributionStrategy]] = {
    "mirrored": lambda k: MirroredStrategy(cpu_devices(k)),
    "parameter server": lambda k: ParameterServerStrategy(devices=cpu_devices(k)),
    "balanced": lambda k: ParameterServerStrategy(devices=cpu_devices(k), parameter_devices=cpu_devices(k)),
    "collective": lambda k: CollectiveAllReduceStrategy(devices=cpu_devices(k)),
    "one device": lambda k: OneDeviceStrategy(f"/cpu:{k - 1}"),
}
MATRIX = [(name, 4, "adam") for name in STRATEGIES] + [
    *(("mirrored", k, "momentum") for k in (1, 3)),
    *(("mirrored", 2, optimizer) for optimizer in ("ftrl", "rmsprop")),
    ("balanced", 2, "rmsprop"),
    ("collective", 2, "adagrad"),
]


@pytest.mark.parametrize(("name", "num_towers", "optimizer"), MATRIX)
def test_towers_end_with_the_weights_of_one_tower(name: str, num_towers: int, optimizer: str) -> None:
    builder = StrategyBuilder(STRATEGIES[name](num_towers))
    run, oracle = train(builder, optimizer, num_towers), one_tower(optimizer, num_towers)
    assert len(run.weights) == (1 if name == "one device" else num_towers)
    for weights in run.weights:
        assert weights.keys() == oracle.weights[0].keys()
        for variable, value in oracle.weights[0].items():
            np.testing.assert_allclose(weights[variable], value, rtol=1e-9, atol=1e-11, err_msg=variable)
    np.testing.assert_allclose(run.costs.mean(axis=1), oracle.costs[:, 0], rtol=1e-9)


@pytest.mark.parametrize("optimizer", REPRESENTATIVE)
def test_a_step_is_that_of_replicated_towers_operation_by_operation(optimizer: str) -> None:
    """So a strategy costs no time: there is no copy, read or dependency that replicated towers do not have."""

    def step(builder: Any) -> Any:
        def grad_fn() -> Any:
            tower = current_tower_context()
            x, p, y = (tf.random.stateless_normal([4, size], (tower.index, size)) for size in (5, 3, 2))
            cost = build_cost(x, p, tf.fill([4, 3], tower.index), y)
            variables = tower.get_collection_in_tower(tf.GraphKeys.TRAINABLE_VARIABLES)
            return list(zip(tf.gradients(cost, variables, colocate_gradients_with_ops=True), variables, strict=True))

        with tf.Graph().as_default():
            return structure(builder.build(grad_fn, OPTIMIZERS[optimizer]).train_op)

    assert step(StrategyBuilder(STRATEGIES["mirrored"](3))) == step(SyncMultiGPUReplicatedBuilder(3))


def test_towers_and_train_op_are_those_of_the_strategy(session8: Any) -> None:
    strategy = MirroredStrategy(cpu_devices(3))
    builder = StrategyBuilder(strategy)
    assert builder.devices == tuple(strategy.worker_devices)
    assert builder.strategy is strategy

    def grad_fn() -> Any:
        weight = tf.get_variable("w", [2])
        return [(tf.ones([2]), weight)]

    result = builder.build(grad_fn, lambda: tf.train.GradientDescentOptimizer(0.5))
    assert [tower.index for tower in result.towers] == [0, 1, 2]
    assert result.train_op.name == "train_op"
    assert result.init_op is result.sync_op is None
    (weight,) = tf.trainable_variables()
    session8.run(tf.global_variables_initializer())
    before = session8.run(weight.components)
    session8.run(result.train_op)
    after = session8.run(weight.components)
    assert len(before) == 3
    for one, other in zip(before, after, strict=True):
        assert one.tobytes() == before[0].tobytes()
        np.testing.assert_allclose(other, one - 0.5)


def _train_normalised(builder: Any, sync: bool) -> dict[str, np.ndarray]:
    """Make three steps of a model with batch normalisation; return all variables, after a check of the mirrors."""
    x = np.random.default_rng(5).normal(size=(8, 3), loc=2.0)
    with tf.Graph().as_default() as graph:

        def grad_fn() -> Any:
            tower = current_tower_context()
            part = x[tower.index * 8 // tower.total : (tower.index + 1) * 8 // tower.total]
            normalised = BatchNorm("bn", tf.constant(part), momentum=0.5, sync_statistics=sync)
            cost = tf.reduce_mean(tf.square(tf.sigmoid(normalised) - tf.constant(part)))
            variables = tower.get_collection_in_tower(tf.GraphKeys.TRAINABLE_VARIABLES)
            return list(zip(tf.gradients(cost, variables), variables, strict=True))

        result = builder.build(grad_fn, lambda: tf.train.MomentumOptimizer(0.5, 0.9))
        updates = tf.get_collection(tf.GraphKeys.UPDATE_OPS)
        with cpu_session(graph) as session:
            session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
            for _ in range(3):
                session.run([result.train_op, updates])
            for variable in tf.trainable_variables():
                mirrors = session.run(getattr(variable, "components", [variable]))
                assert len({mirror.tobytes() for mirror in mirrors}) == 1
            return dict(session.run({variable.op.name: variable for variable in tf.global_variables()}))


@pytest.mark.parametrize("name", ["mirrored", "parameter server"])
def test_synchronised_batch_normalisation_equals_one_tower(name: str) -> None:
    run = _train_normalised(StrategyBuilder(STRATEGIES[name](4)), sync=True)
    oracle = _train_normalised(SimpleBuilder(), sync=True)
    assert run.keys() == oracle.keys()
    for variable, value in oracle.items():
        np.testing.assert_allclose(run[variable], value, rtol=1e-9, err_msg=variable)


@pytest.mark.parametrize("name", ["mirrored", "parameter server"])
def test_moving_averages_are_the_mean_over_towers(name: str) -> None:
    """As they are where every tower sees as many rows: the mean of the means is the mean of the batch."""
    run = _train_normalised(StrategyBuilder(STRATEGIES[name](4)), sync=False)
    oracle = _train_normalised(SimpleBuilder(), sync=False)
    assert run.keys() == oracle.keys()
    np.testing.assert_allclose(run["bn/mean/EMA"], oracle["bn/mean/EMA"], rtol=1e-9)


def test_other_optimizers_are_refused(graph: Any) -> None:
    builder = StrategyBuilder(MirroredStrategy(cpu_devices(2)))
    with pytest.raises(GraphBuildError, match="expected a tf.compat.v1.train.Optimizer"):
        builder.build(lambda: [(tf.ones([]), tf.get_variable("w", []))], lambda: "adam")


def test_another_strategy_around_is_an_error(graph: Any) -> None:
    builder = StrategyBuilder(MirroredStrategy(cpu_devices(2)))
    with OneDeviceStrategy("/cpu:0").scope(), pytest.raises(StrategyError, match="mixing different Distribution"):
        builder.build(list, lambda: tf.train.GradientDescentOptimizer(0.5))


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (3, "StrategyBuilder got strategy=3: expected a DistributionStrategy"),
        (None, "StrategyBuilder got strategy=None: expected a DistributionStrategy"),
        (DEFAULT_STRATEGY, "got strategy=<DefaultStrategy>: expected one with devices"),
        (MirroredStrategy, "StrategyBuilder got strategy=the class MirroredStrategy: expected a DistributionStrategy"),
    ],
    ids=["a number", "nothing", "the default one", "a class"],
)
def test_other_things_are_no_strategies(other: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        StrategyBuilder(other)
