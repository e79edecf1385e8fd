"""Schedules as values, against numpy and by hand."""

import math
import sys

import numpy as np
import pytest

from tpack.errors import ConfigError, WrongTypeError
from tpack.schedules import Chain, Constant, Cosine, Linear, OneCycle, Polynomial, Step, WarmUp, parse_schedule


def values(schedule, *points):
    return [pytest.approx(schedule.value_at(point), rel=1e-12, abs=1e-15) for point in points]


@pytest.mark.parametrize(
    ("schedule", "wanted"),
    [
        (Constant(0.1), {0: 0.1, 7: 0.1}),
        (Linear(1, 0, 4), {0: 1, 1: 0.75, 2.5: 0.375, 4: 0, 9: 0}),
        (Polynomial(1, 0.2, 4, 2), {0: 1, 1: 0.2 + 0.8 * 0.75**2, 4: 0.2, 5: 0.2}),
        (Cosine(2, 0, 4), {0: 2, 1: 1 + math.sqrt(0.5), 2: 1, 3: 1 - math.sqrt(0.5), 4: 0, 5: 0}),
        (Step(0.1, {60: 0.001, 30: 0.01}), {0: 0.1, 29: 0.1, 30: 0.01, 59: 0.01, 60: 0.001, 99: 0.001}),
        (WarmUp(Linear(1, 0, 2), 4), {0: 0, 1: 0.25, 3: 0.75, 4: 1, 5: 0.5, 6: 0, 8: 0}),
        (WarmUp(Constant(1), 2, start=0.5), {0: 0.5, 1: 0.75, 2: 1, 3: 1}),
        (OneCycle(1, 10, 0.5), {0: 0.04, 2.5: 0.52, 5: 1, 7.5: (1 + 4e-6) / 2, 10: 4e-6, 11: 4e-6}),
        (Constant(3, 2).then(Linear(1, 0, 2)), {0: 3, 1: 3, 2: 1, 3: 0.5, 4: 0}),
        (Linear(1, 0, 2).scaled(8), {0: 8, 1: 4, 2: 0}),
        (Cosine(1, 0, 3).then(Cosine(1, 0, 3)), {3: 1, 4.5: 0.5, 6: 0}),
    ],
    ids=str,
)
def test_values(schedule, wanted):
    assert values(schedule, *wanted) == list(wanted.values())
    assert values(schedule, -1) == [wanted[0]] if 0 in wanted else True


def test_what_is_to_be_set_is_what_has_changed():
    schedule = Constant(1, 2).then(Linear(1, 0, 2))
    assert [schedule.change_at(k) for k in range(7)] == [1, None, None, 0.5, 0, None, None]
    assert [schedule.steps_left_at(k) for k in (0, 3, 4)] == [1, 1, sys.maxsize]
    steps = Step(1, {3: 2, 5.5: 3})
    assert [steps.steps_left_at(k) for k in range(7)] == [3, 2, 1, 3, 2, 1, sys.maxsize]
    assert [steps.change_at(k) for k in range(7)] == [1, None, None, 2, None, None, 3]


def test_changes_make_the_whole_schedule():
    schedule = WarmUp(Cosine(0.1, 0, 20), 5).then(Step(0.01, {3: 0.001}))
    held, seen = None, []
    for point in range(40):
        held = schedule.change_at(point) if schedule.change_at(point) is not None else held
        seen.append(held)
    np.testing.assert_array_equal(seen, [schedule.value_at(point) for point in range(40)])


def test_a_schedule_is_read_as_it_is_written():
    assert parse_schedule("WarmUp(Cosine(0.1, 0, 85), 5)") == WarmUp(Cosine(0.1, 0, 85), 5)
    assert parse_schedule(" Step(-1, {30: 2}).then(Linear(1, end=0, length=2)).scaled(3) ") == (
        Step(-1, {30: 2}).then(Linear(1, 0, 2)).scaled(3)
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Cosine(0.1", "got text='Cosine\\(0.1'"),
        ("0.1", "got text='0.1': expected a schedule of Constant"),
        ("open('x')", "there is no open"),
        ("Cosine.__init__(1)", "there is no Cosine.__init__"),
        ("Cosine(1, 2)", "length"),
        ("Cosine(1, 2, -3)", "length=-3"),
        ("Linear(x, 1, 2)", "malformed node"),
    ],
)
def test_anything_else_is_not_run(text, message):
    with pytest.raises(ConfigError, match=message):
        parse_schedule(text)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Linear(math.nan, 0, 1), "start"),
        (lambda: Cosine(1, 0, 0), "length=0"),
        (lambda: Polynomial(1, 0, 3, 0), "power=0"),
        (lambda: Step(1, {}), "expected at least one"),
        (lambda: Step(1, {0: 2}), "a point of changes=0"),
        (lambda: OneCycle(1, 10, 1.0), "rise=1"),
        (lambda: WarmUp(Constant(1), 0), "length=0"),
        (lambda: Constant(1).then(Constant(2)), "expected a schedule with a length"),
    ],
)
def test_schedules_that_cannot_be_are_refused(make, message):
    with pytest.raises(ConfigError, match=message):
        make()


@pytest.mark.parametrize("make", [lambda: WarmUp(0.1, 5), lambda: Chain(Linear(0, 1, 1), 3), lambda: Linear("a", 1, 1)])
def test_other_types_are_refused(make):
    with pytest.raises(WrongTypeError):
        make()
