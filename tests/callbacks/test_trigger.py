import pytest

from tests.helpers.fake_trainer import FakeTrainer
from tpack.callbacks.base import Callback
from tpack.callbacks.trigger import EnableCallbackIf, PeriodicCallback, PeriodicTrigger
from tpack.errors import CallbackError, ConfigError


class Triggered(Callback):
    def __init__(self):
        self.at = []
        self.steps = []

    def _trigger(self):
        self.at.append((self.epoch_num, self.global_step))

    def _trigger_step(self):
        self.steps.append(self.global_step)


@pytest.mark.parametrize(
    ("periods", "expected"),
    [
        ({"every_k_steps": 2}, [(1, 2), (2, 4), (2, 6)]),
        ({"every_k_epochs": 2}, [(2, 6)]),
        ({"every_k_epochs": 1, "before_train": True}, [(0, 0), (1, 3), (2, 6)]),
        ({"before_train": True}, [(0, 0)]),
        ({"every_k_steps": 3, "every_k_epochs": 1}, [(1, 3), (2, 6)]),
        ({"every_k_steps": 4, "every_k_epochs": 1}, [(1, 3), (2, 4), (2, 6)]),
    ],
)
def test_periodic_trigger_acts_when_due(graph, periods, expected):
    callback = Triggered()
    FakeTrainer().train([PeriodicTrigger(callback, **periods)], steps_per_epoch=3, epochs=(1, 2))
    assert callback.at == expected
    assert callback.steps == [1, 2, 3, 4, 5, 6]


def test_periodic_trigger_asks_for_steps_only_when_needed():
    class Act(Callback):
        def _trigger(self):
            pass

    by_epoch = PeriodicTrigger(Act(), every_k_epochs=1)
    assert not by_epoch.implements("trigger_step")
    assert by_epoch.implements("trigger_epoch")
    assert not by_epoch.implements("before_run")
    assert PeriodicTrigger(Act(), every_k_steps=1).implements("trigger_step")
    assert str(by_epoch) == "PeriodicTrigger-Act"


def test_periodic_trigger_without_a_time_is_an_error():
    with pytest.raises(ConfigError, match="expected every_k_steps, every_k_epochs or before_train"):
        PeriodicTrigger(Triggered())


def test_periodic_trigger_of_what_cannot_be_triggered_is_an_error():
    with pytest.raises(CallbackError, match="got Callback: expected a callback that overrides _trigger"):
        PeriodicTrigger(Callback(), every_k_epochs=1)


@pytest.mark.parametrize("kind", [PeriodicTrigger, PeriodicCallback])
@pytest.mark.parametrize("period", [0, -1, 1.5, True])
def test_period_must_be_a_positive_integer(kind, period):
    with pytest.raises(ConfigError, match=rf"every_k_steps={period!r}: expected an integer"):
        kind(Triggered(), every_k_steps=period)


class Everything(Callback):
    def __init__(self):
        self.calls = []

    def note(self, hook):
        self.calls.append((hook, self.global_step))

    def _before_train(self):
        self.note("before_train")

    def _before_epoch(self):
        self.note("before_epoch")

    def _before_run(self, ctx):
        self.note("before_run")

    def _after_run(self, ctx, values):
        self.note("after_run")

    def _trigger_step(self):
        self.note("trigger_step")

    def _after_epoch(self):
        self.note("after_epoch")

    def _trigger_epoch(self):
        self.note("trigger_epoch")

    def _after_train(self):
        self.note("after_train")


def test_enable_callback_if_follows_the_condition(graph):
    callback = Everything()
    only_second = EnableCallbackIf(callback, lambda self: self.epoch_num == 2)
    FakeTrainer().train([only_second], steps_per_epoch=1, epochs=(1, 2))
    assert callback.calls == [
        ("before_train", 0),
        ("before_epoch", 1),
        ("before_run", 1),
        ("after_run", 1),
        ("trigger_step", 2),
        ("after_epoch", 2),
        ("trigger_epoch", 2),
        ("after_train", 2),
    ]


def test_enable_callback_if_asks_the_condition_once_a_run(graph):
    asked = []
    callback = Everything()
    FakeTrainer().train(
        [EnableCallbackIf(callback, lambda self: bool(asked.append(1)))], steps_per_epoch=2, epochs=(1, 1)
    )
    # Two runs, and before, after and at the end of the epoch.
    assert len(asked) == 5
    assert callback.calls == [("before_train", 0), ("after_train", 2)]


def test_enable_callback_if_without_runs_decides_after_the_step(graph):
    callback = Triggered()
    FakeTrainer().train([EnableCallbackIf(callback, lambda self: self.global_step == 2)], steps_per_epoch=2)
    assert callback.steps == [2]


def test_periodic_callback_in_steps_takes_the_kth_run(graph):
    callback = Everything()
    FakeTrainer().train([PeriodicCallback(callback, every_k_steps=2)], steps_per_epoch=3, epochs=(1, 1))
    in_runs = [call for call in callback.calls if call[0] in ("before_run", "after_run", "trigger_step")]
    assert in_runs == [("before_run", 1), ("after_run", 1), ("trigger_step", 2)]


def test_periodic_callback_in_epochs_takes_all_of_the_epoch(graph):
    callback = Everything()
    wrapped = PeriodicCallback(callback, every_k_epochs=2)
    FakeTrainer().train([wrapped], steps_per_epoch=1, epochs=(1, 3))
    assert [call for call in callback.calls if call[0] == "trigger_epoch"] == [("trigger_epoch", 2)]
    assert [call for call in callback.calls if call[0] == "before_run"] == [("before_run", 1)]
    assert str(wrapped) == "PeriodicCallback-Everything"


def test_periodic_callback_without_a_period_is_an_error():
    with pytest.raises(ConfigError, match="expected every_k_steps or every_k_epochs"):
        PeriodicCallback(Triggered())
