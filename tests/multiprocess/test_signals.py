"""Signals to trainings at certain moments; `python -m tests.trials.signals` sends them at random ones."""

import signal

import pytest

from tests.helpers.signalling import Plan, try_plan

TERM, INT = signal.SIGTERM, signal.SIGINT


@pytest.mark.parametrize(
    "plan",
    [
        Plan("towers", "step", False, 5, 0.0, (TERM,)),
        Plan("queue", "data", True, 1, 0.1, (TERM,), faster=4.0),
        Plan("queue", "callback", True, 1, 0.1, (INT,), faster=4.0),
        Plan("queue", "py_func", True, 1, 0.1, (TERM, INT)),
    ],
    ids=["step", "data", "callback", "two signals"],
)
def test_a_signal_ends_training_in_time_and_loses_nothing(tmp_path, plan):
    # How long it takes is measured by the trial, on a quiet machine.
    outcome = try_plan(plan, tmp_path / "run", slowness_secs=300.0)
    assert outcome.came
    assert outcome.faults == ()
