"""Passes that are read one point ahead."""

import pytest

from tpack.dataflow.parallel.map_flow import _Reader


def test_points_are_seen_before_they_are_taken():
    reader = _Reader(iter([5, 6]))
    assert reader.has_next()
    assert reader.has_next()
    assert (reader.next, reader.taken) == (5, 0)
    reader.take()
    assert reader.taken == 1
    assert reader.has_next()
    assert reader.next == 6
    reader.take()
    assert not reader.is_over
    assert not reader.has_next()
    assert not reader.has_next()
    assert (reader.is_over, reader.taken, reader.pop_error()) == (True, 2, None)


def test_exception_is_an_end_and_is_told_once():
    def broken():
        yield 1
        raise OSError("gone")

    reader = _Reader(broken())
    assert reader.has_next()
    reader.take()
    assert not reader.has_next()
    assert reader.is_over
    with pytest.raises(OSError, match="gone"):
        raise reader.pop_error()
    assert reader.pop_error() is None


def test_reading_is_reported():
    counts = []
    reader = _Reader(iter("ab"), counts.append)
    while reader.has_next():
        reader.take()
    assert counts == [1, 2]
