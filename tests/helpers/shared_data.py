"""Workers that train on one data set, for a while, and tell what they saw: a scenario of `tests.helpers.worker_job`."""

import os
import signal
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

from tpack.callbacks.base import Callback
from tpack.callbacks.hyper_param import ScaleWithWorkers
from tpack.callbacks.inference.inferencers import ClassificationError, ScalarStats
from tpack.callbacks.inference.runners import InferenceRunner
from tpack.callbacks.saver import ModelSaver
from tpack.callbacks.trigger import PeriodicTrigger
from tpack.dataflow import BatchData, DataFromList, MultiThreadMapData, ShardData
from tpack.errors import StopTraining
from tpack.graph_builder.model_desc import ModelDesc
from tpack.multi_worker.cross_worker import MergeScalars, SlowestWorker
from tpack.multi_worker.replicated_trainer import MultiWorkerTrainerReplicated
from tpack.tfutils.summary import add_moving_summary
from tpack.train.interface import launch_train_with_config
from tpack.train.resume import AutoResumeTrainConfig
from tpack.train.trainers import SyncMultiGPUTrainerReplicated
from tpack.utils import logger

COUNT, BATCH, VALIDATED = 48, 2, 21
STATISTICS = ["validation_error", "validation_size", "mean_of_ranks", "number", "step_secs/slowest_rank"]


class Labels(ModelDesc):
    """Names the labels that a tower sees, and calls odd ones wrong."""

    def inputs(self) -> list[tf.TensorSpec]:
        return [tf.TensorSpec([None], tf.int64, "label")]

    def build_graph(self, label: Any) -> Any:
        tf.identity(label, name="seen")
        tf.cast(label % 2, tf.float32, name="incorrect_vector")
        size = tf.cast(label, tf.float32, name="size")
        add_moving_summary(tf.reduce_sum(tf.ones_like(size), name="number"))
        return tf.reduce_mean(size * tf.get_variable("w", [], initializer=tf.ones_initializer()))

    def optimizer(self) -> tf.train.Optimizer:
        return tf.train.GradientDescentOptimizer(tf.get_variable("rate", initializer=0.5, trainable=False))


class Watch(Callback):
    """Keeps the labels and the rate of every step and the statistics of every epoch, and ends training at a step.

    Args:
        stop_at: the step.
        by_signal: end it by SIGTERM in the chief, and not by asking.
    """

    _chief_only = False
    reads_statistics = True

    def __init__(self, stop_at: int, *, by_signal: bool) -> None:
        self.seen: dict[int, list[int]] = {}
        self.rates: set[float] = set()
        self.statistics: list[dict[str, float]] = []
        self._stop_at = stop_at
        self._by_signal = by_signal

    def _before_epoch(self) -> None:
        (rate,) = (v for v in tf.global_variables() if v.op.name == "rate")
        self.rates.add(float(self.trainer.sess.run(rate)))

    def _before_run(self, ctx: Any) -> Any:
        return [tower.get_tensors(["seen"])[0] for tower in self.trainer.towers.training()]

    def _after_run(self, ctx: Any, values: Any) -> None:
        self._labels = [label for tower in values.results for label in tower.tolist()]

    def _trigger_step(self) -> None:
        self.seen[self.global_step] = self._labels
        if self.global_step == self._stop_at and not self._by_signal:
            raise StopTraining("the test wants it")
        if self.global_step == self._stop_at and self.trainer.is_chief:
            os.kill(os.getpid(), signal.SIGTERM)

    def _trigger_epoch(self) -> None:
        history = {name: self.trainer.monitors.get_history(name) for name in STATISTICS}
        self.statistics.append({name: values[-1] for name, values in history.items()})
        self.lengths = {name: len(values) for name, values in history.items()}


class ReportRank(Callback):
    """Reports the rank of the worker."""

    _chief_only = False

    def _trigger_epoch(self) -> None:
        self.trainer.monitors.put_scalar("mean_of_ranks", 0 if self.trainer.peers is None else self.trainer.peers.rank)
        if self.trainer.peers is None:
            self.trainer.monitors.put_scalar("step_secs/slowest_rank", 0)


def points(count: int) -> list[list[np.int64]]:
    """Return numbers from 0 on as data points."""
    return [[np.int64(k)] for k in range(count)]


def train(stop_at: int, *, alone: bool = False, by_signal: bool = False) -> dict[str, Any]:
    """Train to a step of the second epoch at the latest, going on where a former job in this directory stopped."""
    logger.set_logger_dir("log", action="k")
    watch = Watch(stop_at, by_signal=by_signal)
    shard = ShardData(DataFromList(points(COUNT)))
    validation = BatchData(DataFromList(points(VALIDATED), shuffle=False), 4, remainder=True)
    config = AutoResumeTrainConfig(
        model=Labels(),
        dataflow=BatchData(MultiThreadMapData(shard, 2, list, buffer_size=8, strict=True), BATCH),
        callbacks=[
            # Each step, but where what is interrupted has to be saved by itself.
            PeriodicTrigger(ModelSaver(max_to_keep=2), every_k_steps=4 if by_signal else 1),
            InferenceRunner(validation, [ClassificationError(), ScalarStats("size")]),
            ScaleWithWorkers("rate", "linear", base_workers=2),
            MergeScalars({"mean_of_ranks": "mean", "number": "sum"}),
            SlowestWorker(),
            ReportRank(),
            watch,
        ],
        max_epoch=2,
    )
    trainer = SyncMultiGPUTrainerReplicated(1) if alone else MultiWorkerTrainerReplicated(1)
    try:
        launch_train_with_config(config, trainer)
    except SystemExit as end:
        assert by_signal and end.code == 143, end
    return {
        "seen": watch.seen,
        "rates": watch.rates,
        "statistics": watch.statistics,
        "steps_per_epoch": trainer.steps_per_epoch,
    }
