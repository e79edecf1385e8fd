"""Passes of workers that run a whole flow, from scripts of what the workers say."""

from itertools import islice

import pytest

from tests.helpers.fake_group import END, FakeGroup, begun, failure, points, state
from tpack.dataflow.checkpoint import Position
from tpack.dataflow.iterator_state import StatelessError
from tpack.dataflow.parallel.process_runner import _ManyStreams, _OneStream, _send_command
from tpack.dataflow.parallel.receiver import Message
from tpack.dataflow.parallel.slots import Record
from tpack.errors import DataWorkerError


def one(*messages):
    group = FakeGroup(*((0, message) for message in messages))
    return _OneStream(group), group


def values(stream, count=None):
    return [value for (value,) in islice(stream.iterate(), count)]


def broken_off(stream, count):
    found = stream.iterate()
    values = [value for (value,) in islice(found, count)]
    found.close()
    return values


def test_passes_of_one_worker_are_those_of_its_flow():
    stream, group = one(state(0), points(1, 2), points(3), state(5), END, points(4), END, END)
    assert [values(stream) for _ in range(3)] == [[1, 2, 3], [4], []]
    assert group.commands == []


def test_none_is_a_point_like_any_other():
    stream, _ = one(state(0), points(1), Message(Record.DROPPED, [None, None]), END)
    assert list(stream.iterate()) == [[1], None, None]


def test_position_follows_what_was_yielded():
    stream, _ = one(state(0), points(1, 2), points(3), state(7), points(4), state(9), END)
    assert stream.position() == Position({"at": 0})
    found = []
    for _ in stream.iterate():
        found.append(stream.position())
    assert found == [Position({"at": 0}, 1), Position({"at": 0}, 2), Position({"at": 0}, 3), Position({"at": 7}, 1)]
    assert stream.position() == Position({"at": 9})


def test_flow_without_a_state_has_no_position():
    stream, _ = one(state(None), points(1, 2))
    for _ in range(2):
        with pytest.raises(StatelessError, match="in the worker has no position: no state"):
            stream.position()
    assert values(stream, 2) == [1, 2]


def test_worker_gives_up_a_pass_that_was_broken_off():
    stream, group = one(
        *(state(0), points(1, 2), points(3, 4), END, begun(9), failure()),
        *(begun(1), begun(1), state(6), points(5), END),
    )
    assert broken_off(stream, 3) == [1, 2, 3]
    assert values(stream) == [5]
    assert group.cancelled == [(0, 1)]
    assert group.commands == [(0, 1, Position({"at": 0}, 3, is_over=True))]
    assert stream.position() == Position({"at": 6}, 1)


def test_worker_whose_flow_has_no_state_just_begins_anew():
    stream, group = one(state(None), points(1, 2), begun(1), begun(1), state(None), points(1), END)
    broken_off(stream, 1)
    assert values(stream) == [1]
    assert group.commands == [(0, 1, None)]


def test_exception_comes_out_and_the_next_pass_is_begun():
    stream, group = one(state(0), points(1), failure(), begun(1), begun(1), state(3), points(2), END)
    with pytest.raises(DataWorkerError, match="worker 0 raised OSError: gone"):
        values(stream)
    assert group.expected == {0: False}
    assert values(stream) == [2]
    assert group.expected == {0: True}
    assert group.commands == [(0, 1, Position({"at": 0}, 1, is_over=True))]


def test_exception_before_the_first_point_does_not_give_up_anything():
    stream, group = one(state(0), failure(), begun(1), begun(1), points(2), END)
    with pytest.raises(DataWorkerError, match="gone"):
        values(stream)
    assert values(stream) == [2]
    assert group.commands == [(0, 1, Position({"at": 0}))]


def test_exception_right_after_a_state_gives_up_the_pass_of_the_last_point():
    stream, group = one(state(0), points(1, 2), state(7), failure(), begun(1), begun(1), state(9), points(3), END)
    with pytest.raises(DataWorkerError, match="gone"):
        values(stream)
    assert stream.position() == Position({"at": 0}, 2)
    assert values(stream) == [3]
    assert group.commands == [(0, 1, Position({"at": 0}, 2, is_over=True))]


def test_pass_broken_off_while_waiting_after_a_state_is_given_up():
    """As by a signal whose handler raises."""
    stream, group = one(state(0), points(1, 2), state(7))
    with pytest.raises(IndexError, match="pop from an empty deque"):
        values(stream)
    group.script.extend((0, message) for message in (begun(1), begun(1), state(9), points(3), END))
    assert values(stream) == [3]
    assert group.commands == [(0, 1, Position({"at": 0}, 2, is_over=True))]
    assert stream.position() == Position({"at": 9}, 1)


def test_position_in_a_pass_after_one_that_was_given_up_is_of_the_new_pass():
    stream, _ = one(state(0), points(1, 2), begun(1), begun(1), state(6), points(5, 6), END)
    broken_off(stream, 1)
    stream.go_to(Position({"at": 3}, 7, is_over=True))
    assert stream.position() == Position({"at": 3}, 7, is_over=True)
    assert broken_off(stream, 1) == [5]
    assert stream.position() == Position({"at": 6}, 1)


def test_going_to_a_position_is_done_at_once_and_the_pass_is_its_rest():
    stream, group = one(state(0), points(1, 2), begun(1), begun(1), points(8), state(5), END)
    broken_off(stream, 1)
    position = Position({"at": 3}, 7)
    stream.go_to(position)
    assert group.commands == [(0, 1, position)]
    assert stream.position() == position
    assert values(stream) == [8]
    assert stream.position() == Position({"at": 5})


def test_position_that_is_refused_changes_nothing():
    stream, group = one(state(0), points(1, 2), END, begun(1), failure("no state"), begun(2), begun(2), points(1), END)
    assert stream.position() == Position({"at": 0})
    with pytest.raises(DataWorkerError, match="no state"):
        stream.go_to(Position({"at": 3}, 7))
    assert stream.position() == Position({"at": 0})
    assert values(stream) == [1]
    assert group.commands[1] == (0, 2, Position({"at": 0}))


def test_giving_up_a_pass_is_part_of_the_position():
    stream, group = one(state(0), points(1, 2), begun(1), begun(1), state(6), points(5), END)
    broken_off(stream, 1)
    stream.end_pass()
    assert stream.position() == Position({"at": 0}, 1, is_over=True)
    assert values(stream) == [5]
    assert group.commands == [(0, 1, Position({"at": 0}, 1, is_over=True))]


def test_giving_up_a_pass_that_has_not_begun_does_nothing():
    stream, group = one(state(0), points(1), state(4), END, points(2), END)
    stream.end_pass()
    assert values(stream) == [1]
    stream.end_pass()
    assert values(stream) == [2]
    assert group.commands == []


def many(length, *script):
    group = FakeGroup(*script)
    return _ManyStreams(group, 2, length), group


def test_passes_of_known_length_are_cut_from_what_comes():
    stream, group = many(3, (0, points(1, 2)), (1, points(11, 12)), (0, END), (0, points(3)), (1, points(13)))
    assert [values(stream), values(stream)] == [[1, 2, 11], [12, 3, 13]]
    assert group.commands == []


def test_stream_goes_on_after_a_pass_that_was_broken_off():
    stream, _ = many(3, (0, points(1, 2)), (1, points(11, 12)))
    assert broken_off(stream, 1) == [1]
    assert values(stream) == [2, 11, 12]


def test_pass_of_unknown_length_is_one_of_each_worker():
    first = [(0, points(1)), (1, points(11)), (0, END), (1, points(12)), (1, END)]
    second = [(1, begun(2)), (1, begun(2)), (1, END), (0, begun(1)), (0, begun(1)), (0, points(3)), (0, END)]
    stream, group = many(None, *first, *second)
    assert [values(stream), values(stream)] == [[1, 11, 12], [3]]
    assert group.commands == [(0, 1, None), (1, 2, None)]
    assert group.expected == {0: False, 1: False}


def test_what_workers_sent_before_they_were_told_to_begin_is_dropped():
    stream, _ = many(
        None,
        *((0, points(1, 2)), (1, points(11))),
        *((0, points(3)), (0, END), (1, begun(2)), (0, failure()), (0, begun(1)), (1, points(12)), (1, END)),
        *((0, begun(1)), (0, points(1)), (0, END)),
    )
    assert broken_off(stream, 1) == [1]
    assert values(stream) == [12, 1]


def test_worker_that_raised_begins_anew_and_the_others_go_on():
    stream, group = many(
        2, (0, points(1)), (1, failure()), (0, points(2)), (1, begun(1)), (1, begun(1)), (1, points(11))
    )
    with pytest.raises(DataWorkerError, match="worker 1 raised"):
        values(stream)
    assert values(stream) == [2, 11]
    assert group.commands == [(1, 1, None)]


def test_numbers_of_commands_come_round():
    group = FakeGroup()
    assert _send_command(group, 0, 0, None) == 1
    assert _send_command(group, 0, 0xFFFF, None) == 1
    assert _send_command(group, 0, 0xFFFE, None) == 0xFFFF
