"""Data points from a generator function."""

import pytest

from tests.helpers.flows import generate
from tpack.dataflow.base import UnknownLengthError
from tpack.dataflow.sources import DataFromGenerator
from tpack.errors import ConfigError, DataExhaustedError, InputError


def test_function_is_called_for_each_pass():
    ds = DataFromGenerator(generate)
    assert list(ds) == list(ds) == list(generate())


def test_generator_itself_is_good_for_one_pass():
    ds = DataFromGenerator(generate())
    assert len(list(ds)) == 7
    with pytest.raises(DataExhaustedError, match="or a generator function for DataFromGenerator"):
        list(ds)


def test_length_is_unknown():
    with pytest.raises(UnknownLengthError, match="DataFromGenerator does not know its length"):
        len(DataFromGenerator([1]))


def test_what_is_no_function_is_refused():
    with pytest.raises(ConfigError, match="got a int: wanted a generator function"):
        DataFromGenerator(3)


def test_state_of_one_with_an_iterable_is_refused_by_one_with_a_function():
    state = DataFromGenerator([[1]]).state_dict()
    with pytest.raises(InputError, match="DataFromGenerator has a function, and got the state of one with an iterable"):
        DataFromGenerator(generate).load_state_dict(state)


def test_iterator_in_it_goes_on_after_what_was_taken():
    def make():
        return DataFromGenerator([k] for k in range(4))

    ds = make()
    next(iter(ds))
    other = make()
    other.load_state_dict(ds.state_dict())
    other.end_pass()
    assert list(other) == [[1], [2], [3]]


def test_generator_is_closed_when_a_pass_is_broken_off():
    ends = []

    def watched():
        try:
            yield [1]
            yield [2]
        finally:
            ends.append(1)

    points = iter(DataFromGenerator(watched))
    next(points)
    points.close()
    assert ends == [1]
