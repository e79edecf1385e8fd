"""A real training in a process of its own, for tests that kill it.

    python -m tests.helpers.killable LOG_DIR [--max-epoch N] [--slow SECS] [--fail KIND] [--asynchronous]

It counts: a weight goes up by one at each step, so that a checkpoint shows how many steps it holds. ``started`` is
printed when training begins, and the steps of each epoch as they are made.
"""

import argparse
import itertools
import sys
import threading
import time
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

from tpack.callbacks.base import CallbackFactory
from tpack.callbacks.saver import ModelSaver
from tpack.callbacks.trigger import PeriodicTrigger
from tpack.dataflow.sources import DataFromGenerator
from tpack.graph_builder.model_desc import ModelDesc
from tpack.train.interface import launch_train_with_config
from tpack.train.resume import AutoResumeTrainConfig
from tpack.train.trainers import SyncMultiGPUTrainerReplicated
from tpack.utils import logger

STEPS_PER_EPOCH = 20


class Counter(ModelDesc):
    """The weight goes up by one at each step, in each tower."""

    def inputs(self) -> list[Any]:
        return [tf.TensorSpec([], tf.float32, "one")]

    def build_graph(self, one: Any) -> Any:
        # Something to write: a checkpoint takes time, and a kill should hit the middle of one now and then.
        tf.get_variable("ballast", [500_000], trainable=False, initializer=tf.zeros_initializer())
        return -one * tf.get_variable("count", [], initializer=tf.zeros_initializer())

    def optimizer(self) -> Any:
        return tf.train.GradientDescentOptimizer(1.0)


class DataIsBroken(Exception):
    """What the data of a test fail with."""


def ones(fail: str) -> Any:
    """Yield data points; fail after a hundred in the way that is asked for."""
    for number in itertools.count():
        if number == 100 and fail == "raise":
            raise DataIsBroken("this data point cannot be read")
        if number == 100 and fail == "end":
            return
        if number == 100 and fail == "block":
            threading.Event().wait()
        yield [np.ones([2] if number == 100 and fail == "shape" else [], "float32")]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("log_dir")
    parser.add_argument("--max-epoch", type=int, default=10_000)
    parser.add_argument("--slow", type=float, default=0)
    parser.add_argument("--fail", default="")
    parser.add_argument("--asynchronous", action="store_true")
    options = parser.parse_args()

    logger.set_logger_dir(options.log_dir, action="k")
    generator = ones(options.fail)
    report = CallbackFactory(
        before_train=lambda cb: print("started", flush=True),
        trigger=lambda cb: (
            print("step", cb.epoch_num, cb.local_step, cb.global_step, flush=True),
            time.sleep(options.slow),
        ),
    )
    saver = ModelSaver(max_to_keep=3, asynchronous=options.asynchronous)
    config = AutoResumeTrainConfig(
        model=Counter(),
        dataflow=DataFromGenerator(lambda: generator),
        callbacks=[
            PeriodicTrigger(report, every_k_steps=1),
            PeriodicTrigger(saver, every_k_steps=7, every_k_epochs=1),
            CallbackFactory(trigger=lambda cb: cb.trainer.monitors.put_scalar("answer", 42.0)),
        ],
        steps_per_epoch=STEPS_PER_EPOCH,
        max_epoch=options.max_epoch,
    )
    launch_train_with_config(config, SyncMultiGPUTrainerReplicated(2))
    print("finished", flush=True)


if __name__ == "__main__":
    sys.exit(main())
