"""What workers do in tests: functions that `tests.helpers.worker_job` calls in each process."""

import hashlib
import os
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

from tests.helpers.equivalence import OPTIMIZERS, STEPS, TOWER_BATCH, batches, build_cost
from tpack.callbacks.base import Callback
from tpack.graph_builder.model_desc import ModelDesc
from tpack.input_source.tensors import TensorInput
from tpack.tfutils.graph_lookup import get_global_step_var
from tpack.tower.context import current_tower_context
from tpack.train.config import TrainConfig
from tpack.train.interface import launch_train_with_config
from tpack.train.multi_worker import MultiWorkerTrainerReplicated

KEYS = ("x", "p", "ids", "y")


class Equivalence(ModelDesc):
    """The model of `tests.helpers.equivalence`."""

    def __init__(self, optimizer: str) -> None:
        self._name = optimizer

    def inputs(self) -> list[Any]:
        data = batches(1, "float64")
        return [tf.TensorSpec([None, *data[key].shape[2:]], data[key].dtype, key) for key in KEYS]

    def build_graph(self, *inputs: Any) -> Any:
        return build_cost(*inputs)

    def optimizer(self) -> Any:
        return OPTIMIZERS[self._name]()


class Values(Callback):
    """Keeps the values of all variables at the end of each epoch."""

    _chief_only = False

    def __init__(self) -> None:
        self.values: dict[str, np.ndarray] = {}

    def _trigger_epoch(self) -> None:
        variables = [*tf.global_variables(), *tf.local_variables()]
        self.values = {v.op.name: value for v, value in zip(variables, self.trainer.sess.run(variables), strict=True)}


def place() -> tuple[int, int]:
    """Return the rank and the number of workers."""
    return int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])


def rows_of_worker(num_workers: int, num_towers: int, rank: int) -> TensorInput:
    """Return an input that gives each tower of a worker its rows of each step's batch."""
    data = batches(num_workers * num_towers, "float64")

    def get_tensors() -> list[Any]:
        first = (rank * num_towers + current_tower_context().index) * TOWER_BATCH
        step = get_global_step_var()
        return [tf.gather(tf.constant(data[key][:, first : first + TOWER_BATCH]), step) for key in KEYS]

    return TensorInput(get_tensors, size=STEPS)


def train_equivalence(towers: int, optimizers: list[str], size: int, **options: Any) -> dict[str, dict[str, Any]]:
    """Train with each optimizer in turn; return the values of all variables after the last step."""
    found = {}
    for name in optimizers:
        with tf.Graph().as_default():
            trainer = MultiWorkerTrainerReplicated(towers, **options)
            values = Values()
            config = TrainConfig(
                model=Equivalence(name),
                data=rows_of_worker(size, towers, trainer.peers.rank),
                callbacks=[values],
                extra_callbacks=[],
                monitors=[],
                steps_per_epoch=STEPS,
                max_epoch=1,
            )
            launch_train_with_config(config, trainer)
            found[name] = values.values
    return found


def digest(values: dict[str, np.ndarray]) -> str:
    """Return what tells values apart that differ in any bit."""
    told = hashlib.sha256()
    for name in sorted(values):
        told.update(name.encode() + np.ascontiguousarray(values[name]).tobytes())
    return told.hexdigest()
