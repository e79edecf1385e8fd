"""Checks of arguments."""

import numpy as np
import pytest

from tpack.dataflow.base import check_at_least
from tpack.errors import ConfigError


@pytest.mark.parametrize("value", [1, 5, np.int32(5)])
def test_positive_integer_is_returned(value):
    found = check_at_least([], "size", value)
    assert found == value
    assert type(found) is int


def test_minimum_may_be_another():
    assert check_at_least([], "warmup", 0, 0) == 0
    with pytest.raises(ConfigError, match="list got warmup=-1: wanted an integer of at least 0"):
        check_at_least([], "warmup", -1, 0)


@pytest.mark.parametrize("value", [0, -1, 1.0, True, None, "3"])
def test_the_rest_is_refused(value):
    with pytest.raises(ConfigError, match="list got size=.*: wanted an integer of at least 1"):
        check_at_least([], "size", value)
