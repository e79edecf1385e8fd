"""Numbers of steps are whole and positive, or there is none."""

import numpy as np
import pytest

from tpack.errors import ConfigError
from tpack.estimator.run_config import number_of_steps


@pytest.mark.parametrize("value", [3, 3.0, np.int64(3), np.float32(3)])
def test_whole_numbers_become_integers(value):
    number = number_of_steps("steps", value)
    assert (number, type(number)) == (3, int)


def test_none_is_no_number():
    assert number_of_steps("steps", None) is None


@pytest.mark.parametrize("value", [0, -1, 62.5, float("nan"), float("inf"), "3", [3], True])
def test_anything_else_is_refused(value):
    with pytest.raises(ConfigError, match="max_steps must be positive, and a whole number, got"):
        number_of_steps("max_steps", value)
