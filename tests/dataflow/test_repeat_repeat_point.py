"""Data points several times in a row."""

import pytest

from tests.helpers.flows import Counting
from tpack.dataflow.repeat import RepeatedDataPoint
from tpack.dataflow.sources import DataFromList
from tpack.dataflow.state import StatelessError, freeze_points
from tpack.errors import ConfigError, InputError


def test_each_point_is_repeated():
    ds = RepeatedDataPoint(Counting(2), 3)
    assert [point[0] for point in ds] == [0, 0, 0, 1, 1, 1]
    assert len(ds) == 6


@pytest.mark.parametrize("num", [0, -1, 1.5])
def test_bad_number_is_refused(num):
    with pytest.raises(ConfigError, match="RepeatedDataPoint got num=.*: wanted an integer of at least 1"):
        RepeatedDataPoint(Counting(), num)


def test_point_that_cannot_be_kept_matters_only_while_it_is_repeated():
    ds = RepeatedDataPoint(DataFromList([[object()]], shuffle=False), 2)
    points = iter(ds)
    next(points)
    with pytest.raises(StatelessError, match="RepeatedDataPoint cannot tell its position"):
        ds.state_dict()
    next(points)
    assert ds.state_dict()["done"] == 2


def test_state_with_several_points_is_refused():
    ds = RepeatedDataPoint(DataFromList([[1]], shuffle=False), 2)
    state = {**ds.state_dict(), "points": freeze_points(ds, [[1], [2]])}
    with pytest.raises(InputError, match="the state of a RepeatedDataPoint holds 2 data points: wanted one at most"):
        ds.load_state_dict(state)
