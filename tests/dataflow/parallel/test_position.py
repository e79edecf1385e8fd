"""Positions told by a state and a number of points."""

from itertools import count

import pytest

from tests.helpers.flows import Counting
from tpack.dataflow.parallel import position as position_module
from tpack.dataflow.parallel.position import Position, StateTaker, go_to
from tpack.dataflow.sources import DataFromList
from tpack.errors import InputError


@pytest.fixture
def ds():
    flow = DataFromList([[k] for k in range(10)], shuffle=False)
    flow.reset_state()
    return flow


def values(points):
    return [k for (k,) in points]


def test_points_that_were_taken_are_skipped(ds):
    state = ds.state_dict()
    assert values(go_to(ds, ds, Position(state, 4))) == [4, 5, 6, 7, 8, 9]
    assert values(ds) == list(range(10))


def test_pass_that_is_over_is_followed_by_the_next(ds):
    state = ds.state_dict()
    assert values(go_to(ds, ds, Position(state, 4, is_over=True))) == list(range(10))


def test_flow_that_became_shorter_is_an_error(ds):
    with pytest.raises(InputError, match="go on after 11 data points and has only 10"):
        go_to(ds, ds, Position(ds.state_dict(), 11))


def test_state_is_taken_as_often_as_a_hundredth_of_the_time_allows(ds, monkeypatch):
    clock = count()
    monkeypatch.setattr(position_module.time, "monotonic", lambda: next(clock))
    taker = StateTaker(ds)
    assert taker.take() == ds.state_dict()
    points = 0
    while not taker.is_due():
        points += 1
    # Taking took one second, and each look at the clock takes another: at one of sixteen questions.
    assert points == 16 * 100 - 1


def test_state_is_not_taken_for_a_few_points(ds, monkeypatch):
    monkeypatch.setattr(position_module.time, "monotonic", lambda: 5.0)
    taker = StateTaker(ds)
    taker.take()
    assert [taker.is_due() for _ in range(16)] == [False] * 15 + [True]


def test_flow_without_a_state_is_asked_once():
    taker = StateTaker(Counting())
    assert taker.take() is None
    assert "Counting" in taker.reason
    assert not any(taker.is_due() for _ in range(100))
