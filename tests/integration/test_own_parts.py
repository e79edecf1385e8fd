"""The examples of a builder and a reducer of one's own learn, and a reducer's state is kept under every builder."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers import preloaded
from tests.helpers.source import ROOT
from tests.helpers.tower_grads import cpu_devices
from tests.helpers.toy_training import Line, line_input
from tpack.callbacks.base import Callback
from tpack.callbacks.saver import ModelSaver
from tpack.distribute.reducer_ops import ReducerCrossTowerOps
from tpack.distribute.strategies import MirroredStrategy
from tpack.distribute.trainer import StrategyTrainer
from tpack.multi_worker.replicated_trainer import MultiWorkerTrainerReplicated
from tpack.reduction.algorithms.one_device import RoundRobinReducer
from tpack.reduction.base import Column, ReduceOp, ReducerWrapper
from tpack.reduction.wrappers.packers import ConcatAndSplitPackingReducer
from tpack.tfutils.checkpoint import latest_checkpoint
from tpack.tfutils.sessinit import SaverRestore
from tpack.train.config import TrainConfig
from tpack.train.interface import launch_train_with_config
from tpack.train.trainers import SimpleTrainer, SyncMultiGPUTrainerReplicated

PAST = 0.5


class MomentumReducer(ReducerWrapper):
    """Adds to each mean a part of what it gave in the step before, as an optimizer with momentum does."""

    def __init__(self) -> None:
        super().__init__(RoundRobinReducer(), "momentum")

    def reduce_dense(self, columns: Any, op: ReduceOp) -> list[Column]:
        reduced = super().reduce_dense(columns, op)
        return [[self._with_past(n, k, grad) for k, grad in enumerate(column)] for n, column in enumerate(reduced)]

    def _with_past(self, n: int, k: int, grad: tf.Tensor) -> tf.Tensor:
        past = self.variable(f"past{n}_of_tower{k}", grad.shape, grad.device)
        whole = grad + PAST * past
        with tf.control_dependencies([past.assign(whole, read_value=False)]):
            return tf.identity(whole)


TRAINERS: dict[str, Callable[[], Any]] = {
    "replicated": lambda: SyncMultiGPUTrainerReplicated(2, mode=MomentumReducer()),
    "packed": lambda: SyncMultiGPUTrainerReplicated(2, mode=ConcatAndSplitPackingReducer(MomentumReducer(), 1)),
    "strategy": lambda: StrategyTrainer(
        MirroredStrategy(cpu_devices(2), cross_tower_ops=ReducerCrossTowerOps(MomentumReducer()))
    ),
    "worker": lambda: MultiWorkerTrainerReplicated(2, mode=MomentumReducer()),
}


class LineWithMomentum(Line):
    def optimizer(self) -> tf.train.Optimizer:
        return tf.train.MomentumOptimizer(0.1, PAST)


class Weights(Callback):
    """Keeps the variables as they are when training is over."""

    def _after_train(self) -> None:
        self.values = {variable.op.name: self.trainer.sess.run(variable) for variable in tf.global_variables()}


def trained(trainer: Any, model: Line | None = None, **options: Any) -> dict[str, Any]:
    weights = Weights()
    config = TrainConfig(
        model=model or Line(),
        data=line_input(),
        callbacks=[weights, *options.pop("callbacks", ())],
        extra_callbacks=[],
        monitors=[],
        steps_per_epoch=4,
        **options,
    )
    launch_train_with_config(config, trainer)
    return weights.values


@pytest.fixture(scope="module")
def oracle() -> dict[str, Any]:
    with tf.Graph().as_default():
        return trained(SimpleTrainer(), LineWithMomentum(), max_epoch=2)


@pytest.mark.parametrize("name", TRAINERS)
def test_a_reducer_keeps_its_state_between_steps_and_in_checkpoints(name: str, oracle: Any, log_dir: Path) -> None:
    with tf.Graph().as_default():
        trained(TRAINERS[name](), callbacks=[ModelSaver()], max_epoch=1)
    with tf.Graph().as_default():
        weights = trained(
            TRAINERS[name](), session_init=SaverRestore(latest_checkpoint(log_dir)), starting_epoch=2, max_epoch=2
        )
    for variable in ("w", "b"):
        np.testing.assert_allclose(weights[variable], oracle[variable], rtol=1e-5, err_msg=variable)
    states = [variable for variable in weights if "past" in variable]
    assert len(states) == (2 if name == "packed" else 4)


def test_a_reducer_keeps_its_state_where_several_steps_are_one_call(oracle: Any, log_dir: Path) -> None:
    with tf.Graph().as_default():
        weights = trained(TRAINERS["replicated"](), max_epoch=2, steps_per_call=4)
    np.testing.assert_allclose(weights["w"], oracle["w"], rtol=1e-5)


@pytest.mark.parametrize("example", ["own_builder", "own_reducer"])
def test_examples_learn_the_digits(example: str, tmp_path: Path) -> None:
    done = preloaded.run(ROOT / "examples" / f"{example}.py", ["--epochs", 4], cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    accuracy = float(re.fullmatch(r"Validation accuracy: ([\d.]+)%", done.stdout.splitlines()[-1])[1])  # type: ignore[index]
    assert accuracy > 85
