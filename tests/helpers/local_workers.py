"""What workers do whose towers train each by itself, for `tests.helpers.worker_job`."""

from typing import Any

import tensorflow.compat.v1 as tf

from tests.helpers.drawn_weights import NUM_STEPS, RATE, Drawn, train
from tests.helpers.encoded_training import received_bytes
from tests.helpers.worker_scenarios import NotFinite, SignalAt, Slope, StopAt, outcome, place, train_slope, trainer
from tpack.callbacks.base import Callback
from tpack.callbacks.saver import ModelSaver
from tpack.callbacks.trigger import PeriodicTrigger
from tpack.train.resume import AutoResumeTrainConfig
from tpack.utils import logger

WHOLE = {"steps_per_epoch": NUM_STEPS, "max_epoch": 1}


def momentum(rate: float = RATE) -> Any:
    """Return an optimizer with slots."""
    return tf.train.MomentumOptimizer(rate, 0.5)


def adam() -> Any:
    """Return an optimizer whose state is rounded."""
    return tf.train.AdamOptimizer(0.3)


class Exchanges(Callback):
    """Counts how often the others' parts have arrived."""

    _chief_only = False
    count = 0

    def _after_train(self) -> None:
        self.count = max(self.trainer.sess.run(self.trainer.arrivals._counts))


def trained(towers: int, *callbacks: Callback, model: Any = None, settings: Any = WHOLE, **options: Any) -> Any:
    """Return the number of steps, the weights after each step, the last values, and the number of exchanges."""
    exchanges = Exchanges()
    kept = train(lambda: trainer(towers, **options), model, [exchanges, *callbacks], **settings)
    return {"steps": kept.steps, "seen": kept.seen, "last": kept.last, "exchanges": exchanges.count}


def features() -> dict[str, Any]:
    """Train in several ways, one after the other; return what came of each."""
    rank, _ = place()
    logger.set_logger_dir("log", action="k")

    def rounded(**options: Any) -> Any:
        return trained(1, model=Drawn(adam, dtype="float32"), sync_every_steps=4, **options)

    return {
        "local": trained(2, sync_every_steps=3),
        "every step": trained(2, sync_every_steps=1),
        "synchronous": trained(2),
        "kept": trained(2, model=Drawn(momentum), sync_every_steps=4),
        "rounded": rounded(),
        "outer by one": rounded(outer_optimizer=tf.train.GradientDescentOptimizer(1.0)),
        "outer": trained(2, sync_every_steps=1, outer_optimizer=momentum(1.0)),
        "averaged": trained(2, model=Drawn(momentum), sync_every_steps=4, inner_state="average"),
        "saves": trained(2, PeriodicTrigger(ModelSaver(), every_k_steps=5), sync_every_steps=4),
        "stop": trained(2, StopAt(1, 1, True), sync_every_steps=4),
        "other outer": outcome(
            lambda: train_slope(Slope(), trainer(sync_every_steps=2, outer_optimizer=momentum(1.0 + rank)))
        ),
        "other steps": outcome(lambda: train_slope(Slope(), trainer(sync_every_steps=2 + rank))),
    }


def not_finite() -> str:
    """Train until NaN is found, which arises in one worker between two averages."""
    return outcome(lambda: train_slope(NotFinite("cost", 1), trainer(2, sync_every_steps=4), steps_per_epoch=6))


class Wide(Drawn):
    """Many weights, whose bytes are most of what is sent."""

    def build_graph(self, target: Any, factor: Any, step: Any) -> Any:
        weight = tf.get_variable("w", [100_000], tf.float64, tf.zeros_initializer())
        return tf.reduce_mean(tf.square(weight - target)) * factor


class Received(Callback):
    """Counts the bytes that come over this process's connections from the second step of an epoch to the ninth."""

    _chief_only = False
    bytes = 0

    def _trigger_step(self) -> None:
        if self.local_step == 1:
            self.bytes = -received_bytes()
        elif self.local_step == 9:
            self.bytes += received_bytes()


def traffic() -> dict[str, int]:
    """Return the bytes that this worker gets in eight steps that exchange gradients, and in as many that do not."""
    found = {}
    for name, options in (("plain", {}), ("local", {"sync_every_steps": 4})):
        received = Received()
        train(lambda options=options: trainer(1, **options), Wide(), [received], **WHOLE)
        found[name] = received.bytes
    return found


def resume(at: Any = None) -> dict[str, Any]:
    """Train in a log directory, going on from what is there; get a signal, if it is wanted, in a step on a worker."""
    logger.set_logger_dir("log", action="k")
    callbacks = [ModelSaver(), *([SignalAt(*at, True)] if at else [])]
    kept = train(
        lambda: trainer(2, sync_every_steps=4, inner_state="average", outer_optimizer=momentum(0.5)),
        Drawn(momentum),
        callbacks,
        config=AutoResumeTrainConfig,
        **WHOLE,
    )
    return {"seen": kept.seen, "steps": kept.steps, "last": kept.last}
