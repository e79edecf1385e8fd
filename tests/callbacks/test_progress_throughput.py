from functools import partial

import pytest

from tests.helpers.fake_trainer import FakeTrainer
from tpack.callbacks import progress
from tpack.callbacks.progress import ThroughputTracker
from tpack.errors import ConfigError
from tpack.step.step_timer import StepTimer


@pytest.fixture
def clock(monkeypatch):
    """A clock that shows what is next in a list."""
    times = [0.0, 10.0, 12.0, 100.0, 104.0]
    monkeypatch.setattr(progress, "StepTimer", partial(StepTimer, clock=lambda: times.pop(0)))


def track(clock, **options):
    callback = ThroughputTracker(**options)
    trainer = FakeTrainer()
    trainer.setup([callback])
    for first, last in ((0, 8), (5, 8)):
        trainer.local_step = first
        callback.before_epoch()
        trainer.local_step = last
        callback.after_epoch()
        callback.trigger_epoch()
    return trainer.recorder


def test_steps_per_second_of_each_epoch_are_reported(graph, clock):
    # The second epoch is a resumed one and had three steps.
    assert track(clock).values("Throughput (steps/sec)") == [4.0, 0.75]


def test_samples_may_be_counted(graph, clock):
    assert track(clock, samples_per_step=32).values("Throughput (samples/sec)") == [128.0, 24.0]


def test_what_is_counted_may_have_a_name(graph, clock):
    assert track(clock, samples_per_step=32, unit="tokens").values("Throughput (tokens/sec)") == [128.0, 24.0]


def test_a_name_needs_a_number():
    with pytest.raises(ConfigError, match="unit='tokens' without samples_per_step"):
        ThroughputTracker(unit="tokens")


def test_without_an_epoch_there_is_nothing_to_report(graph):
    callback, trainer = ThroughputTracker(), FakeTrainer()
    trainer.setup([callback])
    callback.trigger_epoch()
    assert trainer.recorder.scalars == []


def test_a_number_of_samples_is_positive():
    with pytest.raises(ConfigError, match="samples_per_step=0: expected a number greater than 0"):
        ThroughputTracker(0)
