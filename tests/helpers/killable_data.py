"""A training in a process of its own that says which data points each of its steps used.

    python -m tests.helpers.killable_data LOG_DIR LAST_EPOCH

For each step it prints ``step``, the global step, and the labels that the towers saw.
"""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

from tpack.callbacks.base import Callback
from tpack.callbacks.saver import ModelSaver
from tpack.callbacks.trigger import PeriodicTrigger
from tpack.dataflow.base import DataFlow
from tpack.dataflow.batch import BatchData
from tpack.dataflow.local_shuffle import LocallyShuffleData
from tpack.dataflow.parallel.threads import MultiThreadMapData
from tpack.dataflow.sources import DataFromList
from tpack.graph_builder.model_desc import ModelDesc
from tpack.train.interface import launch_train_with_config
from tpack.train.resume import AutoResumeTrainConfig
from tpack.train.trainers import SyncMultiGPUTrainerReplicated
from tpack.utils import logger
from tpack.utils.rng import fix_rng_seed

STEPS_PER_EPOCH = 20
NUM_TOWERS = 2
NUM_POINTS = 101
SEED = 11


class Labels(ModelDesc):
    """Names the labels that a tower sees."""

    def inputs(self) -> list[Any]:
        return [tf.TensorSpec([None], tf.int64, "label")]

    def build_graph(self, label: Any) -> Any:
        tf.identity(label, name="seen")
        return tf.reduce_mean(tf.cast(label, tf.float32) * tf.get_variable("w", [], initializer=tf.ones_initializer()))

    def optimizer(self) -> Any:
        return tf.train.GradientDescentOptimizer(0.0)


class Report(Callback):
    """Prints the labels of every step."""

    def _before_run(self, ctx: Any) -> Any:
        return [tower.get_tensors(["seen"])[0] for tower in self.trainer.towers.training()]

    def _after_run(self, ctx: Any, values: Any) -> None:
        self._labels = [label for tower in values.results for label in tower.tolist()]

    def _trigger_step(self) -> None:
        print("step", self.global_step, *self._labels, flush=True)


def increase(point: Any) -> Any:
    """Add 1000 to a label."""
    return [point[0] + 1000]


def flow() -> DataFlow:
    """Return shuffled and mapped points, in threads that read ahead, in batches of three."""
    points = LocallyShuffleData(DataFromList([[np.int64(k)] for k in range(NUM_POINTS)]), 30)
    return BatchData(MultiThreadMapData(points, 2, increase, buffer_size=10, strict=True), 3)


def main() -> None:
    log_dir, last_epoch = sys.argv[1:]
    logger.set_logger_dir(log_dir, action="k")
    # A run that goes on must not depend on it: only the first one is seeded as the test's.
    if not list(Path(log_dir).glob("*.index")):
        fix_rng_seed(SEED)
    config = AutoResumeTrainConfig(
        model=Labels(),
        dataflow=flow(),
        callbacks=[PeriodicTrigger(ModelSaver(max_to_keep=3), every_k_steps=7), Report()],
        steps_per_epoch=STEPS_PER_EPOCH,
        max_epoch=int(last_epoch),
    )
    launch_train_with_config(config, SyncMultiGPUTrainerReplicated(NUM_TOWERS))


if __name__ == "__main__":
    main()
