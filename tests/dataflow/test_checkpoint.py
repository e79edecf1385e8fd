"""Positions told by a state and a number of points."""

from itertools import count

import pytest

from tests.helpers.flows import Counting
from tpack.dataflow import checkpoint as position_module
from tpack.dataflow.base import ProxyDataFlow
from tpack.dataflow.checkpoint import PassTracker, Position, StateLog, StateSampler, go_to
from tpack.dataflow.iterator_state import StatelessError
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
    assert values(go_to(ds, Position(state, 4))) == [4, 5, 6, 7, 8, 9]
    assert values(ds) == list(range(10))


def test_pass_that_is_over_is_followed_by_the_next(ds):
    state = ds.state_dict()
    assert values(go_to(ds, Position(state, 4, is_over=True))) == list(range(10))


def test_flow_that_became_shorter_is_an_error(ds):
    with pytest.raises(InputError, match="position after 11 data points and has only 10"):
        go_to(ds, Position(ds.state_dict(), 11))


def test_state_is_taken_as_often_as_a_hundredth_of_the_time_allows(ds, monkeypatch):
    clock = count()
    monkeypatch.setattr(position_module.time, "monotonic", lambda: next(clock))
    sampler = StateSampler(ds)
    assert sampler.take() == Position(ds.state_dict())
    points = 0
    while not sampler.is_due():
        points += 1
    # Taking took one second, and each look at the clock takes another: at one of sixteen questions.
    assert points == 16 * 100 - 1


def test_state_is_not_taken_for_a_few_points(ds, monkeypatch):
    monkeypatch.setattr(position_module.time, "monotonic", lambda: 5.0)
    sampler = StateSampler(ds)
    sampler.take()
    assert [sampler.is_due() for _ in range(16)] == [False] * 15 + [True]


def test_flow_without_a_state_is_asked_once():
    sampler = StateSampler(Counting())
    assert sampler.take() is None
    assert "Counting" in sampler.reason
    assert not any(sampler.is_due() for _ in range(100))


def test_sampler_counts_what_else_took_time(ds, monkeypatch):
    now = [0.0]
    monkeypatch.setattr(position_module.time, "monotonic", lambda: now[0])
    sampler = StateSampler(ds, every=1)
    sampler.take()
    assert sampler.is_due()
    now[0] = 1.0
    sampler.rest(0.0)
    now[0] = 100.0
    assert not sampler.is_due()
    now[0] = 101.0
    assert sampler.is_due()


def test_position_becomes_the_state_of_a_flow_and_back(ds):
    owner = ProxyDataFlow(ds)
    position = Position({"index": [1]}, 3, is_over=True)
    state = position.state_of(owner)
    assert Position.from_state(owner, state) == position
    state["ds"]["index"].append(2)
    assert position.state == {"index": [1]}
    with pytest.raises(InputError, match="skipped=-1: expected an integer"):
        Position.from_state(owner, {**state, "skipped": -1})
    with pytest.raises(InputError, match="got the state of a ProxyDataFlow"):
        Position.from_state(ds, state)


def test_log_tells_a_position_by_a_state_before_the_last_point():
    log = StateLog()
    assert log.after(0) is None
    log.begin(Position({"at": 0}, 2))
    for num_read in (3, 6):
        log.add(num_read, Position({"at": num_read}), num_used=0)
    found = [log.after(num_used) for num_used in range(8)]
    start = [Position({"at": 0}, 2 + k) for k in range(4)]
    later = [Position({"at": 3}, k) for k in (1, 2, 3)]
    assert found == [*start, *later, Position({"at": 6}, 1)]


def test_log_forgets_what_was_used():
    log = StateLog()
    log.begin(Position({"at": 0}))
    log.add(3, Position({"at": 3}), num_used=3)
    assert log.after(3) == Position({"at": 0}, 3)
    log.add(6, Position({"at": 6}), num_used=4)
    assert log.after(3) is None
    assert log.after(4) == Position({"at": 3}, 1)
    log.begin(None)
    assert log.after(7) is None


def tracker_at(skipped=0):
    passes = PassTracker("the flow")
    passes.stand_at(Position({"at": 0}, skipped))
    return passes


def test_flow_stands_right_after_a_pass_that_ended():
    passes = tracker_at()
    passes.end_broken_pass()
    passes.begin()
    passes.num_taken += 5
    passes.end()
    passes.end_broken_pass()
    assert not passes.is_astray
    assert passes.position == Position({"at": 0}, 5)


def test_pass_that_was_broken_off_is_over_when_the_next_begins():
    passes = tracker_at()
    passes.begin()
    passes.num_taken += 2
    assert passes.position == Position({"at": 0}, 2)
    passes.end_broken_pass()
    assert (passes.position, passes.is_astray) == (Position({"at": 0}, 2, is_over=True), True)
    passes.stand_at(Position({"at": 9}))
    assert passes.position == Position({"at": 9})


def test_pass_of_which_nothing_was_taken_is_not_over():
    passes = tracker_at()
    passes.begin()
    passes.end_broken_pass()
    assert (passes.position, passes.is_astray) == (Position({"at": 0}), True)


@pytest.mark.parametrize("is_there", [True, False])
def test_next_pass_begins_at_the_position_it_was_sent_to(is_there):
    passes = tracker_at()
    passes.begin()
    passes.num_taken += 2
    passes.go_to(Position({"at": 7}, 1), is_there=is_there)
    passes.end_broken_pass()
    assert (passes.position, passes.is_astray) == (Position({"at": 7}, 1), not is_there)


def test_later_state_of_the_flow_is_used_when_it_is_reached():
    passes = tracker_at()
    passes.begin()
    passes.add(4, Position({"at": 4}))
    passes.num_taken = 4
    assert passes.known_position() == Position({"at": 0}, 4)
    passes.num_taken = 5
    assert passes.known_position() == Position({"at": 4}, 1)


def test_flow_that_cannot_tell_is_named_with_its_reason():
    passes = PassTracker("the flow")
    passes.stand_at(None, "it is endless")
    passes.begin()
    passes.num_taken += 1
    passes.end_broken_pass()
    assert passes.position is None
    with pytest.raises(StatelessError, match="the flow has no position: it is endless"):
        passes.known_position()
