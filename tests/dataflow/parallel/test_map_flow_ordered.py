"""Mapping in the order of the flow, with workers that finish in random order."""

import gc
import itertools
import weakref
from itertools import islice
from types import SimpleNamespace

import pytest

from tests.helpers.fake_pool import FakePool
from tests.helpers.flows import COUNT, Broken, Counting
from tpack.dataflow import checkpoint
from tpack.dataflow.iterator_state import StatelessError
from tpack.dataflow.mapping import MapData
from tpack.dataflow.parallel.map_flow import MapPool, OrderedMap, Result
from tpack.dataflow.sources import DataFromList
from tpack.errors import InputError
from tpack.utils.rng import fix_rng_seed


@pytest.fixture(autouse=True)
def no_seed():
    """Leave no fixed seed behind."""
    yield
    fix_rng_seed(None)


def tenfold(point):
    return [point[0] * 10]


def shuffled(count=COUNT, seed=7):
    fix_rng_seed(seed)
    ds = DataFromList([[k] for k in range(count)])
    ds.reset_state()
    return ds


def ordered(ds, func=tenfold, buffer_size=4, **pool):
    return OrderedMap(ds, FakePool(func, **pool), buffer_size)


@pytest.mark.parametrize("buffer_size", [1, 4, 50])
@pytest.mark.parametrize("room", [1, 3, 1000])
def test_passes_are_those_of_map_data(buffer_size, room):
    plain = MapData(shuffled(), tenfold)
    wanted = [list(plain) for _ in range(3)]
    mapping = ordered(shuffled(), buffer_size=buffer_size, room=room)
    assert [list(mapping.iterate()) for _ in range(3)] == wanted
    assert mapping._pool.most <= buffer_size


def test_dropped_points_leave_no_gap_and_the_order_as_it_is():
    mapping = ordered(Counting(10), lambda point: point if point[0] % 3 else None)
    assert [[k for k, _ in mapping.iterate()] for _ in range(2)] == [[1, 2, 4, 5, 7, 8]] * 2


def test_passes_that_were_broken_off_leave_nothing_behind():
    mapping = ordered(Counting())
    for count in range(1, COUNT):
        points = mapping.iterate()
        assert [k for (k,) in map(tuple, islice(points, count))] == [10 * k for k in range(count)]
        points.close()
    assert [k for (k,) in mapping.iterate()] == [10 * k for k in range(COUNT)]


def test_exception_of_the_function_comes_when_it_is_its_turn():
    def fail(point):
        if point[0] == 3:
            raise OSError("gone")
        return point

    mapping = ordered(Counting(), fail)
    for _ in range(2):
        found = []
        with pytest.raises(OSError, match="gone"):
            for point in mapping.iterate():
                found.append(point[0])
        assert found == [0, 1, 2]


def test_exception_of_the_flow_comes_when_it_is_its_turn():
    mapping = ordered(Broken(3))
    found = []
    with pytest.raises(OSError, match="gone"):
        for point in mapping.iterate():
            found.append(point[0])
    assert found == [0, 10, 20]
    assert len(list(mapping.iterate())) == COUNT


@pytest.mark.parametrize("count", [0, 1, 17, 18, 40, 99, 100])
@pytest.mark.parametrize("ends", [False, True])
def test_position_is_that_of_what_was_yielded(count, ends):
    mapping = ordered(shuffled(100), buffer_size=30)
    list(mapping.iterate())
    points = mapping.iterate()
    list(islice(points, count))
    rest = list(points) if ends else []
    position = mapping.position()
    wanted = [list(points)] if not ends else []
    wanted += [list(mapping.iterate()) for _ in range(2)]
    assert len(rest) == (100 - count if ends else 0)
    other = ordered(shuffled(100, seed=8))
    other.go_to(position)
    assert other.position() == position
    assert [list(other.iterate()) for _ in wanted] == wanted


def test_far_into_a_pass_a_state_is_taken_so_that_few_points_are_skipped(monkeypatch):
    # A second for each look at the clock, so that states are as far from each other on a slow machine.
    monkeypatch.setattr(checkpoint, "time", SimpleNamespace(monotonic=itertools.count().__next__))
    mapping = ordered(shuffled(5000), buffer_size=30)
    list(islice(mapping.iterate(), 4000))
    assert mapping.position().skipped < 3000


def test_pass_that_was_given_up_is_not_gone_on_with():
    for gives_up in (False, True):
        plain, mapping = shuffled(50), ordered(shuffled(50), lambda point: point, buffer_size=20)
        for ds in (iter(plain), mapping.iterate()):
            list(islice(ds, 25))
        mapping.end_pass() if gives_up else None
        other = ordered(shuffled(50, seed=8), lambda point: point)
        if gives_up:
            other.go_to(mapping.position())
        wanted = [list(plain) for _ in range(2)]
        assert [list(mapping.iterate()) for _ in range(2)] == wanted
        assert not gives_up or [list(other.iterate()) for _ in range(2)] == wanted


def test_position_of_a_flow_without_one_is_refused():
    mapping = ordered(Counting())
    with pytest.raises(StatelessError, match="is mapped has no position: Counting cannot tell its position: it"):
        mapping.position()
    next(mapping.iterate())
    with pytest.raises(StatelessError, match="cannot tell"):
        mapping.position()


def test_wrong_state_changes_nothing():
    mapping = ordered(shuffled())
    points = mapping.iterate()
    next(points)
    position = mapping.position()
    with pytest.raises(InputError):
        mapping.go_to(type(position)({"flow": "Other"}))
    assert mapping.position() == position
    assert len(list(points)) == COUNT - 1


def test_errors_leave_no_cycle_behind():
    def fail(point):
        raise OSError("gone")

    gc.disable()
    try:
        for ds, func in ((Broken(1), tenfold), (Counting(), fail)):
            mapping = ordered(ds, func)
            gone = weakref.ref(mapping)
            try:
                list(mapping.iterate())
            except OSError:
                del mapping
            assert gone() is None
    finally:
        gc.enable()


def test_pool_must_say_how_it_works():
    with pytest.raises(TypeError, match="abstract"):
        MapPool()


def test_result_is_a_point_or_an_error():
    assert Result(3, [1], None)._asdict() == {"tag": 3, "point": [1], "error": None}
