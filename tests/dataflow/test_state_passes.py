"""What a flow knows of its passes."""

import pytest

from tpack.dataflow.state import Passes, leave, skip
from tpack.errors import InputError


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


def test_skip_drops_points_or_says_that_there_are_too_few():
    points = iter(range(5))
    skip("the owner", points, 3)
    assert next(points) == 3
    with pytest.raises(InputError, match="str was to go on after 4 data points and has only 1: the data has changed"):
        skip("the owner", points, 4)


def test_leave_closes_what_can_be_closed():
    def generate():
        yield 1

    points = generate()
    next(points)
    leave(points)
    assert points.gi_frame is None
    leave(iter([1]))
