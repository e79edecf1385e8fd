"""A training in a process of its own that says what it is doing, for tests that send it signals.

    python -m tests.helpers.interruptible LOG_DIR [--source NAME] [--hang PHASE] [--faster N]

Each line of ``LOG_DIR/../phases.txt`` is a phase that began, after a first line with the process's id. What the
training computes depends on every bit of the data and their order. It goes on from the newest checkpoint, and writes
the weights to ``LOG_DIR/../weights.npz`` in the end.
"""

import argparse
import functools
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

from tpack.callbacks.base import Callback
from tpack.callbacks.inference.inferencers import ScalarStats
from tpack.callbacks.inference.runners import InferenceRunner
from tpack.callbacks.saver import ModelSaver
from tpack.callbacks.trigger import PeriodicTrigger
from tpack.dataflow.base import DataFlow, ProxyDataFlow
from tpack.dataflow.batch import BatchData
from tpack.dataflow.local_shuffle import LocallyShuffleData
from tpack.dataflow.mapping import MapData
from tpack.dataflow.parallel.process_map import MultiProcessMapData
from tpack.dataflow.parallel.threads import MultiThreadMapData
from tpack.dataflow.sources import DataFromList
from tpack.graph_builder.model_desc import ModelDesc
from tpack.input_source.base import InputSource
from tpack.input_source.dataset import TFDatasetInput
from tpack.input_source.feed import FeedInput
from tpack.input_source.queue_input import QueueInput
from tpack.input_source.staging import StagingInput
from tpack.tfutils.sesscreate import NewSessionCreator
from tpack.train import interruption
from tpack.train.interface import launch_train_with_config
from tpack.train.resume import AutoResumeTrainConfig
from tpack.train.trainers import SimpleTrainer, SyncMultiGPUTrainerReplicated
from tpack.utils import logger
from tpack.utils.rng import fix_rng_seed

STEPS_PER_EPOCH = 10
LAST_EPOCH = 3
SEED = 11
HANGS_AT_STEP = 14

SOURCES: dict[str, Callable[[DataFlow], InputSource]] = {
    "queue": QueueInput,
    "staging": lambda ds: StagingInput(QueueInput(ds)),
    "feed": FeedInput,
    "dataset": TFDatasetInput,
    "threads": QueueInput,
    "processes": QueueInput,
    "towers": QueueInput,
}
"""Where the data come from; the last three are a queue of other flows, and one for two towers."""

HANGS = ("data", "validation data", "callback", "slow save", "py_func")
"""What may never end."""

_never = threading.Event()


class Diary:
    """Writes down what begins, so that others can read it right away."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        self.note(str(os.getpid()))

    def note(self, phase: str) -> None:
        """Write a line, at once."""
        os.write(self._file, f"{phase}\n".encode())


class Momentum(ModelDesc):
    """Weights whose last bits depend on the order of the data, and moving averages of theirs."""

    def __init__(self, diary: Diary, options: argparse.Namespace) -> None:
        self._diary = diary
        self._options = options

    def inputs(self) -> list[Any]:
        return [tf.TensorSpec([3], tf.float32, "x")]

    def build_graph(self, x: Any) -> Any:
        self._diary.note("graph")
        weight = tf.get_variable("weight", [3], initializer=tf.ones_initializer())
        mean = tf.get_variable("mean", [3], initializer=tf.zeros_initializer(), trainable=False)
        if self._options.hang == "py_func" and not tf.get_variable_scope().reuse:
            x = tf.py_func(self._hang_late, [x], tf.float32)
            x.set_shape([3])
        tf.add_to_collection(tf.GraphKeys.UPDATE_OPS, mean.assign(mean * 0.9 + x * 0.1).op)
        return tf.reduce_mean(tf.square(weight * x - 3.7) + 1e-3 * mean, name="cost")

    def _hang_late(self, x: np.ndarray) -> np.ndarray:
        self._num_calls = getattr(self, "_num_calls", 0) + 1
        if self._num_calls > HANGS_AT_STEP:
            self._diary.note("py_func")
            _never.wait()
        return x

    def optimizer(self) -> Any:
        return tf.train.MomentumOptimizer(0.01, 0.9)


class Phases(Callback):
    """Notes what training does; hangs where it is told to."""

    def __init__(self, diary: Diary, hang: str) -> None:
        self._diary = diary
        self._hang = hang

    def _before_train(self) -> None:
        self._diary.note("training")

    def _before_epoch(self) -> None:
        self._diary.note("epoch")

    def _trigger_step(self) -> None:
        self._diary.note("step")

    def _trigger_epoch(self) -> None:
        self._diary.note("epoch end")
        if self._hang == "callback":
            self._diary.note("callback")
            time.sleep(1000)

    def _before_save(self) -> None:
        self._diary.note("saving")
        if self._hang == "slow save":
            self._diary.note("slow save")
            _never.wait()

    def _after_train(self) -> None:
        self._diary.note("ending")
        if self.global_step == LAST_EPOCH * STEPS_PER_EPOCH and not self.trainer.interrupted:
            values = {v.op.name: self.trainer.sess.run(v) for v in tf.global_variables() if "EMA" not in v.op.name}
            np.savez(Path(logger.get_logger_dir() or "").parent / "weights.npz", **values)


class SlowSessions(NewSessionCreator):
    """Notes when it makes a session, and when that is there to be initialised and restored."""

    def __init__(self, diary: Diary) -> None:
        super().__init__()
        self._diary = diary

    def create_session(self) -> Any:
        self._diary.note("session")
        session = super().create_session()
        self._diary.note("restoring")
        return session


class Hanging(ProxyDataFlow):
    """Gives some points of another flow, and then none; all of them if it is not told how many."""

    def __init__(self, ds: DataFlow, num: int | None, note: Callable[[], None]) -> None:
        super().__init__(ds)
        self._num = num
        self._note = note

    def __iter__(self) -> Any:
        for number, point in enumerate(self.ds):
            if number == self._num:
                self._note()
                _never.wait()
            yield point


def double(point: Any) -> Any:
    """Map a data point, wherever that is done."""
    return [point[0] * np.float32(1.25)]


def training_flow(source: str) -> DataFlow:
    """Return the data of training."""
    points = [[np.float32(np.sin(k))] for k in range(101)]
    ds: DataFlow = LocallyShuffleData(DataFromList(points), 20)
    if source == "threads":
        ds = MultiThreadMapData(ds, 2, double, buffer_size=10, strict=True)
    elif source == "processes":
        ds = MultiProcessMapData(ds, 2, double, buffer_size=10, strict=True)
    else:
        ds = MapData(ds, double)
    return BatchData(ds, 3)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("log_dir", type=Path)
    parser.add_argument("--source", choices=SOURCES, default="queue")
    parser.add_argument("--hang", choices=["", *HANGS], default="")
    parser.add_argument("--faster", type=float, default=1, help="how much sooner than usual what waits is let go")
    options = parser.parse_args()
    for name in ("LET_GO_SECS", "CLOSE_SECS", "END_SECS"):
        setattr(interruption, name, getattr(interruption, name) / options.faster)
    diary = Diary(options.log_dir.parent / "phases.txt")
    logger.set_logger_dir(str(options.log_dir), action="k")
    # A run that goes on must not depend on it: only the first one is seeded as the test's.
    if not list(options.log_dir.glob("*.index")):
        fix_rng_seed(SEED)
    # Both are there in any case: a run goes on only with a flow of the same structure.
    ds, validation = (
        Hanging(flow, num if options.hang == name else None, functools.partial(diary.note, name))
        for flow, num, name in (
            (training_flow(options.source), HANGS_AT_STEP, "data"),
            (BatchData(DataFromList([[np.float32(k)] for k in range(12)]), 3), 2, "validation data"),
        )
    )
    callbacks = [
        Phases(diary, options.hang),
        InferenceRunner(QueueInput(validation), ScalarStats("cost")),
        PeriodicTrigger(ModelSaver(max_to_keep=3), every_k_steps=4, every_k_epochs=1),
    ]
    config = AutoResumeTrainConfig(
        model=Momentum(diary, options),
        data=SOURCES[options.source](ds),
        callbacks=callbacks,
        session_creator=SlowSessions(diary),
        steps_per_epoch=STEPS_PER_EPOCH,
        max_epoch=LAST_EPOCH,
    )
    trainer = SyncMultiGPUTrainerReplicated(2) if options.source == "towers" else SimpleTrainer()
    launch_train_with_config(config, trainer)
    diary.note("finished")


if __name__ == "__main__":
    main()
