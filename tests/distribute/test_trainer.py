"""Whole trainings under strategies: loop, callbacks, checkpoints, precision, predictors."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers import mixed_precision
from tests.helpers.tower_grads import cpu_devices
from tests.helpers.toy_training import Line, Recorder, line_input
from tpack.callbacks.base import CallbackFactory
from tpack.callbacks.param_setters import ScheduledHyperParamSetter
from tpack.callbacks.saver import ModelSaver
from tpack.distribute.strategies import MirroredStrategy, OneDeviceStrategy, ParameterServerStrategy
from tpack.distribute.strategy import DistributionStrategy
from tpack.distribute.trainer import StrategyTrainer
from tpack.errors import ConfigError
from tpack.tfutils.sessinit import SaverRestore
from tpack.train.config import TrainConfig
from tpack.train.interface import launch_train_with_config
from tpack.train.trainers import SimpleTrainer
from tpack.utils import logger

STRATEGIES: dict[str, Callable[[], DistributionStrategy]] = {
    "mirrored": lambda: MirroredStrategy(cpu_devices(4)),
    "parameter server": lambda: ParameterServerStrategy(devices=cpu_devices(4)),
    "one device": lambda: OneDeviceStrategy("/cpu:2"),
}


def _launch(trainer: Any, steps_per_epoch: int = 100, callbacks: Any = (), **options: Any) -> Recorder:
    recorder = Recorder()
    config = TrainConfig(
        model=Line(),
        data=line_input(),
        callbacks=[recorder, *callbacks],
        extra_callbacks=[],
        monitors=[],
        steps_per_epoch=steps_per_epoch,
        max_epoch=2,
        **options,
    )
    launch_train_with_config(config, trainer)
    return recorder


@pytest.mark.parametrize("name", STRATEGIES)
def test_every_strategy_fits_the_line(name: str, graph: Any) -> None:
    trainer = StrategyTrainer(STRATEGIES[name]())
    recorder = _launch(trainer)
    np.testing.assert_allclose([recorder.weights["w"], recorder.weights["b"]], [2, 1], rtol=1e-3)
    assert recorder.weights["global_step"] == 200
    assert set(recorder.weights) == {"w", "b", "learning_rate", "global_step"}
    assert trainer.devices == tuple(trainer.strategy.worker_devices)


@pytest.mark.parametrize("name", STRATEGIES)
def test_checkpoints_move_between_trainers(name: str, log_dir: Path) -> None:
    """A checkpoint of any trainer starts any other, on all devices."""

    def weights(make: Any, restore: bool) -> dict[str, Any]:
        logger.set_logger_dir(str(log_dir), action="k")
        with tf.Graph().as_default():
            options = {"session_init": SaverRestore(str(log_dir / "model-20"))} if restore else {}
            parts: dict[str, Any] = {}

            def note(callback: Any) -> None:
                for variable in tf.trainable_variables():
                    mirrors = callback.trainer.sess.run(getattr(variable, "components", [variable]))
                    assert len({mirror.tobytes() for mirror in mirrors}) == 1
                    parts[variable.op.name] = mirrors[0]

            callbacks = [CallbackFactory(before_train=note) if restore else ModelSaver()]
            recorder = _launch(make(), 10, callbacks, **options)
            return parts if restore else recorder.weights

    def strategy_trainer() -> StrategyTrainer:
        return StrategyTrainer(STRATEGIES[name]())

    for source, target in [(strategy_trainer, SimpleTrainer), (SimpleTrainer, strategy_trainer)]:
        saved, begun = weights(source, restore=False), weights(target, restore=True)
        assert begun == {key: saved[key] for key in ("w", "b")}
        for path in log_dir.glob("model-*"):
            path.unlink()
        (log_dir / "checkpoint").unlink()


@pytest.mark.parametrize("precision", ["bfloat16", "float16"])
@pytest.mark.parametrize("name", ["mirrored", "parameter server"])
def test_strategies_train_in_16_bits(name: str, precision: str) -> None:
    run = mixed_precision.train(lambda: StrategyTrainer(STRATEGIES[name](), precision=precision))
    one = mixed_precision.train(lambda: SimpleTrainer(precision=precision))
    assert run.saved.keys() == one.saved.keys()
    for variable in ("conv/W", "table", "fc/W", "fc/b"):
        np.testing.assert_allclose(run.saved[variable], one.saved[variable], atol=6e-3, err_msg=variable)
    convolutions = [op for op in run.graph.get_operations() if op.type == "Conv2D"]
    assert {op.get_attr("T") for op in convolutions} == {tf.as_dtype(precision)}
    assert len(convolutions) == 4


@pytest.mark.parametrize("name", ["mirrored", "parameter server"])
def test_overflow_in_one_tower_skips_the_step_in_all(name: str) -> None:
    def train(overflow: tuple[int, int]) -> Any:
        return mixed_precision.train(
            lambda: StrategyTrainer(STRATEGIES[name](), precision="float16"), overflow=overflow
        )

    run, clean = train((1, 2)), train((3, 2))
    for variable in ("conv/W", "table", "fc/W/Adam", "table/Adam_1", "beta1_power"):
        assert run.saved[variable].tobytes() == clean.saved[variable].tobytes(), variable
    assert run.saved["loss_scale/skipped_steps"] == 1
    assert run.scalars["skipped_steps"] == [1, 1]


@pytest.mark.parametrize("name", STRATEGIES)
def test_a_learning_rate_that_callbacks_set_counts_on_all_devices(name: str, graph: Any) -> None:
    seen: list[Any] = []

    def note(callback: Any) -> None:
        (weight,) = [variable for variable in tf.trainable_variables() if variable.op.name == "w"]
        seen.append(callback.trainer.sess.run(getattr(weight, "components", [weight])))

    setter = ScheduledHyperParamSetter("learning_rate", [(1, 0.0)])
    _launch(StrategyTrainer(STRATEGIES[name]()), 1, [setter, CallbackFactory(before_train=note, trigger=note)])
    before, first, second = np.array(seen)
    assert (first != before).all()
    np.testing.assert_array_equal(first, second)


def test_predictors_use_the_weights_of_their_device(graph: Any) -> None:
    made: list[Any] = []

    def make(callback: Any) -> None:
        made.extend(callback.trainer.get_predictor(["x"], ["prediction"], device) for device in (0, 1, -1))

    def check(callback: Any) -> None:
        for predictor in made:
            np.testing.assert_allclose(predictor(np.float32([0, 1]))[0], [1, 3], rtol=1e-2)

    _launch(StrategyTrainer(STRATEGIES["mirrored"]()), 100, [CallbackFactory(setup_graph=make, trigger=check)])
    assert len(made) == 3


def test_other_things_are_refused() -> None:
    with pytest.raises(ConfigError, match="expected a DistributionStrategy"):
        StrategyTrainer("mirrored")
    with pytest.raises(ConfigError, match="precision got .fp8.: expected one of"):
        StrategyTrainer(STRATEGIES["mirrored"](), precision="fp8")
