"""A cost, or a weight, that is no number any more ends training within an epoch and is not saved."""

import os
import signal
from typing import Any

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.toy_training import Line, line_input
from tpack.callbacks.base import Callback, CallbackFactory
from tpack.callbacks.min_max_saver import MinSaver
from tpack.callbacks.nan_checks import CheckNumerics
from tpack.callbacks.saver import ModelSaver
from tpack.callbacks.trigger import PeriodicTrigger
from tpack.errors import ConfigError, NumericsError
from tpack.tfutils.checkpoint import latest_checkpoint
from tpack.tfutils.graph_lookup import get_global_step_var
from tpack.train.config import TrainConfig
from tpack.train.interface import launch_train_with_config
from tpack.train.trainer import Trainer
from tpack.train.trainers import (
    AsyncMultiGPUTrainer,
    SimpleTrainer,
    SyncMultiGPUTrainerParameterServer,
    SyncMultiGPUTrainerReplicated,
)


class Breaks(Line):
    """The cost is NaN at the steps given, counted from 0, and the weights from then on, unless they are to stay."""

    def __init__(self, *steps: int, spoils_weights: bool = True, value: float = np.nan) -> None:
        self.steps, self.spoils_weights, self.value = steps, spoils_weights, value

    def build_graph(self, x: Any, y: Any) -> Any:
        cost = super().build_graph(x, y)
        is_now = tf.reduce_any(tf.equal(get_global_step_var(), np.array(self.steps, "int64")))
        broken = tf.where(is_now, self.value, 1.0) * (cost if self.spoils_weights else tf.stop_gradient(cost))
        # What is shown does not depend on the weights being broken, as behind a ReLU.
        shown = tf.where(tf.is_finite(broken) | is_now, broken, tf.zeros([]) if self.spoils_weights else cost)
        return tf.identity(shown, name="total_cost")


class Reports(Callback):
    def _trigger(self) -> None:
        self.trainer.monitors.put_scalar("error", -self.epoch_num)


def train(model: Any, callbacks: Any = (), *, trainer: Any = None, max_epoch: int = 4, **options: Any) -> Any:
    trainer = trainer or SimpleTrainer()
    config = TrainConfig(
        model=model, data=line_input(), callbacks=callbacks, steps_per_epoch=5, max_epoch=max_epoch, **options
    )
    launch_train_with_config(config, trainer)
    return trainer


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_cost_that_is_no_number_ends_training_at_the_end_of_the_epoch(log_dir: Any, value: float) -> None:
    with pytest.raises(NumericsError, match=rf"cost 'total_cost' is {value} .*after step 10 \(epoch 2\)"):
        train(Breaks(9, spoils_weights=False, value=value))


@pytest.mark.parametrize(
    "make",
    [
        lambda: SimpleTrainer(),
        lambda: SyncMultiGPUTrainerReplicated(2),
        lambda: SyncMultiGPUTrainerParameterServer(2),
        lambda: AsyncMultiGPUTrainer(2),
    ],
    ids=["simple", "replicated", "parameter server", "async"],
)
def test_weights_tell_of_a_cost_that_is_a_number_again(log_dir: Any, make: Any) -> None:
    with pytest.raises(NumericsError, match=r"NaN or infinity is in w, b after step 10 \(epoch 2\); training stopped"):
        train(Breaks(6), trainer=make())


def test_a_step_without_consequence_is_none(log_dir: Any) -> None:
    train(Breaks(6, spoils_weights=False))


def test_it_can_be_turned_off(log_dir: Any) -> None:
    assert train(Breaks(6), check_cost=False).global_step == 20
    trainer = SimpleTrainer()
    trainer.checks_cost = False
    assert train(Breaks(6), trainer=trainer).global_step == 20
    with pytest.raises(ConfigError, match="TrainConfig got check_cost='no': expected True or False"):
        train(Breaks(6), check_cost="no")


def test_a_trainer_without_a_known_cost_checks_its_variables(log_dir: Any) -> None:
    class Own(Trainer):
        def __init__(self) -> None:
            super().__init__()
            weight = tf.get_variable("weight", initializer=1.0)
            self.train_op = tf.assign(weight, weight - 1 / tf.maximum(3.0 - tf.cast(get_global_step_var(), "float"), 0))

    with tf.Graph().as_default(), pytest.raises(NumericsError, match=r"NaN .* is in weight after step 4 \(epoch 2\)"):
        Own().train_with_defaults(steps_per_epoch=2, max_epoch=9, callbacks=[], monitors=[])


MEMBERS = {
    "the trainer's check": lambda: [ModelSaver(), Reports(), MinSaver("error")],
    "CheckNumerics after": lambda: [ModelSaver(), MinSaver("error"), Reports(), CheckNumerics()],
    "CheckNumerics before": lambda: [CheckNumerics(), ModelSaver(), Reports(), MinSaver("error")],
    "CheckNumerics seldom": lambda: [PeriodicTrigger(CheckNumerics(), every_k_epochs=9), ModelSaver(), Reports()],
    "saved by steps": lambda: [PeriodicTrigger(ModelSaver(), every_k_steps=1), CheckNumerics()],
}


@pytest.mark.parametrize(
    ("name", "check_cost"),
    # Without the trainer's check, another one has to be there.
    [*((name, True) for name in MEMBERS), *((name, False) for name in MEMBERS if name != "the trainer's check")],
)
def test_what_is_no_number_is_never_saved(log_dir: Any, name: str, check_cost: bool) -> None:
    with pytest.raises(NumericsError):
        train(Breaks(7), MEMBERS[name](), check_cost=check_cost)
    prefix = latest_checkpoint(str(log_dir))
    assert prefix
    assert int(prefix.rpartition("-")[2]) in (5, 7)
    for path in log_dir.glob("*.index"):
        reader = tf.train.load_checkpoint(str(path).removesuffix(".index"))
        assert np.isfinite(reader.get_tensor("w"))


def test_what_is_no_number_is_not_saved_for_a_signal(log_dir: Any) -> None:
    def interrupt(callback: Callback) -> None:
        if callback.global_step == 8:
            os.kill(os.getpid(), signal.SIGTERM)

    sender = PeriodicTrigger(CallbackFactory(trigger=interrupt), every_k_steps=1)
    with pytest.raises(NumericsError, match=r"NaN or infinity is in w, b after step 8 \(epoch 2\)"):
        train(Breaks(6), [sender, ModelSaver()])
    assert latest_checkpoint(str(log_dir)) == str(log_dir / "model-5")


def test_steps_but_the_last_fetch_what_they_fetched_before(log_dir: Any) -> None:
    asked: list[int] = []

    class Asks(Callback):
        def _trigger_step(self) -> None:
            check = self.trainer._callbacks.cbs[1]
            context = tf.train.SessionRunContext(tf.train.SessionRunArgs(self.trainer.train_op), self.trainer.sess)
            if check.before_run(context) is not None:
                # It is asked here after the step, for the coming one.
                asked.append(self.local_step)

    train(Line(), [Asks()], max_epoch=2)
    assert asked == [4, 4]
