"""Checks of arguments."""

import math

import pytest

from tpack.dataflow.parallel.map_flow import check_map_func, check_timeout
from tpack.errors import ConfigError


@pytest.mark.parametrize("timeout", [None, 1, 0.5])
def test_timeout_is_none_or_a_number_of_seconds(timeout):
    assert check_timeout(object(), timeout) == timeout


@pytest.mark.parametrize("timeout", [0, -1, math.inf, math.nan, True, "3"])
def test_other_timeouts_are_refused(timeout):
    with pytest.raises(ConfigError, match="object got timeout=.*: wanted a number of seconds"):
        check_timeout(object(), timeout)


def test_function_must_be_callable():
    assert check_map_func(object(), len) is len
    with pytest.raises(ConfigError, match="object got map_func=None: wanted a function"):
        check_map_func(object(), None)
