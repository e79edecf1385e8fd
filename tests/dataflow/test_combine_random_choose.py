"""Data points from a flow that is drawn for each."""

from itertools import islice

import numpy as np
import pytest

from tests.helpers.flows import Counting
from tpack.dataflow.combine import RandomChooseData
from tpack.dataflow.repeat import RepeatedData
from tpack.dataflow.sources import DataFromList
from tpack.errors import ConfigError


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
    with pytest.raises(ConfigError, match="got the probabilities .*: wanted such that sum up to 1"):
        RandomChooseData([(Counting(), probability) for probability in probabilities])


def test_probability_that_is_no_number_is_refused():
    with pytest.raises(ConfigError, match="got a probability that is no number: could not convert string"):
        RandomChooseData([(Counting(), "half"), (Counting(), 0.5)])


def test_probabilities_for_some_flows_alone_are_refused():
    with pytest.raises(ConfigError, match="got flows with and without a probability"):
        RandomChooseData([(Counting(), 1.0), Counting()])
