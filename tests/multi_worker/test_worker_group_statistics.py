"""Towers of several workers whose batch normalisation is synchronised train like one tower with the whole batch."""

from typing import Any

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.synchronised_workers import Synchronised, rows_of, trained
from tests.helpers.worker_job import run_workers, values_of
from tpack.callbacks.weight_averages.swa import SWA
from tpack.dataflow.sources import DataFromList
from tpack.errors import CallbackError, ConfigError
from tpack.models.batch_norm import BatchNorm
from tpack.multi_worker.gradient_buckets import exchanged_here
from tpack.multi_worker.worker_group import StatisticsExchange, WorkerGroup, statistics_exchanged
from tpack.reduction.cross_replica import across_workers, results_across_workers, stack_over_workers
from tpack.tower.context import PredictTowerContext, TrainTowerContext
from tpack.train.config import TrainConfig
from tpack.train.interface import launch_train_with_config
from tpack.train.trainers import SimpleTrainer

GROUP = WorkerGroup(["/job:worker/task:0", "/job:worker/task:1"], 1, "run")


@pytest.fixture(scope="module")
def workers(tmp_path_factory: Any) -> Any:
    """What two workers return that train in several ways."""
    return values_of(run_workers("tests.helpers.synchronised_workers.of_workers", 2, tmp_path_factory.mktemp("sync")))


@pytest.fixture(scope="module")
def whole() -> Any:
    """What one tower with the whole batch keeps."""
    with tf.Graph().as_default():
        return trained(SimpleTrainer(), True)


@pytest.mark.parametrize("name", ["two towers", "one tower", "in a loop", "sharded"])
def test_three_steps_are_those_of_one_tower_with_the_whole_batch(workers: Any, whole: Any, name: str) -> None:
    """The slots are sums of gradients."""
    expected = whole.values
    assert {"bn0/mean/EMA", "bn0/variance/EMA", "bn1/mean/EMA", "fc/W", "fc/W/Momentum", "bn0/gamma"} <= set(expected)
    for found in workers:
        # Slots that are divided are where their owner is, and in worker 0, which saves.
        shared = expected.keys() & found[name]["values"].keys() if name == "sharded" else expected.keys()
        assert "fc/W" in shared
        for key, value in ((key, expected[key]) for key in shared):
            np.testing.assert_allclose(found[name]["values"][key], value, rtol=1e-8, atol=1e-12, err_msg=key)
            np.testing.assert_array_equal(found[name]["values"][key], workers[0][name]["values"][key], err_msg=key)


@pytest.mark.parametrize("name", ["two towers", "one tower", "sharded"])
def test_outputs_of_all_towers_are_those_of_one_tower_with_the_whole_batch(workers: Any, whole: Any, name: str) -> None:
    for ranks, ((first, second, cost),) in zip(
        zip(*(found[name]["steps"] for found in workers), strict=True), whole.steps, strict=True
    ):
        towers = [tower for rank in ranks for tower in rank]
        np.testing.assert_allclose(np.concatenate([outputs[0] for outputs in towers]), first, rtol=1e-9, atol=1e-11)
        np.testing.assert_allclose(np.concatenate([outputs[1] for outputs in towers]), second, rtol=1e-9, atol=1e-11)
        np.testing.assert_allclose(np.mean([outputs[2] for outputs in towers]), cost, rtol=1e-10)


def test_towers_of_each_worker_alone_compute_something_else(workers: Any, whole: Any) -> None:
    steps = [found["towers alone"]["steps"] for found in workers]
    assert np.abs(np.concatenate([tower[0] for rank in steps for tower in rank[0]]) - whole.steps[0][0][0]).max() > 0.01


def test_local_steps_which_exchange_nothing_are_refused_on_all_workers(workers: Any) -> None:
    assert all("is to be synchronised over several workers" in found["local steps"] for found in workers)


def test_a_layer_exchanges_twice_and_the_workers_compare_both(graph: Any) -> None:
    with statistics_exchanged(GROUP), TrainTowerContext(""):
        x = tf.get_variable("x", [4, 3])
        outputs = BatchNorm("bn", x, sync_statistics="workers")
        tf.gradients(outputs, [x])
    kinds = sorted(op.type for op in graph.get_operations() if op.type in ("QueueEnqueueV2", "QueueDequeueV2"))
    assert kinds == ["QueueDequeueV2"] * 2 + ["QueueEnqueueV2"] * 2
    noted = [each.partition("a statistic float32 ")[2] for each in exchanged_here()]
    assert noted == ["(1, 7) statistics/0/rows", "(1, 7) statistics/1/sums"]
    assert len(results_across_workers()) == 2


def test_prediction_and_one_worker_exchange_nothing(graph: Any) -> None:
    with statistics_exchanged(GROUP), PredictTowerContext(""):
        BatchNorm("bn", tf.ones([4, 3]), sync_statistics="workers")
        assert stack_over_workers(tf.ones([2])).shape == [1, 2]
    with statistics_exchanged(WorkerGroup([""], 0, "run")), TrainTowerContext("train"):
        BatchNorm("bn2", tf.ones([4, 3]), sync_statistics="workers")
    assert not results_across_workers()
    assert not exchanged_here()


def test_second_derivatives_pass_the_exchange(session8: Any) -> None:
    """As with one worker whose exchange hands everything back."""

    class Alone:
        gather = scatter_sums = staticmethod(tf.identity)

    x = tf.constant([1.0, 2.0, -3.0])
    with across_workers(Alone()), TrainTowerContext(""):
        y = tf.reduce_sum(stack_over_workers(x) ** 3)
        (first,) = tf.gradients(y, [x])
        (second,) = tf.gradients(first, [x])
    np.testing.assert_allclose(session8.run([first, second]), [[3, 12, 27], [6, 12, -18]], rtol=1e-6)


def test_several_processes_without_an_exchange_are_refused(graph: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1"}.items():
        monkeypatch.setenv(name, value)
    with (
        TrainTowerContext(""),
        pytest.raises(ConfigError, match="^BatchNorm.*bn.* is to be synchronised over several .*; use the towers of"),
    ):
        BatchNorm("bn", tf.ones([4, 3]), sync_statistics="workers")


def test_statistics_for_other_weights_are_not_estimated_by_one_worker_alone(graph: Any, log_dir: Any) -> None:
    class Alone:
        gather = scatter_sums = staticmethod(tf.identity)

    batches = DataFromList([[np.ones([4, 3, 2, 2]), np.ones([4, 3])]])
    config = TrainConfig(
        model=Synchronised(),
        data=rows_of(1, 1, 0),
        callbacks=[SWA(batch_norm_data=batches)],
        steps_per_epoch=1,
        max_epoch=1,
    )
    with across_workers(Alone()), pytest.raises(CallbackError, match="expected layers without sync_statistics='worke"):
        launch_train_with_config(config, SimpleTrainer())


def test_the_first_call_counts_the_parts_of_the_workers(graph: Any) -> None:
    noted = []

    class Counted:
        def note(self, group: Any, arrived: Any) -> Any:
            noted.append(len(arrived))
            return [tf.no_op()]

    exchange = StatisticsExchange(GROUP, Counted())
    exchange.gather(tf.ones([1, 2]))
    exchange.scatter_sums(tf.ones([2, 2]))
    assert noted == [2]
