"""Several workers that try evaluations before the first step, and trigger by time."""

import itertools
from typing import Any

import tensorflow.compat.v1 as tf

from tests.helpers.toy_training import Line, line_input, points
from tpack.callbacks.base import Callback
from tpack.callbacks.inference.inferencers import ScalarStats
from tpack.callbacks.inference.runners import InferenceRunner
from tpack.callbacks.trigger import PeriodicTrigger
from tpack.dataflow.sources import DataFromList
from tpack.errors import TpackError
from tpack.multi_worker.replicated_trainer import MultiWorkerTrainerReplicated
from tpack.train.config import TrainConfig
from tpack.train.interface import launch_train_with_config


class Steps(Callback):
    """Notes the steps at which it is triggered."""

    _chief_only = False

    def __init__(self) -> None:
        self.at: list[int] = []

    def _trigger(self) -> None:
        self.at.append(self.global_step)


def train(trainer: Any, callbacks: list[Callback], steps: int = 40) -> None:
    """Train a line."""
    config = TrainConfig(
        model=Line(),
        data=line_input(),
        callbacks=callbacks,
        extra_callbacks=[],
        monitors=[],
        steps_per_epoch=steps,
        max_epoch=1,
    )
    launch_train_with_config(config, trainer)


def by_time(steps_per_call: int = 1) -> list[int]:
    """Trigger by the time of the chief, whose clock goes on by 1 s at each look; that of others stands still."""
    with tf.Graph().as_default():
        trainer = MultiWorkerTrainerReplicated(1)
        trainer.steps_per_call = steps_per_call
        steps, clock = Steps(), itertools.count(step=1 if trainer.is_chief else 0)
        trigger = PeriodicTrigger(steps, every_secs=3)
        assert trigger._clock is not None
        trigger._clock.now = lambda: float(next(clock))
        train(trainer, [trigger])
        return steps.at


def broken_evaluation() -> str:
    """Evaluate data of which one worker's batch is damaged, before the first step."""
    with tf.Graph().as_default():
        trainer = MultiWorkerTrainerReplicated(1)
        batches: list[Any] = points()
        if trainer.peers.rank == 1:
            batches[1] = ["damaged", "damaged"]
        runner = InferenceRunner(DataFromList(batches, shuffle=False), ScalarStats("cost"))
        try:
            train(trainer, [runner])
        except TpackError as error:
            return f"{type(error).__name__} before step {trainer.loop.global_step + 1}: {error}"
        return "no error"
