"""Flows evenly mixed."""

import numpy as np
import pytest

from tests.helpers.flows import Counting
from tpack.dataflow.combine import RandomMixData
from tpack.dataflow.mapping import MapData
from tpack.dataflow.sources import DataFromList
from tpack.errors import DataExhaustedError


def flow(name, count):
    return DataFromList([[name, k] for k in range(count)], shuffle=False)


def test_all_points_come_once_and_in_their_order():
    ds = RandomMixData([flow("a", 30), flow("b", 60), flow("c", 0)])
    ds.reset_state()
    for _ in range(2):
        points = list(ds)
        for name, count in (("a", 30), ("b", 60)):
            assert [k for key, k in points if key == name] == list(range(count))
    assert len(ds) == len(points) == 90


def test_every_order_is_as_likely_as_any_other():
    ds = RandomMixData([flow(0, 1), flow(1, 2)])
    ds.reset_state()
    ds.rng = np.random.RandomState(0)
    places = [[point[0] for point in ds].index(0) for _ in range(3000)]
    np.testing.assert_allclose(np.bincount(places) / 3000, [1 / 3] * 3, atol=0.04)


def test_flow_that_ends_before_its_length_is_named():
    ds = RandomMixData([Counting(3), MapData(Counting(3), lambda point: None if point[0] == 1 else point)])
    ds.reset_state()
    with pytest.raises(DataExhaustedError, match="the MapData at place 1 ended before the 3 data points"):
        list(ds)
