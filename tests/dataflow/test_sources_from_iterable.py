"""Data points from an iterable, which may be usable once."""

import pytest

from tpack.dataflow.base import UnknownLengthError
from tpack.dataflow.sources import DataFromIterable
from tpack.errors import ConfigError, DataExhaustedError, InputError


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
    with pytest.raises(DataExhaustedError, match="an earlier pass has used up"):
        list(ds)


def test_iterator_that_starts_again_may_be_repeated():
    ds = DataFromIterable(Restartable())
    assert [list(ds), list(ds)] == [[1, 2], [1, 2]]


def test_empty_list_yields_nothing_on_each_pass():
    ds = DataFromIterable([])
    assert [list(ds), list(ds)] == [[], []]


def test_what_cannot_be_iterated_is_refused():
    with pytest.raises(ConfigError, match="DataFromIterable got iterable=3: expected an iterable"):
        DataFromIterable(3)


def numbers(count=6):
    return DataFromIterable([k] for k in range(count))


def test_iterator_goes_on_after_all_points_that_were_taken_in_any_pass():
    ds = numbers()
    assert next(iter(ds)) == [0]
    points = iter(ds)
    assert [next(points), next(points)] == [[1], [2]]
    other = numbers()
    other.load_state_dict(ds.state_dict())
    assert other.state_dict() == ds.state_dict()
    assert list(other) == [[3], [4], [5]]
    with pytest.raises(DataExhaustedError, match="an earlier pass has used up"):
        list(other)


def test_iterator_that_was_used_up_is_used_up_after_an_interruption():
    ds = numbers()
    list(ds)
    other = numbers()
    other.load_state_dict(ds.state_dict())
    with pytest.raises(DataExhaustedError, match="an earlier pass has used up"):
        list(other)


def test_iterator_cannot_go_back():
    ds = numbers()
    state = ds.state_dict()
    next(iter(ds))
    with pytest.raises(InputError, match="after 0 data points, and its iterator is after 1: an iterator cannot go"):
        ds.load_state_dict(state)


def test_iterable_that_became_shorter_is_noticed():
    ds = DataFromIterable([[1], [2], [3]])
    points = iter(ds)
    next(points)
    next(points)
    other = DataFromIterable([[1]])
    other.load_state_dict(ds.state_dict())
    with pytest.raises(
        InputError, match="DataFromIterable got a position after 2 data points and has only 1: the data has changed"
    ):
        list(other)


def test_giving_up_a_pass_leaves_an_iterator_where_it_is():
    ds = numbers()
    next(iter(ds))
    ds.end_pass()
    other = numbers()
    other.load_state_dict(ds.state_dict())
    other.end_pass()
    assert list(other) == [[1], [2], [3], [4], [5]]
