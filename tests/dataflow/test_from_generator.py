"""Data points from a generator function."""

import pytest

from tests.helpers.flows import generate
from tpack.dataflow.base import UnknownLengthError
from tpack.dataflow.from_generator import DataFromGenerator
from tpack.errors import ConfigError, DataExhaustedError


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
