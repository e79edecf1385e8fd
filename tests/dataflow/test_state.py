"""States of flows: what they may hold, and what is refused."""

import numpy as np
import pytest

from tpack.dataflow.state import (
    StatelessError,
    make_state,
    read_count,
    read_flag,
    read_state,
    rng_from_state,
    rng_state,
)
from tpack.errors import InputError
from tpack.utils import serialize


class Owner:
    """Something with a name."""


class Other:
    """Something with another name."""


def test_parts_come_back_in_the_order_asked_for():
    assert read_state(Owner(), make_state(Owner(), index=3, name="x"), "name", "index") == ["x", 3]


def test_state_survives_serialization():
    state = make_state(Owner(), index=3, rng=rng_state(np.random.RandomState(1)))
    index, rng = read_state(Owner(), serialize.loads(serialize.dumps(state)), "index", "rng")
    assert index == 3
    assert rng_from_state(rng).randint(2**31) == np.random.RandomState(1).randint(2**31)


@pytest.mark.parametrize("state", [None, 3, [], {}, {"index": 3}])
def test_something_else_is_no_state(state):
    with pytest.raises(InputError, match=r"Owner got .*wanted a state that state_dict\(\) returned"):
        read_state(Owner(), state, "index")


def test_state_of_another_flow_names_both():
    with pytest.raises(InputError, match="Owner got the state of a Other"):
        read_state(Owner(), make_state(Other(), index=3), "index")


def test_other_parts_are_named():
    with pytest.raises(InputError, match=r"has the parts \['place'\]: wanted \['index'\]"):
        read_state(Owner(), make_state(Owner(), place=3), "index")


def test_generator_goes_on_where_it_was_and_shares_nothing():
    rng = np.random.RandomState(7)
    rng.normal(size=3)
    state = rng_state(rng)
    expected = rng.normal(size=5)
    assert np.array_equal(rng_from_state(state).normal(size=5), expected)
    assert np.array_equal(rng_from_state(state).normal(size=5), expected)


@pytest.mark.parametrize("state", [None, [], ["MT19937", [1, 2], 0, 0, 0.0], ["nothing", np.zeros(624), 0, 0, 0.0]])
def test_no_state_of_a_generator_is_refused(state):
    with pytest.raises(InputError, match="is no state of a generator"):
        rng_from_state(state)


def test_stateless_error_is_what_scripts_may_expect():
    assert issubclass(StatelessError, (InputError, NotImplementedError))


@pytest.mark.parametrize("value", [0, 5, np.int64(3)])
def test_number_of_things_is_read(value):
    assert read_count(Owner(), "index", value, at_most=5) == value


@pytest.mark.parametrize("value", [-1, 6, True, 1.0, "3", None])
def test_what_is_no_such_number_is_refused(value):
    with pytest.raises(InputError, match="the state of a Owner has index=.*: wanted an integer, 0 to 5"):
        read_count(Owner(), "index", value, at_most=5)


def test_number_without_a_limit_is_at_least_0():
    assert read_count(Owner(), "index", 2**60) == 2**60
    with pytest.raises(InputError, match="wanted an integer, at least 0"):
        read_count(Owner(), "index", -1)


def test_flag_is_read_or_refused():
    assert read_flag(Owner(), "is_open", True) is True
    with pytest.raises(InputError, match="the state of a Owner has is_open=1: wanted True or False"):
        read_flag(Owner(), "is_open", 1)
