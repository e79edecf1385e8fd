"""Data points kept in memory."""

from itertools import islice

import pytest

from tests.helpers.flows import Counting
from tpack.dataflow.cache import CacheData
from tpack.dataflow.iterator_state import StatelessError
from tpack.dataflow.sources import DataFromIterable, DataFromList
from tpack.errors import InputError


def ready(ds):
    ds.reset_state()
    return ds


def test_flow_is_gone_through_once_and_its_points_are_kept():
    inner = Counting()
    ds = ready(CacheData(inner))
    first, second = list(ds), list(ds)
    assert inner.num_passes == 1
    assert all(one is other for one, other in zip(first, second, strict=True))


def test_pass_that_was_broken_off_keeps_nothing():
    inner = Counting()
    ds = ready(CacheData(inner))
    list(islice(ds, 3))
    assert [len(list(ds)) for _ in range(2)] == [7, 7]
    assert inner.num_passes == 2


def test_later_passes_are_shuffled_on_request():
    ds = ready(CacheData(Counting(50), shuffle=True))
    passes = [[point[0] for point in ds] for _ in range(3)]
    assert passes[0] == list(range(50))
    assert passes[1] != passes[2]
    assert sorted(passes[1]) == sorted(passes[2]) == passes[0]


def test_reset_forgets_the_points():
    inner = Counting()
    ds = ready(CacheData(inner))
    list(ds)
    list(ready(ds))
    assert inner.num_passes == 2


def test_flow_without_a_position_can_be_kept_but_not_gone_on_with():
    ds = ready(CacheData(Counting()))
    with pytest.raises(StatelessError, match="Counting cannot tell its position"):
        ds.state_dict()
    list(ds)
    with pytest.raises(StatelessError, match="CacheData has no position, since the Counting in it has"):
        ds.state_dict()


def test_data_that_became_less_is_noticed():
    ds = ready(CacheData(DataFromIterable([[1], [2], [3]])))
    points = iter(ds)
    for _ in range(3):
        next(points)
    state = ds.state_dict()
    other = ready(CacheData(DataFromIterable([[1]])))
    other.load_state_dict(state)
    with pytest.raises(
        InputError,
        match=r"CacheData got a position after 3 data points, and its DataFromIterable ended after 1: the data has",
    ):
        list(other)


def test_state_of_another_order_is_refused():
    state = ready(CacheData(DataFromList([[1]], shuffle=False))).state_dict()
    with pytest.raises(InputError, match="CacheData got the state of one with shuffle=False"):
        ready(CacheData(DataFromList([[1]], shuffle=False), shuffle=True)).load_state_dict(state)
