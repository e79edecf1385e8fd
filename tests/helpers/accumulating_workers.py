"""What workers do that exchange the gradients of several steps at once, for `tests.helpers.worker_job`."""

import os
from typing import Any

import tensorflow.compat.v1 as tf

from tests.helpers.drawn_weights import RATE, Drawn, train
from tests.helpers.worker_scenarios import (
    CallsOf,
    InterruptIn,
    NotFinite,
    SignalAt,
    Slope,
    Slow,
    StopAt,
    outcome,
    place,
    train_slope,
    trainer,
)
from tpack.callbacks.base import Callback
from tpack.callbacks.saver import ModelSaver
from tpack.callbacks.stopping import MaxTime
from tpack.callbacks.trigger import PeriodicTrigger
from tpack.multi_worker.replicated_trainer import MultiWorkerTrainerReplicated
from tpack.multi_worker.trainer import WaitLimits
from tpack.schedules import Step
from tpack.tfutils.optimizer import AccumGradOptimizer
from tpack.train.resume import AutoResumeTrainConfig
from tpack.utils import logger


def momentum() -> Any:
    """Return an optimizer with slots."""
    return tf.train.MomentumOptimizer(RATE, 0.5)


def trained(
    towers: int, *callbacks: Callback, accumulate: Any = 4, shard_optimizer: bool = False, **settings: Any
) -> dict[str, Any]:
    """Return the number of steps, the weights after each step, and the last values of all variables."""
    options = {"accumulate": accumulate, "shard_optimizer": shard_optimizer}
    kept = train(lambda: trainer(towers, **options), callbacks=callbacks, **settings)
    return {"steps": kept.steps, "seen": kept.seen, "last": kept.last}


def features() -> dict[str, Any]:
    """Train in several ways, one after the other; return what came of each."""
    rank, _ = place()
    whole = {"steps_per_epoch": 12, "max_epoch": 1}
    logger.set_logger_dir("log", action="k")
    return {
        "plain": trained(2),
        "schedule": trained(1, accumulate=Step(1, {1: 4})),
        "momentum": trained(2, model=Drawn(momentum), **whole),
        "optimizer": trained(2, model=Drawn(lambda: AccumGradOptimizer(momentum(), 4)), accumulate=1, **whole),
        "divided": trained(2, model=Drawn(momentum), shard_optimizer=True, **whole),
        "saves": trained(2, PeriodicTrigger(ModelSaver(), every_k_steps=5), max_epoch=1),
        "saved": sorted(each for each in os.listdir(logger.get_logger_dir() or "") if each.endswith(".index")),
        "other steps between": outcome(lambda: train_slope(Slope(), trainer(accumulate=2 + rank))),
        "overflow": outcome(
            lambda: train_slope(Slope(factor=[1.0, 1e30][rank]), trainer(accumulate=2, precision="float16"))
        ),
    }


def ends() -> dict[str, Any]:
    """Train until one worker is to stop; return what came of each training."""
    rank, _ = place()

    def several(*callbacks: Callback, **settings: Any) -> Any:
        try:
            with tf.Graph().as_default():
                kept = train_slope(Slope(), trainer(accumulate=4), callbacks=callbacks, **settings)
        except KeyboardInterrupt:
            return "KeyboardInterrupt"
        return kept.steps

    return {
        "stop": trained(2, StopAt(1, 1, True)),
        "stop in the step of an exchange": trained(1, StopAt(1, 4, True)),
        "stop in the last step": trained(1, StopAt(1, 6, True)),
        "time is over": trained(1, MaxTime([1000.0, 0.001][rank])),
        "stop in several steps": several(StopAt(1, 4, True), CallsOf(3), steps_per_epoch=20, steps_per_call=8),
        "interrupted": several(InterruptIn(1, 0), CallsOf(3), steps_per_epoch=2_000_000, steps_per_call=8),
    }


def not_finite() -> dict[str, Any]:
    """Train until NaN is found, which arises in one worker, in a step whose gradients are not exchanged at once."""
    return {
        where: outcome(
            lambda where=where: train_slope(NotFinite(where, 1), trainer(2, accumulate=4), steps_per_epoch=6)
        )
        for where in ("cost", "gradients")
    }


def straggle() -> int:
    """Train with a worker that is slow in a step, which others wait for in an exchange; return the number of steps."""
    waits = WaitLimits(heartbeat_secs=3.0, straggler_secs=3.0)
    with tf.Graph().as_default():
        return train_slope(Slow(), trainer(waits=waits, accumulate=3)).steps


def resume(at: Any = None, max_epoch: int = 2) -> dict[str, Any]:
    """Train in a log directory, going on from what is there; get a signal, if it is wanted, in a step on a worker."""
    logger.set_logger_dir("log", action="k")
    callbacks = [ModelSaver(), *([SignalAt(*at, True)] if at else [])]
    kept = train(
        lambda: MultiWorkerTrainerReplicated(2, accumulate=4),
        callbacks=callbacks,
        config=AutoResumeTrainConfig,
        max_epoch=max_epoch,
    )
    return {"seen": kept.seen, "steps": kept.steps}
