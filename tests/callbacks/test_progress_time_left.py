import pytest

from tests.helpers.fake_trainer import FakeTrainer
from tests.helpers.log_lines import captured_log
from tpack.callbacks import progress
from tpack.callbacks.progress import EstimatedTimeLeft
from tpack.errors import ConfigError


class FakeTime:
    """A clock on which the epochs take 1, 2, 9, ... seconds."""

    def __init__(self, durations):
        self.now = 0.0
        self.durations = iter([0.0, *durations])

    def perf_counter(self):
        self.now += next(self.durations)
        return self.now


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, ["3 seconds", "3 seconds", "2 seconds"]),
        ({"median": False}, ["3 seconds", "3 seconds", "4 seconds"]),
        ({"last_k_epochs": 1}, ["3 seconds", "4 seconds", "9 seconds"]),
    ],
)
def test_time_left_goes_by_the_last_epochs(graph, monkeypatch, options, expected):
    monkeypatch.setattr(progress, "time", FakeTime([1, 2, 9, 1]))
    with captured_log() as lines:
        FakeTrainer().train([EstimatedTimeLeft(**options)], steps_per_epoch=1, epochs=(1, 4))
    assert lines == [f"Estimated time left: {text}." for text in expected]


def test_no_epochs_to_go_by_is_an_error():
    with pytest.raises(ConfigError, match="last_k_epochs=0: expected an integer of at least 1"):
        EstimatedTimeLeft(last_k_epochs=0)
