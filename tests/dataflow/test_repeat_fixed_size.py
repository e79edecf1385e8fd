"""Passes of a given length."""

import pytest

from tests.helpers.flows import Broken, Counting
from tpack.dataflow.repeat import FixedSizeData
from tpack.errors import ConfigError, DataExhaustedError, InputError


def first_components(ds):
    return [point[0] for point in ds]


def test_pass_goes_on_where_the_last_stopped():
    ds = FixedSizeData(Counting(5), 3)
    assert [first_components(ds) for _ in range(4)] == [[0, 1, 2], [3, 4, 0], [1, 2, 3], [4, 0, 1]]
    assert len(ds) == 3


def test_pass_begins_anew_without_state():
    ds = FixedSizeData(Counting(5), 3, keep_state=False)
    assert [first_components(ds) for _ in range(2)] == [[0, 1, 2]] * 2


def test_flow_shorter_than_a_pass_is_repeated():
    inner = Counting(2)
    assert first_components(FixedSizeData(inner, 5)) == [0, 1, 0, 1, 0]
    assert inner.num_passes == 3


def test_flow_is_not_begun_before_it_is_needed():
    inner = Counting(3)
    ds = FixedSizeData(inner, 3)
    assert first_components(ds) == [0, 1, 2]
    assert inner.num_passes == 1


def test_reset_begins_anew():
    ds = FixedSizeData(Counting(5), 3)
    first_components(ds)
    ds.reset_state()
    assert first_components(ds) == [0, 1, 2]


def test_broken_off_pass_goes_on_at_the_next_point():
    ds = FixedSizeData(Counting(5), 3)
    for _ in ds:
        break
    assert first_components(ds) == [1, 2, 3]


def test_flow_that_raised_is_begun_anew():
    ds = FixedSizeData(Broken(good_points=1), 3)
    with pytest.raises(OSError, match="the disk is gone"):
        list(ds)
    assert first_components(ds) == [0, 1, 2]


def test_two_passes_at_a_time_are_refused():
    ds = FixedSizeData(Counting(5), 3)
    points = iter(ds)
    next(points)
    with pytest.raises(InputError, match="FixedSizeData is being iterated already"):
        list(ds)
    points.close()
    assert first_components(ds) == [1, 2, 3]


def test_empty_flow_raises():
    with pytest.raises(DataExhaustedError, match="Counting yielded nothing: FixedSizeData wanted 3 points"):
        list(FixedSizeData(Counting(0), 3))


def test_bad_size_is_refused():
    with pytest.raises(ConfigError, match="FixedSizeData got size=0"):
        FixedSizeData(Counting(), 0)
