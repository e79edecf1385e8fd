from types import SimpleNamespace

import pytest
import tensorflow.compat.v1 as tf

from tests.helpers import worker_job
from tests.helpers.fake_peers import run_workers
from tests.helpers.fake_trainer import FakeTrainer
from tests.helpers.worker_job import values_of
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


class FakeClock:
    """Time that passes in steps only."""

    def __init__(self, monkeypatch, *secs):
        self.now, self._secs = 1000.0, list(secs)
        monkeypatch.setattr("tpack.callbacks.trigger.time", SimpleNamespace(monotonic=lambda: self.now))

    def step(self):
        self.now += self._secs.pop(0)


class Passing(Callback):
    """Lets the time of a step pass, before others are called after it."""

    _chief_only = False

    def __init__(self, clock):
        self._clock = clock

    def _trigger_step(self):
        self._clock.step()


def test_periodic_trigger_acts_after_seconds(graph, monkeypatch):
    clock, callback = FakeClock(monkeypatch, 4, 4, 4, 30, 1, 9), Triggered()
    trigger = PeriodicTrigger(callback, every_secs=10)
    FakeTrainer().train([Passing(clock), trigger], steps_per_epoch=6, epochs=(1, 1))
    assert callback.at == [(1, 3), (1, 4), (1, 6)]


def test_the_seconds_of_a_trigger_do_not_count(graph, monkeypatch):
    clock = FakeClock(monkeypatch, 10, 9, 1)

    class Slow(Triggered):
        def _trigger(self):
            super()._trigger()
            clock.now += 60

    callback = Slow()
    FakeTrainer().train([Passing(clock), PeriodicTrigger(callback, every_secs=10)], steps_per_epoch=3, epochs=(1, 1))
    assert callback.at == [(1, 1), (1, 3)]


def test_a_resumed_run_counts_the_seconds_on(graph, monkeypatch):
    clock, callback = FakeClock(monkeypatch, 4, 4), Triggered()
    trigger = PeriodicTrigger(callback, every_secs=10)
    trainer = FakeTrainer()
    trainer.resumed_states = {str(trigger): 6.5}
    trainer.train([Passing(clock), trigger], steps_per_epoch=2, epochs=(1, 1))
    assert callback.at == [(1, 1)]
    assert trigger.state_to_save() == 4.0
    assert PeriodicTrigger(Triggered(), every_k_steps=2).state_to_save() is None


def test_the_chief_decides_for_all_workers_at_few_looks(monkeypatch):
    """The others' clocks stand still; the chief's steps take 1 s, so that it looks ever more often up to the end."""
    clock = FakeClock(monkeypatch, *[1] * 120)

    def work(peers):
        callback = Triggered()
        callback.set_chief_only(False)
        trigger = PeriodicTrigger(callback, every_secs=50)
        with tf.Graph().as_default():
            trainer = FakeTrainer()
            trainer.peers = peers
            passing = [Passing(clock)] if peers.rank == 0 else []
            trainer.train([*passing, trigger], steps_per_epoch=120, epochs=(1, 1))
        return [step for _, step in callback.at], peers.topics, trigger

    outcomes = run_workers(2, work)
    assert outcomes[0][:2] == outcomes[1][:2]
    assert outcomes[0][0] == [50, 100]
    assert set(outcomes[0][1]) == {"whether it is time for PeriodicTrigger-Triggered"}
    assert len(outcomes[0][1]) < 30


@pytest.mark.parametrize("steps_per_call", [1, 5])
def test_processes_are_triggered_after_the_same_steps(tmp_path, steps_per_call):
    arguments = {"steps_per_call": steps_per_call}
    scenario = "tests.helpers.expecting_workers.by_time"
    chief, other = values_of(worker_job.run_workers(scenario, 2, tmp_path, arguments=arguments))
    assert chief == other
    assert len(chief) > 1


def test_a_callback_of_the_chief_alone_asks_nobody(monkeypatch):
    clock = FakeClock(monkeypatch, *[1] * 4)
    with tf.Graph().as_default():
        trainer, callback = FakeTrainer(), Triggered()
        trainer.peers = SimpleNamespace(size=2, rank=0)
        trainer.train([Passing(clock), PeriodicTrigger(callback, every_secs=3)], steps_per_epoch=4, epochs=(1, 1))
    assert callback.at == [(1, 3)]


def test_a_call_of_several_steps_ends_where_the_clock_is_looked_at(graph, monkeypatch):
    clock = FakeClock(monkeypatch, 2)

    class Quiet(Callback):
        def _trigger(self):
            pass

    trigger = PeriodicTrigger(Quiet(), every_secs=9, every_k_steps=20)
    FakeTrainer().train([Passing(clock), trigger], steps_per_epoch=1, epochs=(1, 1))
    # Half of the 7 s left, in steps of 2 s; of 20 steps one is made.
    assert trigger.with_several_steps().steps_left() == 1
    clock = FakeClock(monkeypatch, 0.25)
    with tf.Graph().as_default():
        trigger = PeriodicTrigger(Quiet(), every_secs=9, every_k_steps=20)
        FakeTrainer().train([Passing(clock), trigger], steps_per_epoch=1, epochs=(1, 1))
    assert trigger.with_several_steps().steps_left() == 17
    assert trigger.implements("trigger_step")


def test_seconds_that_are_not_positive_are_an_error():
    with pytest.raises(ConfigError, match="every_secs=0: expected a number greater than 0"):
        PeriodicTrigger(Triggered(), every_secs=0)


def test_periodic_trigger_without_a_time_is_an_error():
    with pytest.raises(ConfigError, match="expected every_k_steps, every_k_epochs, every_secs or before_train"):
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
