"""What every flow inherits, and what several flows check."""

import pickle

import numpy as np
import pytest

from tests.helpers.flows import Counting, Unsized
from tpack.dataflow.base import (
    DataFlow,
    DataFlowReentrantGuard,
    DataFlowTerminated,
    ProxyDataFlow,
    RNGDataFlow,
    UnknownLengthError,
    length_or_none,
)
from tpack.dataflow.iterator_state import StatelessError
from tpack.errors import InputError


class Minimal(DataFlow):
    """A flow of three data points with nothing but ``__iter__``."""

    def __iter__(self):
        yield from [[1], [2], [3]]


class Random(RNGDataFlow):
    """A flow that does not call the constructor of its base."""

    def __init__(self):
        pass

    def __iter__(self):
        yield [self.rng.randint(2**31)]


def test_flow_needs_iter():
    with pytest.raises(TypeError, match="__iter__"):
        DataFlow()


def test_flow_without_length_can_be_listed_and_says_so():
    ds = Minimal()
    ds.reset_state()
    assert list(ds) == [[1], [2], [3]]
    with pytest.raises(UnknownLengthError, match="Minimal does not know its length"):
        len(ds)
    assert issubclass(UnknownLengthError, (NotImplementedError, InputError))


def test_terminated_is_an_input_error():
    with pytest.raises(InputError, match="peer is gone"):
        raise DataFlowTerminated("peer is gone")


def test_random_flow_wants_to_be_reset():
    ds = Random()
    with pytest.raises(InputError, match=r"Random needs random numbers: call reset_state\(\)"):
        list(ds)
    ds.reset_state()
    assert len(list(ds)) == 1


def test_random_flows_differ_and_a_script_may_set_the_generator():
    first, second = Random(), Random()
    for ds in (first, second):
        ds.reset_state()
    assert list(first) != list(second)
    first.rng, second.rng = np.random.RandomState(3), np.random.RandomState(3)
    assert list(first) == list(second)


def test_proxy_yields_what_it_wraps():
    ds = ProxyDataFlow(Counting(3))
    assert list(ds) == [[0, "0"], [1, "1"], [2, "2"]]
    assert len(ds) == 3


def test_flow_without_state_says_so():
    with pytest.raises(StatelessError, match=r"Minimal cannot tell its position: it has no state_dict\(\)"):
        Minimal().state_dict()
    with pytest.raises(StatelessError, match=r"Minimal cannot go to a position: it has no load_state_dict\(\)"):
        Minimal().load_state_dict({})


def test_proxy_has_the_position_of_what_it_wraps():
    class Seekable(Minimal):
        at = 0

        def state_dict(self):
            return {"flow": "Seekable", "at": self.at}

        def load_state_dict(self, state):
            self.at = state["at"]

    first, second = ProxyDataFlow(Seekable()), ProxyDataFlow(Seekable())
    first.ds.at = 2
    second.load_state_dict(first.state_dict())
    assert second.ds.at == 2
    with pytest.raises(InputError, match="ProxyDataFlow got the state of a Seekable"):
        second.load_state_dict(first.ds.state_dict())


def test_giving_up_a_pass_is_passed_on_and_otherwise_nothing():
    class Watched(Minimal):
        num_given_up = 0

        def end_pass(self):
            self.num_given_up += 1

    inner = Watched()
    ProxyDataFlow(ProxyDataFlow(inner)).end_pass()
    assert inner.num_given_up == 1
    assert Minimal().end_pass() is None


@pytest.mark.parametrize("ds", [Minimal(), Counting(0), Counting(3), ProxyDataFlow(Unsized())])
def test_every_flow_is_true(ds):
    assert bool(ds) is True


def test_size_is_the_length():
    assert Counting(3).size() == ProxyDataFlow(Counting(3)).size() == 3
    with pytest.raises(UnknownLengthError, match="Minimal does not know its length"):
        Minimal().size()


def test_length_may_be_unknown():
    assert length_or_none(Counting(3)) == 3
    assert length_or_none(Unsized()) is None


def test_second_entry_raises_until_the_first_has_left():
    guard = DataFlowReentrantGuard("Flow")
    with guard, pytest.raises(InputError, match="Flow is being iterated already: end that iteration before"), guard:
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
