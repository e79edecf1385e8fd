"""The guard against two iterations at a time."""

import pickle

import pytest

from tpack.dataflow.base import DataFlowReentrantGuard
from tpack.errors import InputError


def test_second_entry_raises_until_the_first_has_left():
    guard = DataFlowReentrantGuard("Flow")
    with (
        guard,
        pytest.raises(InputError, match="Flow is being iterated already: wanted one iteration at a time"),
        guard,
    ):
        pass
    with guard:
        assert True


def test_guard_is_free_after_an_exception():
    guard = DataFlowReentrantGuard("Flow")
    with pytest.raises(KeyError), guard:
        raise KeyError
    with guard:
        assert True


def test_pickled_guard_is_free():
    guard = DataFlowReentrantGuard("Flow")
    with guard:
        copy = pickle.loads(pickle.dumps(guard))
        with copy, pytest.raises(InputError, match="Flow is being"), copy:
            pass
