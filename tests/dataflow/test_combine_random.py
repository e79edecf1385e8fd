"""Flows mixed at random: drawn point by point, or evenly."""

from itertools import islice

import numpy as np
import pytest

from tests.helpers.flows import Counting
from tpack.dataflow.combine import RandomChooseData, RandomMixData
from tpack.dataflow.mapping import MapData
from tpack.dataflow.repeat import RepeatedData
from tpack.dataflow.sources import DataFromList
from tpack.errors import ConfigError, DataExhaustedError, WrongTypeError


def endless(value):
    return RepeatedData(DataFromList([[value]], shuffle=False), -1)


def draw(ds, count):
    ds.reset_state()
    ds.rng = np.random.RandomState(0)
    return [point[0] for point in islice(ds, count)]


def test_flows_are_equally_likely_unless_probabilities_are_given():
    counts = np.bincount(draw(RandomChooseData([endless(k) for k in range(3)]), 3000))
    np.testing.assert_allclose(counts / 3000, [1 / 3] * 3, atol=0.04)
    counts = np.bincount(draw(RandomChooseData([(endless(0), 0.1), (endless(1), 0), (endless(2), 0.9)]), 3000))
    assert counts[1] == 0
    np.testing.assert_allclose(counts / 3000, [0.1, 0, 0.9], atol=0.03)


def test_pass_ends_when_the_drawn_flow_has_ended():
    ds = RandomChooseData([endless(0), DataFromList([[1], [1]], shuffle=False)])
    assert draw(ds, 1000).count(1) == 2
    with pytest.raises(NotImplementedError, match="RandomChooseData does not know its length"):
        len(ds)


@pytest.mark.parametrize("probabilities", [[0.5, 0.6], [1.5, -0.5], [0, 0], [np.nan, 0.5]])
def test_bad_probabilities_are_refused(probabilities):
    with pytest.raises(ConfigError, match="got (df_lists|probabilities).*: expected"):
        RandomChooseData([(Counting(), probability) for probability in probabilities])


def test_probability_that_is_no_number_is_refused():
    with pytest.raises(WrongTypeError, match=r"^RandomChooseData got df_lists\[0\]="):
        RandomChooseData([(Counting(), "half"), (Counting(), 0.5)])


def test_probabilities_for_some_flows_alone_are_refused():
    with pytest.raises(WrongTypeError, match=r"^RandomChooseData got df_lists\[0\]="):
        RandomChooseData([(Counting(), 1.0), Counting()])


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
    with pytest.raises(DataExhaustedError, match="a MapData with fewer data points"):
        list(ds)
