"""A training whose log directory may be on remote storage, in a process of its own.

    python -m tests.helpers.remote_training LOG_DIR MAX_EPOCH [--slow SECS] [--period SECS] [--asynchronous] [--best]

It resumes what is in the directory. Adam and shuffled data make a resume that is not exact show. Each step is
printed.
"""

import argparse
import sys
import time
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

from tpack.callbacks.base import CallbackFactory
from tpack.callbacks.min_max_saver import MinSaver
from tpack.callbacks.saver import ModelSaver
from tpack.callbacks.trigger import PeriodicTrigger
from tpack.dataflow.batch import BatchData
from tpack.dataflow.sources import DataFromList
from tpack.graph_builder.model_desc import ModelDesc
from tpack.train.interface import launch_train_with_config
from tpack.train.resume import AutoResumeTrainConfig
from tpack.train.trainers import SimpleTrainer
from tpack.utils.remote import mirror

STEPS_PER_EPOCH = 8


class Regression(ModelDesc):
    """Fits a line."""

    def inputs(self) -> list[Any]:
        return [tf.TensorSpec([None, 3], tf.float32, "x")]

    def build_graph(self, x: Any) -> Any:
        weights = tf.get_variable("W", [3, 1], initializer=tf.ones_initializer())
        return tf.reduce_mean(tf.square(tf.matmul(x, weights) - 1.0), name="error")

    def optimizer(self) -> Any:
        return tf.train.AdamOptimizer(0.01)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("log_dir")
    parser.add_argument("max_epoch", type=int)
    parser.add_argument("--slow", type=float, default=0)
    parser.add_argument("--period", type=float, default=mirror.PERIOD_SECS)
    parser.add_argument("--asynchronous", action="store_true")
    parser.add_argument("--best", action="store_true", help="save the best, too, from which no run goes on exactly")
    options = parser.parse_args()
    mirror.PERIOD_SECS = options.period
    points = np.random.RandomState(0).rand(64, 3).astype(np.float32)
    report = CallbackFactory(trigger=lambda cb: (print("step", cb.global_step, flush=True), time.sleep(options.slow)))
    config = AutoResumeTrainConfig(
        model=Regression(),
        dataflow=BatchData(DataFromList([[point] for point in points], shuffle=True), 8),
        callbacks=[
            ModelSaver(max_to_keep=3, asynchronous=options.asynchronous),
            *([MinSaver("cost")] if options.best else []),
            PeriodicTrigger(report, every_k_steps=1),
        ],
        steps_per_epoch=STEPS_PER_EPOCH,
        max_epoch=options.max_epoch,
        log_dir=options.log_dir,
        seed=3,
    )
    launch_train_with_config(config, SimpleTrainer())
    print("finished", flush=True)


if __name__ == "__main__":
    sys.exit(main())
