"""Flows and data points repeated, and passes of a fixed length."""

from itertools import islice

import pytest

from tests.helpers.flows import Broken, Counting
from tpack.dataflow.base import UnknownLengthError
from tpack.dataflow.iterator_state import StatelessError, freeze_points
from tpack.dataflow.repeat import FixedSizeData, RepeatedData, RepeatedDataPoint
from tpack.dataflow.sources import DataFromIterable, DataFromList
from tpack.errors import ConfigError, DataExhaustedError, InputError


def test_flow_is_repeated_num_times():
    ds = RepeatedData(Counting(2), 3)
    assert [point[0] for point in ds] == [0, 1] * 3
    assert len(ds) == 6


def test_flow_is_repeated_for_ever():
    ds = RepeatedData(Counting(2), -1)
    assert [point[0] for point in islice(ds, 7)] == [0, 1, 0, 1, 0, 1, 0]
    with pytest.raises(UnknownLengthError, match="never ends and has no length"):
        len(ds)


@pytest.mark.parametrize("num", [1, -1])
def test_empty_flow_raises(num):
    with pytest.raises(DataExhaustedError, match="Counting yielded nothing in repetition 0"):
        list(RepeatedData(Counting(0), num))


def test_flow_that_can_be_iterated_once_raises_in_its_second_repetition():
    points = iter(RepeatedData(DataFromIterable(k for k in range(2)), -1))
    assert [next(points), next(points)] == [0, 1]
    with pytest.raises(DataExhaustedError, match="an earlier pass has used up"):
        next(points)


@pytest.mark.parametrize("num", [0, -2, 1.5])
def test_bad_number_is_refused(num):
    with pytest.raises(ConfigError, match="RepeatedData got num=.*: expected an integer"):
        RepeatedData(Counting(), num)


def test_each_point_is_repeated():
    ds = RepeatedDataPoint(Counting(2), 3)
    assert [point[0] for point in ds] == [0, 0, 0, 1, 1, 1]
    assert len(ds) == 6


@pytest.mark.parametrize("num", [0, -1, 1.5])
def test_bad_number_of_points_is_refused(num):
    with pytest.raises(ConfigError, match="RepeatedDataPoint got num=.*: expected an integer"):
        RepeatedDataPoint(Counting(), num)


def test_point_that_cannot_be_kept_matters_only_while_it_is_repeated():
    ds = RepeatedDataPoint(DataFromList([[object()]], shuffle=False), 2)
    points = iter(ds)
    next(points)
    with pytest.raises(StatelessError, match="RepeatedDataPoint cannot save its position"):
        ds.state_dict()
    next(points)
    assert ds.state_dict()["done"] == 2


def test_state_with_several_points_is_refused():
    ds = RepeatedDataPoint(DataFromList([[1]], shuffle=False), 2)
    state = {**ds.state_dict(), "points": freeze_points(ds, [[1], [2]])}
    with pytest.raises(InputError, match="RepeatedDataPoint got a state with 2 data points: expected at most"):
        ds.load_state_dict(state)


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


def test_empty_flow_cannot_fill_a_pass():
    with pytest.raises(DataExhaustedError, match="Counting yielded nothing: FixedSizeData needs 3 points"):
        list(FixedSizeData(Counting(0), 3))


def test_bad_size_is_refused():
    with pytest.raises(ConfigError, match="FixedSizeData got size=0"):
        FixedSizeData(Counting(), 0)
