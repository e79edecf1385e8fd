"""What the position of every flow must be: an interrupted and an uninterrupted run see the same sequence.

A flow is run for some passes. Another one, made and seeded alike, is interrupted after some data points, its state goes
through bytes into a third one of other random numbers, and what that one yields must be the rest of the first run.
"""

import pickle
from itertools import islice

import numpy as np
import pytest

from tests.helpers.flow_members import CHAINS, SOURCES, shuffled, wrapped
from tpack.errors import InputError
from tpack.utils import serialize
from tpack.utils.rng import fix_rng_seed

FLOWS = {**SOURCES, **wrapped(shuffled), **CHAINS}
NUM_PASSES = 4

every_flow = pytest.mark.parametrize("member", FLOWS.values(), ids=FLOWS)


@pytest.fixture(autouse=True)
def no_seed():
    """Leave no fixed seed behind."""
    yield
    fix_rng_seed(None)


def ready(member, seed=7):
    fix_rng_seed(seed)
    ds = member.make()
    ds.reset_state()
    return ds


def plain(points):
    """Return data points as something that can be compared with ==."""
    return [[np.asarray(part).tolist() for part in point] for point in points]


def passes(ds, count):
    return [plain(ds) for _ in range(count)]


def stops(run):
    """Yield the places to stop at: a pass, how many points of it, and whether its end is waited for."""
    for number, points in enumerate(run[:-1]):
        for count in sorted({0, 1, len(points) // 2, len(points) - 1, len(points)}):
            yield number, count, False
        yield number, len(points), True


def stop_at(ds, number, count, is_at_end):
    """Take data points; return the iterator, which must be kept, and the state."""
    for _ in range(number):
        list(ds)
    if count == 0 and not is_at_end:
        return None, ds.state_dict()
    points = iter(ds)
    list(islice(points, count))
    if is_at_end:
        assert list(points) == []
    return points, ds.state_dict()


def resumed(member, state):
    ds = ready(member, seed=8)
    ds.load_state_dict(serialize.loads(serialize.dumps(state)))
    return ds


def rest_of(run, number, count, is_at_end):
    if is_at_end:
        return run[number + 1 :]
    return [run[number][count:], *run[number + 1 :]]


@every_flow
def test_interrupted_run_goes_on_with_the_very_next_point(member):
    run = passes(ready(member), NUM_PASSES)
    for stop in stops(run):
        _, state = stop_at(ready(member), *stop)
        wanted = rest_of(run, *stop)
        assert passes(resumed(member, state), len(wanted)) == wanted, stop


@every_flow
def test_state_is_the_same_after_it_was_loaded(member):
    run = passes(ready(member), NUM_PASSES)
    for stop in stops(run):
        _, state = stop_at(ready(member), *stop)
        assert serialize.dumps(resumed(member, state).state_dict()) == serialize.dumps(state), stop


@every_flow
def test_run_can_be_interrupted_at_every_point_again(member):
    run = passes(ready(member), NUM_PASSES)
    state = ready(member).state_dict()
    for points in run:
        for wanted in points:
            ds = resumed(member, state)
            found = plain(islice(ds, 1))
            assert found == [wanted]
            state = ds.state_dict()
        ds = resumed(member, state)
        assert list(ds) == []
        state = ds.state_dict()


@every_flow
def test_pass_that_was_broken_off_can_be_gone_on_with(member):
    run = passes(ready(member), 2)
    ds = ready(member)
    points = iter(ds)
    next(points)
    points.close()
    assert passes(resumed(member, ds.state_dict()), 1) == [run[0][1:]]


@every_flow
def test_telling_the_position_changes_nothing_and_nothing_changes_a_state(member):
    run = passes(ready(member), 2)
    ds = ready(member)
    found, states, frozen = [], [], []
    for _ in range(2):
        for point in ds:
            found.append(point)
            states.append(ds.state_dict())
            frozen.append(pickle.dumps(states[-1]))
    assert plain(found) == [*run[0], *run[1]]
    list(ds)
    assert [pickle.dumps(state) for state in states] == frozen


@every_flow
def test_run_goes_on_as_after_a_pass_that_was_broken_off(member):
    """Breaking off, then beginning anew, does the same before and after an interruption."""
    for count in (1, 2):
        ds = ready(member)
        points = iter(ds)
        list(islice(points, count))
        state = ds.state_dict()
        points.close()
        ds.end_pass()
        given_up = ds.state_dict()
        wanted = passes(ds, 2)
        assert passes(resumed(member, given_up), 2) == wanted
        later = resumed(member, state)
        later.end_pass()
        assert passes(later, 2) == wanted


@every_flow
def test_giving_up_a_pass_changes_nothing_for_those_to_come(member):
    runs = []
    for gives_up in (True, False):
        ds = ready(member)
        points = iter(ds)
        list(islice(points, 2))
        points.close()
        if gives_up:
            ds.end_pass()
        runs.append(passes(ds, 2))
    assert runs[0] == runs[1]


@pytest.mark.parametrize("name", [name for name in FLOWS if name != "speed"])
def test_reset_forgets_the_position(name):
    member = FLOWS[name]
    ds = ready(member)
    next(iter(ds))
    fix_rng_seed(7)
    ds.reset_state()
    assert passes(ds, 2) == passes(ready(member), 2)


@every_flow
@pytest.mark.parametrize("state", [None, {}, {"flow": "Other"}, {"flow": "Other", "ds": 1}])
def test_what_is_no_state_is_refused_and_nothing_changes(member, state):
    ds = ready(member)
    with pytest.raises(InputError):
        ds.load_state_dict(state)
    assert passes(ds, 1) == passes(ready(member), 1)


@every_flow
def test_state_with_a_damaged_part_is_refused_and_nothing_changes(member):
    points, state = stop_at(ready(member), 0, 1, False)
    for name in sorted(set(state) - {"flow"}):
        ds = ready(member)
        with pytest.raises(InputError):
            ds.load_state_dict({**state, name: b"damaged"})
        assert passes(ds, 1) == passes(ready(member), 1), name
    points.close()
