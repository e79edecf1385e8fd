"""K towers equal one tower: every synchronous builder, reducer and optimizer against one tower with the whole batch."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.helpers.equivalence import OPTIMIZERS, Run, one_tower, train
from tpack.graph_builder.replicated import SyncMultiGPUReplicatedBuilder
from tpack.graph_builder.towers import SyncMultiGPUParameterServerBuilder
from tpack.reduction.algorithms.collective import CollectiveReducer
from tpack.reduction.algorithms.composite import HierarchicalReducer
from tpack.reduction.algorithms.one_device import OneDeviceReducer, RoundRobinReducer

BUILDERS: dict[str, Callable[[int], Any]] = {
    "parameter-server-cpu": lambda k: SyncMultiGPUParameterServerBuilder(k, "cpu"),
    "parameter-server-gpu": lambda k: SyncMultiGPUParameterServerBuilder(k, "gpu"),
    "replicated-one-device": lambda k: SyncMultiGPUReplicatedBuilder(k, reducer=OneDeviceReducer()),
    "replicated-round-robin": lambda k: SyncMultiGPUReplicatedBuilder(k, reducer=RoundRobinReducer()),
    "replicated-hierarchical": lambda k: SyncMultiGPUReplicatedBuilder(k, reducer=HierarchicalReducer()),
    "replicated-collective": lambda k: SyncMultiGPUReplicatedBuilder(k, reducer=CollectiveReducer()),
}

# Pairs, not products: every optimizer with one builder, and every builder with two optimizers and numbers of towers.
# The hierarchical reducer wants an even number of at least four towers. One tower has no gradients to reduce: an
# optimizer with state of each kind, slots and not, says enough.
MATRIX = [
    *(("replicated-round-robin", 3, optimizer) for optimizer in OPTIMIZERS),
    *((builder, 3, "momentum") for builder in BUILDERS if not builder.endswith(("-hierarchical", "-round-robin"))),
    *((builder, 8, "adam") for builder in BUILDERS),
    *((builder, 1, "adam") for builder in BUILDERS if builder != "replicated-hierarchical"),
    ("replicated-hierarchical", 8, "momentum"),
]


def assert_same_weights(run: Run, oracle: Run, rtol: float, atol: float) -> None:
    for tower, weights in enumerate(run.weights):
        assert weights.keys() == oracle.weights[0].keys()
        for name, value in weights.items():
            np.testing.assert_allclose(value, oracle.weights[0][name], rtol, atol, err_msg=f"{name} of tower {tower}")


def assert_identical_towers(run: Run) -> None:
    for tower, weights in enumerate(run.weights):
        for name, value in weights.items():
            assert value.tobytes() == run.weights[0][name].tobytes(), f"{name} of tower {tower} differs from tower 0's"


def test_oracle_learns_something() -> None:
    run = one_tower("sgd", 2)
    assert run.costs.shape == (5, 1)
    assert np.abs(run.weights[0]["embedding"]).sum() > 0
    assert len({value.tobytes() for value in run.costs}) == 5


@pytest.mark.parametrize(("builder", "num_towers", "optimizer"), MATRIX)
def test_towers_end_with_the_weights_of_one_tower(builder: str, num_towers: int, optimizer: str) -> None:
    # Three towers are run as users run them; how many there are is nothing to TensorFlow's rewriting of graphs.
    run = train(BUILDERS[builder](num_towers), optimizer, num_towers, rewrites=num_towers == 3)

    assert_same_weights(run, one_tower(optimizer, num_towers), rtol=1e-9, atol=1e-11)
    assert_identical_towers(run)
    np.testing.assert_allclose(run.costs.mean(axis=1), one_tower(optimizer, num_towers).costs[:, 0], rtol=1e-9)


@pytest.mark.parametrize("builder", [SyncMultiGPUReplicatedBuilder, SyncMultiGPUParameterServerBuilder])
def test_copied_towers_end_with_the_weights_of_built_ones(builder: Callable[..., Any]) -> None:
    built, copied = (train(builder(4, tower_building=how), "adam", 4, rewrites=False) for how in ("build", "copy"))

    assert_same_weights(copied, built, rtol=0, atol=0)
    np.testing.assert_array_equal(copied.costs, built.costs)


@pytest.mark.parametrize(
    ("builder", "optimizer"), [*((builder, "adam") for builder in BUILDERS), ("replicated-round-robin", "momentum")]
)
def test_single_precision_agrees_to_its_own_tolerance_and_two_runs_to_the_bit(builder: str, optimizer: str) -> None:
    first, second = (train(BUILDERS[builder](8), optimizer, 8, "float32") for _ in range(2))

    assert_same_weights(first, one_tower(optimizer, 8, "float32"), rtol=1e-3, atol=1e-4)
    assert_identical_towers(first)
    assert first.costs.tobytes() == second.costs.tobytes()
    for a, b in zip(first.weights, second.weights, strict=True):
        assert {name: value.tobytes() for name, value in a.items()} == {name: v.tobytes() for name, v in b.items()}


def test_summed_gradients_equal_a_larger_learning_rate() -> None:
    run = train(SyncMultiGPUReplicatedBuilder(2, average=False), "sgd", 2)
    mean = train(SyncMultiGPUReplicatedBuilder(2, average=True), "sgd", 2)

    assert not np.allclose(run.weights[0]["dense/W"], mean.weights[0]["dense/W"])
