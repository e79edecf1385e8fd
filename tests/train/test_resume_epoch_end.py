"""An epoch is over when its callbacks are: a run that ends before has the epoch's end still before it."""

import json
from dataclasses import replace
from typing import Any

import pytest

from tests.helpers.toy_training import Line, line_input
from tpack.callbacks.base import Callback, CallbackFactory
from tpack.callbacks.min_max_saver import MinSaver
from tpack.callbacks.saver import ModelSaver
from tpack.callbacks.stopping import EarlyStopping
from tpack.callbacks.trigger import PeriodicTrigger
from tpack.errors import CheckpointError
from tpack.tfutils.checkpoint import latest_checkpoint
from tpack.tfutils.train_state import TrainState, read_train_state
from tpack.train.interface import launch_train_with_config
from tpack.train.resume import AutoResumeTrainConfig
from tpack.train.trainers import SimpleTrainer

ERRORS = [0.0, 4.0, 1.0, 3.0, 2.0]


class KilledError(Exception):
    """Stands in for a kill: nothing but what is written by now is left."""


class Validation(Callback):
    """Reports a value for each epoch; the process dies in one."""

    def __init__(self, dies_in: int | None = None) -> None:
        self.dies_in = dies_in
        self.epochs: list[int] = []

    def _trigger(self) -> None:
        self.epochs.append(self.epoch_num)
        if self.epoch_num == self.dies_in:
            raise KilledError
        self.trainer.monitors.put_scalar("error", ERRORS[self.epoch_num])


def train(callbacks: Any, *, every_k_steps: int | None = None, max_epoch: int = 4) -> AutoResumeTrainConfig:
    config = AutoResumeTrainConfig(
        model=Line(),
        data=line_input(),
        callbacks=[PeriodicTrigger(ModelSaver(), every_k_steps=every_k_steps, every_k_epochs=1), *callbacks],
        steps_per_epoch=5,
        max_epoch=max_epoch,
    )
    launch_train_with_config(config, SimpleTrainer())
    return config


@pytest.mark.parametrize("every_k_steps", [None, 5])
def test_what_was_not_validated_is_validated_by_the_next_run(log_dir: Any, every_k_steps: int | None) -> None:
    with pytest.raises(KilledError):
        train([Validation(dies_in=2), MinSaver("error")], every_k_steps=every_k_steps)
    validation = Validation()
    config = train([validation, MinSaver("error")], every_k_steps=every_k_steps)
    # Of the epoch that was cut at its very end, only the end is left where its last step was saved.
    assert (config.starting_epoch, config.starting_step) == ((2, 5) if every_k_steps else (2, 0))
    assert validation.epochs == [2, 3, 4]
    entries = json.loads((log_dir / "stats.json").read_text())
    assert [(entry["epoch_num"], entry["error"]) for entry in entries] == [(1, 4), (2, 1), (3, 3), (4, 2)]
    assert json.loads((log_dir / "min-error.best.json").read_text())["global_step"] == 10


def test_a_checkpoint_within_the_end_says_that_it_is_not_over(log_dir: Any) -> None:
    inner = PeriodicTrigger(ModelSaver(), every_k_epochs=100)

    def save_now(callback: Callback) -> None:
        inner.cb.trigger()
        raise KilledError

    with pytest.raises(KilledError):
        train([inner, CallbackFactory(trigger=save_now)])
    prefix = latest_checkpoint(str(log_dir))
    assert prefix
    assert replace(read_train_state(prefix), callbacks={}) == TrainState(1, 5, 5, steps_per_epoch=5)


def test_a_checkpoint_after_the_end_says_that_the_next_epoch_begins(log_dir: Any) -> None:
    train([], max_epoch=2)
    assert replace(read_train_state(str(log_dir / "model-10")), callbacks={}) == TrainState(3, 0, 10, steps_per_epoch=5)


@pytest.mark.parametrize("saver_is_first", [True, False])
def test_an_end_that_fails_saves_nothing(log_dir: Any, saver_is_first: bool) -> None:
    members = [ModelSaver(), Validation(dies_in=2)]
    config = AutoResumeTrainConfig(
        model=Line(),
        data=line_input(),
        callbacks=members if saver_is_first else members[::-1],
        steps_per_epoch=5,
        max_epoch=4,
    )
    with pytest.raises(KilledError):
        launch_train_with_config(config, SimpleTrainer())
    assert latest_checkpoint(str(log_dir)) == str(log_dir / "model-5")


def test_a_value_of_an_end_that_comes_again_counts_once(log_dir: Any) -> None:
    def die(callback: Callback) -> None:
        if callback.epoch_num == 3:
            raise KilledError

    # It dies after the statistic of epoch 3 was written, in which it has not improved for one epoch.
    dying = CallbackFactory(trigger=die)
    dying.reads_statistics = True
    with pytest.raises(KilledError):
        train([Validation(), EarlyStopping("error", patience=2), dying], every_k_steps=5)
    validation = Validation()
    train([validation, EarlyStopping("error", patience=2)])
    assert validation.epochs == [3, 4]


def test_what_json_cannot_hold_is_not_saved(log_dir: Any) -> None:
    class Wrong(Callback):
        def _state_to_save(self) -> object:
            return {1, 2}

    with pytest.raises(CheckpointError, match="cannot write the training state .* set is not JSON serializable"):
        train([Wrong()])
    assert latest_checkpoint(str(log_dir)) is None


def test_callbacks_get_back_what_they_had_to_remember(log_dir: Any) -> None:
    class Counts(Callback):
        count = 0

        def _trigger_step(self) -> None:
            self.count += 1

        def _state_to_save(self) -> object:
            return self.count

        def _load_saved_state(self, state: int) -> None:
            self.count = state

    train([Counts()], max_epoch=2)
    counts = Counts()
    train([counts], max_epoch=3)
    assert counts.count == 15
