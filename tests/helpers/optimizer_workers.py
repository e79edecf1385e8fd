"""Small models, and trainings of them, for optimizers that follow the progress of training; also in workers."""

import os
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

from tpack.callbacks.base import Callback
from tpack.callbacks.saver import ModelSaver
from tpack.callbacks.trigger import PeriodicTrigger
from tpack.graph_builder.model_desc import ModelDesc
from tpack.input_source.tensors import TensorInput
from tpack.multi_worker.replicated_trainer import MultiWorkerTrainerReplicated
from tpack.optimizers.guards import SpikeGuard
from tpack.optimizers.unfreezing import Unfreeze
from tpack.optimizers.weight_decay import AdamW
from tpack.tfutils.graph_lookup import get_global_step_var
from tpack.train.config import TrainConfig
from tpack.train.interface import launch_train_with_config
from tpack.train.trainers import SimpleTrainer
from tpack.utils import logger

X = np.random.default_rng(5).normal(size=(6, 4)).astype("float32")


def build(x: Any) -> Any:
    """Build a model of a body, a table and a head."""
    table = tf.get_variable("table", initializer=np.linspace(-1, 1, 12).reshape(3, 4).astype("float32"))
    with tf.variable_scope("body"):
        y = tf.tanh(x @ tf.get_variable("W", initializer=np.eye(4, dtype="float32"))) + tf.gather(
            table, [0, 2, 0, 1, 1, 0]
        )
        y *= tf.get_variable("still", initializer=np.ones(4, "float32"))
    with tf.variable_scope("head"):
        y = y @ tf.get_variable("W", initializer=np.full((4, 1), 0.5, "float32"))
    return tf.reduce_mean(tf.square(y - 1), name="cost")


def adamw() -> AdamW:
    """Return an optimizer."""
    return AdamW(0.1, weight_decay=0.1)


class Parts(ModelDesc):
    """A model of parts that are trained in turn."""

    def __init__(self, wrap: Any = None) -> None:
        self._wrap = wrap or (lambda: Unfreeze(adamw(), {0: "^head/", 1: "^body/W", 3: "^table"}))

    def inputs(self) -> list[Any]:
        return [tf.TensorSpec([6, 4], tf.float32, "x")]

    def build_graph(self, x: Any) -> Any:
        return build(x)

    def optimizer(self) -> Any:
        return self._wrap()


class Values(Callback):
    """Keeps the values after each epoch."""

    _chief_only = False

    def __init__(self) -> None:
        self.of_epoch: dict[int, dict[str, Any]] = {}

    def _trigger_epoch(self) -> None:
        names = ("head/W", "body/W", "body/still", "table")
        found = {v.op.name: v for v in tf.trainable_variables()}
        self.of_epoch[self.epoch_num] = self.trainer.sess.run({name: found[name] for name in names})


def train_parts(
    trainer: Any = None,
    model: Any = None,
    config: Any = TrainConfig,
    callbacks: Any = (),
    max_epoch: int = 4,
    **options: Any,
) -> dict[int, dict[str, Any]]:
    """Train for epochs of two steps; return the values after each."""
    values = Values()
    given = config(
        model=model or Parts(),
        data=TensorInput(lambda: [tf.constant(X)], size=2),
        callbacks=[values, *callbacks],
        steps_per_epoch=2,
        max_epoch=max_epoch,
        **options,
    )
    with tf.Graph().as_default():
        launch_train_with_config(given, (trainer or SimpleTrainer)())
    return values.of_epoch


def unfreeze() -> dict[int, dict[str, Any]]:
    """Train the parts of a model in turn; return the values after each epoch."""
    return train_parts(lambda: MultiWorkerTrainerReplicated(1), extra_callbacks=[], monitors=[])


class Bumps(ModelDesc):
    """A cost that is the noise of its step, and a weight's distance from 3."""

    def __init__(self, noise: list[float], optimizer: Any, wrap: Any = None) -> None:
        self.noise, self._optimizer, self._wrap = noise, optimizer, wrap or (lambda opt: opt)

    def inputs(self) -> list[Any]:
        return [tf.TensorSpec([], tf.float32, "noise")]

    def build_graph(self, noise: Any) -> Any:
        w = tf.get_variable("w", [], initializer=tf.zeros_initializer())
        return tf.add(tf.square(w - 3.0) * 0.01, noise, name="cost")

    def optimizer(self) -> Any:
        return self._wrap(self._optimizer())


class Watched(Callback):
    """Keeps the cost and the weight of each step."""

    _chief_only = False

    def __init__(self) -> None:
        self.costs: list[float] = []
        self.weights: list[float] = []
        self.global_steps: list[int] = []
        self.spread, self.skipped = 0.0, 0.0
        self.history: list[dict[str, float]] = []

    def _setup_graph(self) -> None:
        self._copies = [v for v in tf.global_variables() if v.op.name.rpartition("/")[2] == "w"]

    def _trigger_step(self) -> None:
        values = self.trainer.sess.run(self._copies)
        self.weights.append(float(values[0]))
        self.spread = max(self.spread, float(np.ptp(values)))
        self.global_steps.append(self.global_step)

    def implements(self, hook: str) -> bool:
        return super().implements(hook) and (hook != "trigger_step" or self.watches)

    watches = True

    def _after_train(self) -> None:
        self.history = list(self.trainer.history)  # type: ignore[attr-defined]
        self.skipped = sum(row.get("skipped_spikes", 0) for row in self.history)


class Costs(Callback):
    """Keeps the cost of each step."""

    def __init__(self, costs: list[float]) -> None:
        self._costs = costs

    def _before_run(self, ctx: Any) -> Any:
        return self.trainer.costs[0] if ctx.original_args.fetches is self.trainer.train_op else None

    def _after_run(self, ctx: Any, values: Any) -> None:
        if values.results is not None:
            self._costs.append(float(values.results))


def bumps(
    trainer: Any,
    model: Bumps,
    callbacks: Any = (),
    config: Any = TrainConfig,
    steps_per_epoch: int | None = None,
    max_epoch: int = 1,
    steps_per_call: int = 1,
) -> Watched:
    """Train `Bumps` on its noise, the same in all towers."""
    watched, values = Watched(), np.array(model.noise + [1.0] * 100, "float32")
    watched.watches = steps_per_call == 1
    own = [watched, *([Costs(watched.costs)] if watched.watches else [])]
    with tf.Graph().as_default():
        made = trainer()
        given = config(
            model=model,
            data=TensorInput(lambda: [tf.gather(tf.constant(values), get_global_step_var())], size=100),
            callbacks=[*callbacks, *own],
            extra_callbacks=[],
            monitors=[],
            steps_per_epoch=steps_per_epoch or len(model.noise),
            max_epoch=max_epoch,
            steps_per_call=steps_per_call,
            check_cost=False,
        )
        launch_train_with_config(given, made)
    return watched


def spikes() -> list[list[float]]:
    """Skip steps, then go back to a checkpoint; return the weights of both."""
    found = []
    for how in ("skip", "rollback"):
        noise = [1.0, 1.2, 0.9, 1.1, 1.0, 1.05, 1.0, 1.1, 50.0, 1.0, 1.1]
        if os.environ["RANK"] == "1":
            noise[8] = 1.0
        logger.set_logger_dir(f"{how}{os.environ['RANK']}", action="d")

        def wrap(opt: Any, how: str = how) -> SpikeGuard:
            return SpikeGuard(opt, 4.0, how, warmup_steps=5, smoothing=0.9)

        model = Bumps(noise, lambda: tf.train.MomentumOptimizer(0.1, 0.5), wrap)
        saver = PeriodicTrigger(ModelSaver(), every_k_steps=6)
        found.append(bumps(lambda: MultiWorkerTrainerReplicated(1), model, callbacks=[saver]).weights)
    return found
