"""Data points from an iterable, which may be usable once."""

import pytest

from tpack.dataflow.base import UnknownLengthError
from tpack.dataflow.from_iterable import DataFromIterable
from tpack.errors import ConfigError, DataExhaustedError


class Restartable:
    """An iterator that ``iter`` sets back to its beginning."""

    def __iter__(self):
        self.k = 0
        return self

    def __next__(self):
        self.k += 1
        if self.k > 2:
            raise StopIteration
        return self.k


def test_list_is_yielded_on_each_pass_and_has_a_length():
    ds = DataFromIterable([1, 2])
    assert [list(ds), list(ds)] == [[1, 2], [1, 2]]
    assert len(ds) == 2


def test_generator_has_no_length():
    with pytest.raises(UnknownLengthError, match="the generator in DataFromIterable has no length"):
        len(DataFromIterable(k for k in range(3)))


def test_generator_goes_on_where_a_pass_was_broken_off():
    ds = DataFromIterable(k for k in range(4))
    for point in ds:
        if point == 1:
            break
    assert list(ds) == [2, 3]


def test_used_up_generator_raises_instead_of_yielding_nothing():
    ds = DataFromIterable(k for k in range(3))
    assert list(ds) == [0, 1, 2]
    with pytest.raises(DataExhaustedError, match="an earlier pass has used it up"):
        list(ds)


def test_iterator_that_starts_again_may_be_repeated():
    ds = DataFromIterable(Restartable())
    assert [list(ds), list(ds)] == [[1, 2], [1, 2]]


def test_empty_list_yields_nothing_on_each_pass():
    ds = DataFromIterable([])
    assert [list(ds), list(ds)] == [[], []]


def test_what_cannot_be_iterated_is_refused():
    with pytest.raises(ConfigError, match="DataFromIterable got a int: wanted an iterable"):
        DataFromIterable(3)
