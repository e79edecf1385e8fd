"""In which phases callbacks are triggered, what keeps a checkpoint from being saved, and what is remembered in one."""

from typing import Any

import pytest

from tests.helpers.fake_trainer import FakeTrainer
from tpack.callbacks.base import Callback
from tpack.callbacks.group import Callbacks, ProxyCallback, numbered
from tpack.callbacks.inference.runners import InferenceRunnerBase
from tpack.callbacks.min_max_saver import MinSaver
from tpack.callbacks.monitors.group import Monitors
from tpack.callbacks.nan_checks import CheckNumerics
from tpack.callbacks.saver import ModelSaver
from tpack.callbacks.stopping import EarlyStopping
from tpack.callbacks.trigger import EnableCallbackIf, PeriodicTrigger
from tpack.errors import CheckpointError
from tpack.train.loop import EpochEnd, TrainLoop


class Remembers(Callback):
    """Has something to remember, and is told what it was."""

    def __init__(self, state: Any, name: str = "Remembers") -> None:
        self.remembered, self.name = state, name
        self.told: Any = "nothing"

    def _state_to_save(self) -> Any:
        return self.remembered

    def _load_saved_state(self, state: Any) -> None:
        self.told = float(state)

    def __str__(self) -> str:
        return self.name


class Objects(Callback):
    def _before_save(self) -> None:
        raise ValueError("not this")


@pytest.mark.parametrize("wrap", [lambda cb: cb, ProxyCallback, lambda cb: PeriodicTrigger(cb, every_k_epochs=1)])
def test_those_that_save_are_triggered_after_all_others(wrap: Any) -> None:
    ends = EpochEnd(TrainLoop())
    saver, best, reader, monitors = wrap(ModelSaver()), wrap(MinSaver("error")), EarlyStopping("error"), Monitors([])
    check, validation = CheckNumerics(), Callback()
    given = [saver, best, reader, check, validation, monitors, ends]
    assert Callbacks(given)._triggered == [check, validation, reader, monitors, best, ends, saver]
    assert not InferenceRunnerBase.saves_training


def test_a_group_of_those_that_save_is_one_of_them() -> None:
    assert ProxyCallback(Callbacks([Callback(), ModelSaver()])).saves_training


@pytest.mark.parametrize("wrap", [lambda cb: cb, ProxyCallback, lambda cb: EnableCallbackIf(cb, lambda self: True)])
def test_every_member_may_object_to_saving(graph: Any, wrap: Any) -> None:
    trainer = FakeTrainer()
    trainer.setup([wrap(Objects())])
    with pytest.raises(ValueError, match="not this"):
        trainer.prepare_save()


def test_a_disabled_callback_does_not_object(graph: Any) -> None:
    trainer = FakeTrainer()
    trainer.setup([EnableCallbackIf(Objects(), lambda self: False)])
    assert trainer.prepare_save() == {}


def test_states_are_known_by_the_callbacks_names(graph: Any) -> None:
    trainer = FakeTrainer()
    twins = [Remembers(1), Remembers(2)]
    trainer.setup([ProxyCallback(twins[0]), Callback(), PeriodicTrigger(_WithTrigger(3), every_k_steps=5), twins[1]])
    assert trainer.prepare_save() == {"Remembers": 1, "Remembers (2)": 2, "other": 3}
    trainer.callbacks.load_saved_state({"Remembers (2)": 20, "gone": 5})
    assert [twin.told for twin in twins] == ["nothing", 20.0]


def test_what_has_nothing_to_remember_is_left_out(graph: Any) -> None:
    trainer = FakeTrainer()
    trainer.setup([Remembers(None)])
    assert trainer.prepare_save() == {}


def test_a_state_that_a_callback_cannot_read_is_named(graph: Any) -> None:
    trainer = FakeTrainer()
    trainer.setup([Remembers(1)])
    with pytest.raises(CheckpointError, match="Remembers cannot load its state from the checkpoint: ValueError"):
        trainer.callbacks.load_saved_state({"Remembers": "text"})


def test_names_that_are_there_twice_get_a_number() -> None:
    assert list(numbered(["a", "b", "a", "a"])) == ["a", "b", "a (2)", "a (3)"]


class _WithTrigger(Remembers):
    def __init__(self, state: Any) -> None:
        super().__init__(state, "other")

    def _trigger(self) -> None:
        pass
