"""What a moving average makes of values that are not finite."""

from typing import Any

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tpack.tfutils.summary import MOVING_SUMMARY_OPS_KEY, add_moving_summary

LARGEST = float(np.finfo(np.float32).max)


def averages_of(session: Any, values: Any, decay: float = 0.95) -> list[float]:
    """Return the average after each of the values."""
    value = tf.placeholder(tf.float32, [])
    (average,) = add_moving_summary(value, decay=decay)
    session.run(tf.local_variables_initializer())
    found = []
    for each in values:
        session.run(tf.get_collection(MOVING_SUMMARY_OPS_KEY), {value: each})
        found.append(float(session.run(average)))
    return found


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, LARGEST])
def test_a_value_that_is_not_finite_is_left_out(session8: Any, bad: float) -> None:
    values = [1.0, 2.0, bad, 4.0, 5.0]
    weights = 0.95 ** np.arange(5)[::-1]
    finite = [0, 1, 3, 4]
    expected = np.average(np.take(values, finite), weights=weights[finite])
    assert averages_of(session8, values)[-1] == pytest.approx(expected, rel=1e-6)


def test_where_most_values_are_none_the_average_is_none(session8: Any) -> None:
    found = averages_of(session8, [np.nan, 1.0, *[2.0] * 30, *[np.nan] * 30, *[3.0] * 60])
    is_nan = np.isnan(found)
    assert is_nan[0]
    assert not is_nan[2:42].any()
    # Half of the weight is that of the last 14 values.
    assert is_nan[32 + 14 : 62].all()
    assert not is_nan[-40:].any()
    assert found[-1] == pytest.approx(3.0, abs=0.01)


def test_the_first_value_may_be_large(session8: Any) -> None:
    assert averages_of(session8, [LARGEST / 100] * 200)[-1] == pytest.approx(LARGEST / 100)
