"""Repeated flows."""

from itertools import islice

import pytest

from tests.helpers.flows import Counting
from tpack.dataflow.base import UnknownLengthError
from tpack.dataflow.repeat import RepeatedData
from tpack.dataflow.sources import DataFromIterable
from tpack.errors import ConfigError, DataExhaustedError


def test_flow_is_repeated_num_times():
    ds = RepeatedData(Counting(2), 3)
    assert [point[0] for point in ds] == [0, 1] * 3
    assert len(ds) == 6


def test_flow_is_repeated_for_ever():
    ds = RepeatedData(Counting(2), -1)
    assert [point[0] for point in islice(ds, 7)] == [0, 1, 0, 1, 0, 1, 0]
    with pytest.raises(UnknownLengthError, match="goes on for ever and has no length"):
        len(ds)


@pytest.mark.parametrize("num", [1, -1])
def test_empty_flow_raises(num):
    with pytest.raises(DataExhaustedError, match="Counting yielded nothing in repetition 0"):
        list(RepeatedData(Counting(0), num))


def test_flow_that_can_be_iterated_once_raises_in_its_second_repetition():
    points = iter(RepeatedData(DataFromIterable(k for k in range(2)), -1))
    assert [next(points), next(points)] == [0, 1]
    with pytest.raises(DataExhaustedError, match="an earlier pass has used it up"):
        next(points)


@pytest.mark.parametrize("num", [0, -2, 1.5])
def test_bad_number_is_refused(num):
    with pytest.raises(ConfigError, match="RepeatedData got num=.*: wanted an integer of at least 1"):
        RepeatedData(Counting(), num)
