"""A real training of several workers, for trials in which they meet with faults: started by ``tpack launch``.

    tpack launch -n 2 [--ps 1] -m tests.helpers.killable_worker LOG_DIR [--max-epoch N] [--heartbeat SECS] \
        [--memory-every STEPS] [--total-batch N] [--end-at STEP]

Its input and its sums are the same in every run, so that one that was killed and started anew again and again ends with
the weights of one that was not. Each process prints its number, and each worker the number of every tenth step. Where
there are parameter servers, the variables lie on them.
"""

import argparse
import os
import signal
import sys
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

from tpack.callbacks.base import Callback
from tpack.callbacks.saver import ModelSaver
from tpack.callbacks.trigger import PeriodicTrigger
from tpack.dataflow.batch import BatchData
from tpack.dataflow.shard import ShardData
from tpack.dataflow.sources import DataFromList
from tpack.errors import StopTraining
from tpack.graph_builder.model_desc import ModelDesc
from tpack.multi_worker.cluster.resolver import resolve_cluster
from tpack.multi_worker.memory_saver import MemorySaver
from tpack.multi_worker.ps_trainer import DistributedTrainerParameterServer
from tpack.multi_worker.replicated_trainer import MultiWorkerTrainerReplicated
from tpack.multi_worker.trainer import WaitLimits
from tpack.train.interface import launch_train_with_config
from tpack.train.resume import AutoResumeTrainConfig
from tpack.utils import logger

STEPS_PER_EPOCH = 40
BATCH = 4
SAVE_EVERY = 9


class Regression(ModelDesc):
    """Two layers; what a step does depends on the step before and on its own points."""

    def inputs(self) -> list[Any]:
        return [tf.TensorSpec([None, 8], tf.float32, "x"), tf.TensorSpec([None], tf.float32, "y")]

    def build_graph(self, x: Any, y: Any) -> Any:
        # Something to write: a checkpoint takes time, and a fault should hit the middle of one now and then.
        tf.get_variable("ballast", [500_000], trainable=False, initializer=tf.zeros_initializer())
        initializer = tf.random_uniform_initializer(-0.5, 0.5, seed=3)
        hidden = tf.tanh(tf.matmul(x, tf.get_variable("hidden", [8, 16], initializer=initializer)))
        out = tf.matmul(hidden, tf.get_variable("out", [16, 1], initializer=initializer))
        return tf.reduce_mean(tf.square(tf.squeeze(out, 1) - y), name="cost")

    def optimizer(self) -> Any:
        return tf.train.AdamOptimizer(0.01)


class Report(Callback):
    """Prints the step that was made, and fails, or ends the run after a step, as is wanted."""

    _chief_only = False

    def __init__(self, end_at: int) -> None:
        self._end_at = end_at
        self._is_to_fail = False

    def _before_train(self) -> None:
        signal.signal(signal.SIGUSR1, lambda *_: self._note())

    def _note(self) -> None:
        self._is_to_fail = True

    def _trigger_step(self) -> None:
        print("step", self.global_step, flush=True)
        if self._is_to_fail:
            raise RuntimeError("the trial wants it")
        if self.global_step == self._end_at:
            raise StopTraining("the trial wants it", to_be_continued=True)


def points(num_workers: int) -> list[list[Any]]:
    """Return the data points of an epoch."""
    numbers = np.random.default_rng(5)
    x = numbers.normal(size=(num_workers * STEPS_PER_EPOCH * BATCH, 8)).astype("float32")
    return [[row, np.float32(np.sin(row).sum())] for row in x]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("log_dir")
    parser.add_argument("--max-epoch", type=int, default=10)
    parser.add_argument("--heartbeat", type=float, default=3.0)
    parser.add_argument("--memory-every", type=int, default=0)
    parser.add_argument("--total-batch", type=int, default=0)
    parser.add_argument("--end-at", type=int, default=-1)
    options = parser.parse_args()
    member = resolve_cluster()
    print("pid", os.getpid(), flush=True)
    name = "chief" if member.is_chief else f"{member.job}{member.index}"
    logger.set_logger_dir(os.path.join(options.log_dir, name), action="k")
    savers: list[Callback] = [PeriodicTrigger(ModelSaver(max_to_keep=3), every_k_steps=SAVE_EVERY, every_k_epochs=1)]
    if options.memory_every:
        savers.append(PeriodicTrigger(MemorySaver(), every_k_steps=options.memory_every))
    # With a number of workers that may change, the points are those of two, and an epoch is a pass over them.
    changes, steps = bool(options.total_batch), {} if options.total_batch else {"steps_per_epoch": STEPS_PER_EPOCH}
    num_shares = 2 if changes else member.num_workers
    batch = options.total_batch // member.num_workers if changes else BATCH
    config = AutoResumeTrainConfig(
        model=Regression(),
        dataflow=BatchData(ShardData(DataFromList(points(num_shares), shuffle=True)), batch),
        callbacks=[*savers, Report(options.end_at)],
        extra_callbacks=[],
        max_epoch=options.max_epoch,
        **steps,
    )
    trainer: Any
    waits = WaitLimits(heartbeat_secs=options.heartbeat, timeout_secs=120.0)
    if member.cluster.get("ps"):
        trainer = DistributedTrainerParameterServer(1, synchronous=True, cluster=member, waits=waits)
    else:
        trainer = MultiWorkerTrainerReplicated(1, cluster=member, waits=waits)
    launch_train_with_config(config, trainer)
    print("finished", flush=True)


if __name__ == "__main__":
    sys.exit(main())
