"""What workers do whose batch normalisation is synchronised over all of them, for `tests.helpers.worker_job`."""

from typing import Any

import tensorflow.compat.v1 as tf

from tests.helpers.worker_scenarios import outcome, place, trainer
from tests.integration.test_sync_batch_norm import ROWS, STEPS, data, model
from tpack.callbacks.base import Callback, WithSteps
from tpack.callbacks.run_op import RunUpdateOps
from tpack.graph_builder.model_desc import ModelDesc
from tpack.input_source.tensors import TensorInput
from tpack.tfutils.graph_lookup import get_global_step_var
from tpack.tower.context import current_tower_context
from tpack.train.config import TrainConfig
from tpack.train.interface import launch_train_with_config
from tpack.utils import logger


class Synchronised(ModelDesc):
    """The model of the test of one process, with another ``sync_statistics``."""

    def __init__(self, sync: Any = "workers") -> None:
        self._sync = sync

    def inputs(self) -> list[Any]:
        return [
            tf.TensorSpec([None, *each.shape[2:]], tf.float64, name) for each, name in zip(data(), "xy", strict=True)
        ]

    def build_graph(self, x: Any, y: Any) -> Any:
        first, second, cost = model(x, y, sync=(self._sync, self._sync))
        tf.identity(first, name="first")
        tf.identity(second, name="second")
        return tf.identity(cost, name="the_cost")

    def optimizer(self) -> Any:
        return tf.train.MomentumOptimizer(0.1, 0.9)


def rows_of(num_workers: int, num_towers: int, rank: int) -> TensorInput:
    """Return an input with the rows of each tower of a worker; the batch of all is the same for any number."""

    def get_tensors() -> list[Any]:
        tower, total = rank * num_towers + current_tower_context().index, num_workers * num_towers
        part = slice(tower * ROWS // total, (tower + 1) * ROWS // total)
        return [tf.constant(each[:, part])[get_global_step_var().read_value()] for each in data()]

    return TensorInput(get_tensors, size=STEPS)


class Kept(Callback):
    """Keeps outputs of each step and tower, and the saved variables at the end."""

    _chief_only = False

    def __init__(self, *, sees_steps: bool = True) -> None:
        self.steps: list[Any] = []
        self.values: dict[str, Any] = {}
        self._sees_steps = sees_steps

    def _setup_graph(self) -> None:
        names = ("first", "second", "the_cost")
        self._fetches = [[tower.get_tensor(name) for name in names] for tower in self.trainer.towers]

    def _before_run(self, ctx: Any) -> Any:
        return self._fetches if self._sees_steps else None

    def _after_run(self, ctx: Any, values: Any) -> None:
        if self._sees_steps:
            self.steps.append(values.results)

    def _with_several_steps(self) -> WithSteps | None:
        return None if self._sees_steps else WithSteps()

    def _after_train(self) -> None:
        variables = tf.global_variables()
        self.values = dict(zip([v.op.name for v in variables], self.trainer.sess.run(variables), strict=True))


def trained(made: Any, sync: Any = "workers", num_workers: int = 1, **settings: Any) -> Kept:
    """Train by a trainer of this process or of several workers."""
    kept = Kept(sees_steps="steps_per_call" not in settings)
    rank = 0 if made.peers is None else made.peers.rank
    config = TrainConfig(
        model=Synchronised(sync),
        data=rows_of(num_workers, len(made.devices), rank),
        callbacks=[kept],
        extra_callbacks=[RunUpdateOps()],
        monitors=[],
        steps_per_epoch=STEPS,
        max_epoch=1,
        **settings,
    )
    launch_train_with_config(config, made)
    return kept


def of_workers() -> dict[str, Any]:
    """Train in one of several workers in several ways; return what is kept of each, or the error."""
    _, size = place()
    logger.set_logger_dir("log", action="k")

    def run(towers: int, sync: Any = "workers", *, settings: Any = None, **options: Any) -> Any:
        with tf.Graph().as_default():
            kept = trained(trainer(towers, **options), sync, size, **(settings or {}))
            return {"steps": kept.steps, "values": kept.values}

    return {
        "two towers": run(2),
        "one tower": run(1),
        "in a loop": run(2, settings={"steps_per_call": STEPS}),
        "sharded": run(2, shard_optimizer=True),
        "towers alone": run(2, True),
        "local steps": outcome(lambda: run(2, sync_every_steps=2)),
    }
