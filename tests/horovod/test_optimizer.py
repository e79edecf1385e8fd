"""Gradients that `DistributedOptimizer` exchanges: equal to tpack's trainer bit by bit, and to one process."""

from typing import Any

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import tpack.horovod as hvd
from tests.helpers.horovod_workers import trained
from tests.helpers.worker_job import run_workers, values_of
from tpack.errors import ConfigError, GraphBuildError

RUN = "tests.helpers.horovod_workers.run"


def of_workers(directory: Any, what: str, num_workers: int = 2) -> list[Any]:
    return values_of(run_workers(RUN, num_workers, directory.mktemp(what), arguments={"what": what}))


@pytest.fixture(scope="module")
def workers(tmp_path_factory: Any) -> list[Any]:
    return of_workers(tmp_path_factory, "training")


@pytest.fixture(scope="module")
def alone() -> Any:
    """The weights of one process with the whole batches."""
    hvd.init()
    yield lambda **options: trained(0, 1, **options)
    hvd.shutdown()


def test_all_workers_have_equal_weights(workers: list[Any]) -> None:
    for name, weights in workers[0].items():
        for key, value in weights.items():
            np.testing.assert_array_equal(value, workers[1][name][key], err_msg=f"{name}, {key}")


def test_weights_are_those_of_the_trainer_of_several_workers(workers: list[Any], tmp_path_factory: Any) -> None:
    expected = of_workers(tmp_path_factory, "replicated")[0]
    for name in ("plain", "groups", "own"):
        for key, value in workers[0][name].items():
            np.testing.assert_array_equal(value, expected[key], err_msg=f"{name}, {key}")


@pytest.mark.parametrize(
    ("name", "options", "tolerance"),
    [
        ("plain", {}, 2e-6),
        ("dense", {}, 2e-6),
        ("predivided", {}, 2e-6),
        ("fp16", {}, 2e-3),
        (
            "passes",
            {"backward_passes_per_step": 4, "sparse_as_dense": True, "average_aggregated_gradients": True},
            2e-6,
        ),
    ],
)
def test_weights_are_those_of_one_process_with_the_whole_batch(
    workers: list[Any], alone: Any, name: str, options: Any, tolerance: float
) -> None:
    for key, value in alone(**options).items():
        np.testing.assert_allclose(workers[0][name][key], value, atol=tolerance, err_msg=key)


def test_what_compresses_and_what_combines_changes_the_weights(workers: list[Any]) -> None:
    kernels = {name: weights["kernel"] for name, weights in workers[0].items()}
    for name in ("fp16", "adasum", "passes"):
        assert not np.array_equal(kernels[name], kernels["plain"]), name
    # A codec leaves small gradients as they are.
    np.testing.assert_array_equal(kernels["int8"], kernels["plain"])


def test_gradients_that_go_around_the_optimizer_are_warned_of(tmp_path_factory: Any) -> None:
    for found in of_workers(tmp_path_factory, "warned"):
        assert len(found) == 1
        assert "nothing is exchanged between the workers. Use compute_gradients" in found[0]


def test_arguments_are_checked(graph: Any) -> None:
    inner = tf.train.GradientDescentOptimizer(1.0)
    with pytest.raises(GraphBuildError, match=r"expected a tf.compat.v1.train.Optimizer; use tpack.keras.fit"):
        hvd.DistributedOptimizer(object())
    for name, value in (("backward_passes_per_step", 0), ("gradient_predivide_factor", 0.0), ("groups", 0)):
        with pytest.raises(ConfigError, match=name):
            hvd.DistributedOptimizer(inner, **{name: value})
    with pytest.raises(ConfigError, match="expected op=Average"):
        hvd.DistributedOptimizer(inner, op=hvd.Sum, gradient_predivide_factor=2.0)
    with pytest.raises(ConfigError, match="op=Adasum: expected False"):
        hvd.DistributedOptimizer(inner, op=hvd.Adasum, average_aggregated_gradients=True)
    with pytest.raises(ConfigError, match=r"expected hvd.Average, hvd.Sum or hvd.Adasum"):
        hvd.DistributedOptimizer(inner, op=hvd.Min)


def test_sums_of_sparse_gradients_want_them_dense(alone: Any) -> None:
    with pytest.raises(ConfigError, match=r"sparse gradients of table: expected dense ones; use sparse_as_dense=True"):
        trained(0, 1, backward_passes_per_step=2)


def test_slots_are_those_of_the_inner_optimizer(alone: Any) -> None:
    with tf.Graph().as_default():
        weight = tf.get_variable("w", [2], initializer=tf.zeros_initializer())
        optimizer = hvd.DistributedOptimizer(tf.train.MomentumOptimizer(1.0, 0.9))
        step = tf.train.get_or_create_global_step()
        optimizer.minimize(tf.reduce_sum(weight), global_step=step)
        assert optimizer.get_slot_names() == ["momentum"]
        assert optimizer.get_slot(weight, "momentum").op.name == "w/Momentum"
        assert optimizer.get_name() == "DistributedMomentumOptimizer"
