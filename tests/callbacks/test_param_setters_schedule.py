import math

import numpy as np
import pytest

from tests.helpers.log_lines import captured_log
from tpack.callbacks.param_setters import _Points
from tpack.errors import ConfigError


def test_steps_hold_until_the_next_point():
    schedule = _Points([(30, 0.01), (10, 0.1)])
    assert [schedule.value_at(k) for k in (0, 9, 10, 11, 29, 30, 1000)] == [None, None, 0.1, 0.1, 0.1, 0.01, 0.01]
    assert [schedule.change_at(k) for k in (9, 10, 11, 30, 31)] == [None, 0.1, None, 0.01, None]


def test_lines_are_numpys_between_the_points(rng):
    points = sorted(rng.choice(200, 8, replace=False).tolist())
    values = rng.normal(size=8).tolist()
    schedule = _Points(zip(points, values, strict=True), "linear")
    inside = range(points[0], points[-1] + 1)
    np.testing.assert_allclose([schedule.value_at(k) for k in inside], np.interp(inside, points, values), rtol=1e-12)
    assert [schedule.change_at(k) for k in inside] == [schedule.value_at(k) for k in inside]
    assert schedule.value_at(points[0] - 1) is None
    assert schedule.value_at(points[-1] + 5) == values[-1]
    assert schedule.change_at(points[0] - 1) is schedule.change_at(points[-1] + 1) is None


@pytest.mark.parametrize(
    ("points", "interp", "message"),
    [
        ([], None, "at least one"),
        ([(1, 0.1), (1, 0.2)], None, "expected one value at each point"),
        ([("1.5", 0.1)], None, r"got \('1.5', 0.1\): expected .* pairs"),
        ([(True, 0.1)], None, r"got \(True, 0.1\): expected .* pairs"),
        ([(math.nan, 0.1)], None, r"got \(nan, 0.1\): expected .* pairs"),
        ([(math.inf, 0.1)], None, r"got \(inf, 0.1\): expected .* pairs"),
        ([(1, math.nan)], None, r"got \(1, nan\): expected .* pairs"),
        ([(2, 0.1), (2.5, 0.2)], None, "expected one value at each point"),
        ("abc", None, "got 'abc': expected .* pairs"),
        (None, None, "got None: expected .* pairs"),
        ([(1, "fast")], None, r"got \(1, 'fast'\): expected .* pairs"),
        ([3], None, "got 3: expected .* pairs"),
        ([(1, 0.1)], "cubic", "interp='cubic': expected one of None, 'linear'"),
    ],
)
def test_what_is_no_schedule_is_an_error(points, interp, message):
    with pytest.raises(ConfigError, match=message):
        _Points(points, interp)


def test_points_are_taken_as_tensorpack_took_them():
    with captured_log() as lines:
        schedule = _Points([("25", 1e-5), (2.5, 0.1), (4.0, "0.2")])
    assert [schedule.change_at(point) for point in (2, 3, 4, 25)] == [0.1, None, 0.2, 1e-5]
    assert lines == ["The point 2.5 of a schedule is taken to be 2."]
