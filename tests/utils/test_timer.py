"""Stopwatches, with a clock that the test moves, and durations in words."""

import pytest

from tpack.errors import ConfigError
from tpack.utils import timer as timer_module
from tpack.utils.timer import Timer, humanize_time_delta, print_total_timer, timed_operation, total_timer


class Clock:
    """A clock that goes when it is told to."""

    now = 100.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    """A clock that all timers made without one use."""
    clock = Clock()
    monkeypatch.setattr(Timer.__init__, "__defaults__", (clock,))
    monkeypatch.setattr(timer_module, "_totals", {})
    return clock


def test_timer_runs_from_its_making(clock):
    timer = Timer(clock)
    clock.now += 3
    assert timer.seconds() == 3
    timer.reset()
    assert timer.seconds() == 0


def test_timer_does_not_count_pauses(clock):
    timer = Timer(clock)
    clock.now += 1
    timer.pause()
    timer.pause()
    assert timer.is_paused()
    clock.now += 10
    timer.resume()
    clock.now += 2
    timer.resume()
    assert not timer.is_paused()
    assert timer.seconds() == 3


def test_timed_operation_logs_the_time(clock, capsys):
    with timed_operation("loading"):
        clock.now += 1.5
    (line,) = capsys.readouterr().err.splitlines()
    assert line.endswith("loading finished, time: 1.5000 sec.")


def test_timed_operation_logs_its_start_if_asked(clock, capsys):
    with timed_operation("loading", log_start=True):
        assert capsys.readouterr().err.endswith("Start loading ...\n")


def test_total_timer_adds_up(clock, capsys):
    for seconds in (1, 2):
        with total_timer("decode"):
            clock.now += seconds
    print_total_timer()
    (line,) = capsys.readouterr().err.splitlines()
    assert line.endswith("decode: 3.0000 sec in total, 2 times, 1.5000 sec each time")


def test_print_without_totals_says_nothing(clock, capsys):
    print_total_timer()
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("sec", "words"),
    [
        (0, "0 seconds"),
        (0.01234, "0.0123 seconds"),
        (1, "1 second"),
        (59.94, "59.9 seconds"),
        (59.96, "1 minute"),
        (61.4, "1 minute 1 second"),
        (3600, "1 hour"),
        (3723, "1 hour 2 minutes 3 seconds"),
        (90000, "1 day 1 hour"),
        (2 * 86400 + 59.6, "2 days 1 minute"),
    ],
)
def test_duration_is_said_in_words(sec, words):
    assert humanize_time_delta(sec) == words


@pytest.mark.parametrize(
    ("sec", "message"),
    [
        (-1, "humanize_time_delta got sec=-1: expected a finite number of at least 0"),
        (float("nan"), "humanize_time_delta got sec=nan: expected a number"),
        (float("inf"), "humanize_time_delta got sec=inf: expected a finite number of at least 0"),
    ],
)
def test_what_is_no_duration_raises(sec, message):
    with pytest.raises(ConfigError, match=message):
        humanize_time_delta(sec)
