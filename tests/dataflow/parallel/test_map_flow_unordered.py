"""Mapping in the order in which workers finish, with workers that finish in random order."""

import gc
import weakref
from collections import Counter
from itertools import islice

import pytest

from tests.helpers.fake_pool import FakePool
from tpack.dataflow.parallel.map_flow import UnorderedMap


def unordered(points, func=lambda x: x * 10, buffer_size=4, **pool):
    pool = FakePool(func, **pool)
    return UnorderedMap(lambda: iter(points), pool, buffer_size), pool


@pytest.mark.parametrize("buffer_size", [1, 4, 50])
@pytest.mark.parametrize("room", [1, 3, 1000])
def test_passes_are_as_long_as_those_of_the_flow_and_nothing_is_lost(buffer_size, room):
    mapping, pool = unordered(range(7), buffer_size=buffer_size, room=room)
    found = Counter()
    for _ in range(30):
        points = list(mapping.iterate())
        assert len(points) == 7
        found.update(points)
    found.update(point * 10 for _, point in pool.jobs)
    assert set(found) == {10 * k for k in range(7)}
    assert max(found.values()) - min(found.values()) <= 1


def test_buffer_is_filled_and_stays_full_between_passes():
    mapping, pool = unordered(range(7), buffer_size=5)
    next(mapping.iterate())
    assert pool.most == 5
    list(mapping.iterate())
    assert len(pool.jobs) == 5


def test_pass_after_one_that_was_broken_off_is_whole():
    mapping, _ = unordered(range(7))
    for count in range(1, 9):
        points = mapping.iterate()
        list(islice(points, count))
        points.close()
        assert len(list(mapping.iterate())) == 7


def test_endless_flow_goes_on():
    mapping, _ = unordered(iter(int, 1))
    assert len(list(islice(mapping.iterate(), 100))) == 100


def test_empty_flow_has_empty_passes():
    mapping, _ = unordered([])
    assert [list(mapping.iterate()) for _ in range(3)] == [[], [], []]


def test_none_drops_a_point():
    mapping, _ = unordered(range(8), lambda x: x if x % 2 else None, buffer_size=1)
    assert [len(list(mapping.iterate())) for _ in range(3)] == [4, 4, 4]


def test_exception_of_the_function_comes_out_and_the_stream_goes_on():
    failed = []

    def fail_once(x):
        if x == 3 and not failed:
            failed.append(x)
            raise OSError("gone")
        return x

    mapping, _ = unordered(range(7), fail_once)
    with pytest.raises(OSError, match="gone"):
        list(mapping.iterate())
    assert len(list(mapping.iterate())) == 7


def test_exception_of_the_flow_comes_after_what_was_read_before():
    def broken():
        yield from range(5)
        raise OSError("gone")

    pool = FakePool(lambda x: x)
    mapping = UnorderedMap(broken, pool, 3)
    for _ in range(2):
        found = []
        with pytest.raises(OSError, match="gone"):
            found.extend(mapping.iterate())
            pytest.fail("no exception")
        assert pool.jobs == []


def test_errors_leave_no_cycle_behind():
    """What an error refers to, the workers in the end, must go with it and not wait for the garbage collector."""

    def broken():
        yield 1
        raise OSError("gone")

    gc.disable()
    try:
        for func, flow in ((lambda x: 1 / 0 if x is None else x, broken), (_fail, lambda: iter(range(3)))):
            mapping = UnorderedMap(flow, FakePool(func), 2)
            gone = weakref.ref(mapping)
            try:
                list(mapping.iterate())
            except OSError:
                del mapping
            assert gone() is None
    finally:
        gc.enable()


def _fail(x):
    raise OSError("gone")
