"""States of flows: what they may hold, what is refused, and what a flow knows of its passes."""

import numpy as np
import pytest

from tpack.dataflow.iterator_state import (
    Passes,
    StatelessError,
    StateReader,
    close_iterator,
    freeze_points,
    make_state,
    rng_from_state,
    rng_state,
    skip,
)
from tpack.errors import InputError
from tpack.utils import serialize


class Owner:
    """Something with a name."""


class Other:
    """Something with another name."""


def reader(**parts):
    return StateReader(Owner(), make_state(Owner(), **parts), *parts)


def test_parts_come_back():
    saved = StateReader(Owner(), make_state(Owner(), index=3, name="x"), "name", "index")
    assert (saved["name"], saved["index"]) == ("x", 3)


def test_state_survives_serialization():
    state = make_state(Owner(), index=3, rng=rng_state(np.random.RandomState(1)))
    saved = StateReader(Owner(), serialize.loads(serialize.dumps(state)), "index", "rng")
    assert saved.count("index") == 3
    assert saved.generator("rng").randint(2**31) == np.random.RandomState(1).randint(2**31)


@pytest.mark.parametrize("state", [None, 3, [], {}, {"index": 3}])
def test_something_else_is_no_state(state):
    with pytest.raises(InputError, match=r"expected a state that state_dict\(\) returned"):
        StateReader(Owner(), state, "index")


def test_state_of_another_flow_names_both():
    with pytest.raises(InputError, match="Owner got the state of a Other"):
        StateReader(Owner(), make_state(Other(), index=3), "index")


def test_other_parts_are_named():
    with pytest.raises(InputError, match=r"with the parts \['place'\]: expected \['index'\]"):
        StateReader(Owner(), make_state(Owner(), place=3), "index")


def test_generator_goes_on_where_it_was_and_shares_nothing():
    rng = np.random.RandomState(7)
    rng.normal(size=3)
    state = rng_state(rng)
    expected = rng.normal(size=5)
    assert np.array_equal(rng_from_state(state).normal(size=5), expected)
    assert np.array_equal(rng_from_state(state).normal(size=5), expected)


KEYS = np.ones(624, np.uint32)


@pytest.mark.parametrize(
    "state",
    [
        None,
        [],
        ["MT19937", [1, 2], 0, 0, 0.0],
        ["nothing", KEYS, 0, 0, 0.0],
        ["MT19937", KEYS[:600], 0, 0, 0.0],
        ["MT19937", KEYS.astype(float), 0, 0, 0.0],
        ["MT19937", 0 * KEYS, 0, 0, 0.0],
        ["MT19937", KEYS, 625, 0, 0.0],
        ["MT19937", KEYS, 10**9, 0, 0.0],
        ["MT19937", KEYS, -1, 0, 0.0],
        ["MT19937", KEYS, True, 0, 0.0],
        ["MT19937", KEYS, 0, 2, 0.0],
        ["MT19937", KEYS, 0, 1, np.nan],
        ["MT19937", KEYS, 0, 1, "0"],
    ],
    ids=range(14),
)
def test_no_state_of_a_generator_is_refused(state):
    with pytest.raises(InputError, match="a random number generator got state="):
        rng_from_state(state)


def test_stateless_error_is_what_scripts_may_expect():
    assert issubclass(StatelessError, (InputError, NotImplementedError))


@pytest.mark.parametrize("value", [0, 5, np.int64(3)])
def test_number_of_things_is_read(value):
    assert reader(index=value).count("index", at_most=5) == value


@pytest.mark.parametrize("value", [-1, 6, True, 1.0, "3", None])
def test_what_is_no_such_number_is_refused(value):
    with pytest.raises(InputError, match="expected an integer from 0 to 5"):
        reader(index=value).count("index", at_most=5)


def test_number_without_a_limit_is_at_least_0():
    assert reader(index=2**60).count("index") == 2**60
    with pytest.raises(InputError, match="expected an integer of at least 0"):
        reader(index=-1).count("index")


def test_flag_is_read_or_refused():
    assert reader(is_open=True).flag("is_open") is True
    with pytest.raises(InputError, match="a state with is_open=1: expected True or False"):
        reader(is_open=1).flag("is_open")


@pytest.mark.parametrize("shuffle", [True, False])
def test_generator_of_an_order_is_there_if_the_flow_shuffles(shuffle):
    saved = reader(rng=rng_state(np.random.RandomState(1)) if shuffle else None)
    assert (saved.generator_of_order("rng", shuffle=shuffle) is not None) == shuffle
    with pytest.raises(InputError, match=f"Owner got the state of one with shuffle={shuffle}"):
        saved.generator_of_order("rng", shuffle=not shuffle)


def test_points_come_back_as_they_were_and_are_not_shared():
    points = [[np.zeros(2), "a"], (1, 2), {"x": 3}]
    found = reader(points=freeze_points(None, points)).points("points")
    assert found[0][0] is not points[0][0]
    assert found[1:] == [(1, 2), {"x": 3}]
    assert found[0][1] == "a"


def test_what_cannot_be_serialized_makes_a_flow_stateless():
    with pytest.raises(StatelessError, match=r"str cannot save its position with the data points in its buffer: an"):
        freeze_points("owner", [[object()]])


@pytest.mark.parametrize("frozen", [None, [], b"", b"nonsense", serialize.dumps([1]), serialize.dumps([[True, 3]])])
def test_what_is_no_points_is_refused(frozen):
    with pytest.raises(InputError, match="a state without data points in"):
        reader(points=frozen).points("points")


def test_position_is_that_of_the_newest_pass():
    passes = Passes(0)
    first = passes.begin()
    first.value = 3
    second = passes.begin()
    second.value = 1
    first.value = 4
    assert passes.value == 1
    assert not passes.end(first)
    assert passes.value == 1
    assert passes.end(second)
    assert (passes.value, passes.has_newest) == (0, False)


def test_next_pass_begins_where_it_was_sent_and_later_ones_do_not():
    passes = Passes((0, False))
    assert not passes.is_sent
    passes.go_to((2, True))
    assert (passes.value, passes.next_start, passes.is_sent) == ((2, True), (2, True), True)
    assert passes.begin().value == (2, True)
    assert not passes.is_sent
    assert passes.begin().value == (0, False)


def test_reset_forgets_the_newest_and_where_the_next_begins():
    passes = Passes(0)
    passes.begin().value = 3
    passes.reset()
    assert passes.value == 0
    passes.go_to(3)
    passes.reset()
    assert passes.begin().value == 0


def test_newest_pass_tells_what_it_was_drawn_from():
    rng = np.random.RandomState(1)
    passes = Passes(0)
    before = rng_state(rng)
    one = passes.begin(rng)
    rng.shuffle(np.arange(9))
    drawn_from = passes.drawn_from(rng)
    assert serialize.dumps(drawn_from) == serialize.dumps(before)
    drawn_from[1][:] = 0
    assert serialize.dumps(passes.drawn_from(rng)) == serialize.dumps(before)
    passes.end(one)
    assert serialize.dumps(passes.drawn_from(rng)) == serialize.dumps(rng_state(rng)) != serialize.dumps(before)


def test_pass_that_draws_nothing_tells_the_generator_as_it_is():
    rng = np.random.RandomState(1)
    passes = Passes(0)
    passes.begin()
    rng.uniform()
    assert serialize.dumps(passes.drawn_from(rng)) == serialize.dumps(rng_state(rng))


def test_what_was_drawn_for_a_pass_is_drawn_again_only_where_the_pass_has_not_begun():
    drawn = []
    passes = Passes(0)
    passes.begin().value = 3
    passes.give_up(lambda: drawn.append("begun here"))
    passes.go_to(3)
    passes.give_up(lambda: drawn.append("begun elsewhere"))
    assert drawn == ["begun elsewhere"]
    assert (passes.value, passes.is_sent) == (0, False)


def test_skip_drops_points_or_says_that_there_are_too_few():
    points = iter(range(5))
    skip("the owner", points, 3)
    assert next(points) == 3
    with pytest.raises(InputError, match="str got a position after 4 data points and has only 1: the data has changed"):
        skip("the owner", points, 4)


def test_iterator_is_closed_if_it_can_be():
    def generate():
        yield 1

    points = generate()
    next(points)
    close_iterator(points)
    assert points.gi_frame is None
    close_iterator(iter([1]))
