"""The producer's end of a channel, seen from the consumer's."""

import socket
import threading

import numpy as np
import pytest

from tests.helpers.channels import channel, exchange, take_all
from tpack.dataflow.parallel import sender as sender_module
from tpack.dataflow.parallel.codec import Encoded
from tpack.dataflow.parallel.sender import Sender
from tpack.dataflow.parallel.slots import MAX_LEASES, MIN_SLOT_BYTES, VIEW_BYTES, CancelledError, PeerGoneError, Record
from tpack.errors import DataPointError, InputError

WAIT_SECS = 300
SMALL = [np.arange(3, dtype=np.float32), 1]
MIDDLE = [np.zeros(VIEW_BYTES - 1, np.uint8)]
LARGE = [np.zeros(2 * VIEW_BYTES, np.uint8)]


@pytest.fixture
def frozen(monkeypatch):
    """Let no time pass, so that small points are held back."""
    monkeypatch.setattr(sender_module.time, "monotonic", lambda: 0.0)


def receive_kinds(receiver):
    """Return the kinds and numbers of points of all that has come."""
    return [(message.kind, len(message.points)) for message in take_all(receiver)]


def test_small_points_share_a_message_until_they_are_flushed(frozen):
    with channel() as (sender, receiver):
        for _ in range(5):
            sender.put(SMALL)
        assert receive_kinds(receiver) == []
        sender.flush()
        assert receive_kinds(receiver) == [(Record.PACK, 5)]


def test_pack_that_is_full_is_sent(frozen):
    with channel(capacity=8) as (sender, receiver):
        for _ in range(5):
            sender.put(SMALL)
        assert receive_kinds(receiver) == [(Record.PACK, 2), (Record.PACK, 2)]


def test_small_point_is_sent_at_once_when_time_has_passed(monkeypatch):
    now = iter(range(1, 100))
    monkeypatch.setattr(sender_module.time, "monotonic", lambda: next(now))
    with channel() as (sender, receiver):
        sender.put(SMALL)
        assert receive_kinds(receiver) == [(Record.PACK, 1)]


def test_point_that_is_held_back_is_sent_in_a_moment(frozen):
    with channel(has_flusher=True) as (sender, receiver):
        sender.put(SMALL)
        assert receiver.receive().points[0][1] == 1


def test_points_keep_their_order_and_dropped_ones_their_places(frozen):
    points = [None, SMALL, None, [1, 2], (1, 2), None, LARGE, None, None, SMALL, {"a": 1}, "odd", None]
    with channel() as (sender, receiver):
        for point in points:
            sender.put(point)
        sender.send(Record.END)
        *messages, last = take_all(receiver)
        assert last.kind == Record.END
        found = [point for message in messages for point in message.points]
    assert list(map(repr, found)) == list(map(repr, points))


def test_things_that_are_no_points_come_in_their_turn(frozen):
    with channel() as (sender, receiver):
        sender.put(SMALL)
        sender.send(Record.STATE, {"index": 3})
        sender.send(Record.BEGUN, number=7)
        pack, state, message = take_all(receiver)
        assert pack.kind == Record.PACK
        assert (state.kind, state.points) == (Record.STATE, [{"index": 3}])
        assert (message.kind, message.points, message.number) == (Record.BEGUN, [], 7)


@pytest.mark.parametrize("point", [SMALL, MIDDLE, LARGE], ids=["small", "middle", "large"])
def test_no_more_points_than_allowed_wait(frozen, point):
    capacity = 4
    with channel(capacity) as (sender, receiver):
        sent = 0
        while sender.try_put(point):
            sender.flush()
            sent += 1
        assert sent == capacity + (MAX_LEASES if point is LARGE else 0)
        receiver.receive()
        # A slot whose lease has ended is given back with the next look for a message.
        receiver.fill(wait=False)
        assert sender.try_put(point)
        sender.flush()
        assert not sender.try_put(point)


@pytest.mark.parametrize("capacity", [1, 2, 5])
def test_consumer_that_keeps_everything_never_stops_the_producer(capacity):
    with channel(capacity) as (sender, receiver):
        kept = []
        for k in range(40):
            sender.put([np.full((k % 3 + 2) * VIEW_BYTES, k, np.uint8)])
            kept += receiver.receive().points
        assert [set(point[0].tolist()) for point in kept] == [{k} for k in range(40)]


def test_put_waits_for_room(frozen):
    with channel(1) as (sender, receiver):
        sender.put(MIDDLE)
        thread = threading.Thread(target=sender.put, args=([np.ones(VIEW_BYTES - 1, np.uint8)],))
        thread.start()
        assert receiver.receive().points[0][0][0] == 0
        thread.join(WAIT_SECS)
        assert receiver.receive().points[0][0][0] == 1


def test_slot_that_is_open_is_given_to_nobody_else_until_it_is_given_up():
    with channel(1) as (sender, receiver):
        opened = sender.open_slot(10)
        opened.memory[:] = 7
        sent = [np.full(VIEW_BYTES - 1, k, np.uint8) for k in range(20)]
        for array, (found,) in zip(sent, exchange(sender, receiver, [[array] for array in sent]), strict=True):
            np.testing.assert_array_equal(found, array)
        assert set(opened.memory.tolist()) == {7}
        sender.give_up(opened)
        assert opened.slot in {sender.open_slot(10).slot for _ in range(2)}


def test_point_is_copied_when_there_are_larger_slots_by_now():
    with channel() as (sender, receiver):
        opened = sender.open_slot(MIN_SLOT_BYTES)
        array = np.ndarray(VIEW_BYTES, np.uint8, opened.memory)
        array[:] = 5
        exchange(sender, receiver, [[np.zeros(2 * MIN_SLOT_BYTES, np.uint8)]])
        encoded = Encoded([array])
        encoded.lay_out(lambda found: 0, array.nbytes)
        sender.put_encoded(encoded, opened)
        (found,) = receiver.receive().points[0]
        array[:] = 6
        assert set(found.tolist()) == {5}


def test_opening_a_slot_sends_what_is_held_back(frozen):
    with channel() as (sender, receiver):
        sender.put(SMALL)
        sender.open_slot(10)
        assert receive_kinds(receiver) == [(Record.PACK, 1)]


def test_encoded_point_comes_after_what_was_put_while_it_was_made(frozen):
    with channel() as (sender, receiver):
        opened = sender.open_slot(10)
        sender.put(SMALL)
        sender.put_encoded(Encoded([1]), opened)
        assert receive_kinds(receiver) == [(Record.PACK, 1), (Record.POINT, 1)]


def test_point_that_cannot_be_sent_leaves_the_channel_as_it_was():
    with channel(1) as (sender, receiver):
        for _ in range(10):
            with pytest.raises(DataPointError, match="cannot be sent"):
                sender.put([threading.Lock()])
        assert exchange(sender, receiver, [[1]]) == [[1]]


def test_point_that_is_too_large_leaves_the_channel_as_it_was():
    with channel() as (sender, receiver):
        with pytest.raises(InputError, match=r"bytes left, and data points need .* of shared memory"):
            sender.put([np.broadcast_to(np.uint8(0), 1 << 50)])
        assert exchange(sender, receiver, [[1]]) == [[1]]


@pytest.mark.parametrize("point", [SMALL, LARGE], ids=["small", "large"])
def test_cancelled_sender_refuses_until_it_resumes(frozen, point):
    with channel() as (sender, receiver):
        sender.put(SMALL)
        receiver.cancel(3)
        sender.flush()
        with pytest.raises(CancelledError):
            sender.put(point)
        sender.resume(3)
        sender.put([7])
        sender.flush()
        assert receive_kinds(receiver) == [(Record.PACK, 1), (Record.PACK, 1)]


def test_what_was_held_back_is_forgotten_on_resuming(frozen):
    with channel() as (sender, receiver):
        for number in range(1, 20):
            receiver.cancel(number)
            sender.send(Record.END)
            sender.resume(number)
            sender.put(SMALL) if number % 2 else sender.put(None)
        sender.resume(0)
        sender.put([7])
        sender.flush()
        assert receive_kinds(receiver)[-1] == (Record.PACK, 1)


def test_cancellation_that_comes_after_the_command_is_known_already(frozen):
    with channel() as (sender, receiver):
        sender.resume(5)
        receiver.cancel(5)
        sender.send(Record.BEGUN, number=5)
        sender.put(SMALL)
        receiver.cancel(6)
        sender.flush()
        with pytest.raises(CancelledError):
            sender.put(SMALL)


def test_sender_that_waits_for_room_can_be_cancelled(frozen):
    with channel(1) as (sender, receiver):
        sender.put(MIDDLE)
        raised = []

        def put():
            try:
                sender.put(MIDDLE)
            except CancelledError as error:
                raised.append(error)

        thread = threading.Thread(target=put)
        thread.start()
        receiver.cancel(1)
        thread.join(WAIT_SECS)
        assert len(raised) == 1


def test_lost_consumer_is_noticed_wherever_the_sender_is(frozen):
    def use(action):
        here, there = socket.socketpair()
        sender = Sender(here, 50, has_flusher=False)
        sender.put(SMALL)
        there.close()
        with pytest.raises(PeerGoneError, match="the data points go to is gone"):
            action(sender)
        sender.close()

    use(lambda sender: sender.flush())
    use(lambda sender: sender.put(LARGE))
    use(lambda sender: sender.send(Record.END))
    use(lambda sender: sender.send(Record.STATE, 1))


def test_waiting_sender_notices_that_the_consumer_is_gone():
    with channel(1) as (sender, receiver):
        sender.put(MIDDLE)
        threading.Timer(0, receiver.close).start()
        with pytest.raises(PeerGoneError):
            sender.put(MIDDLE)


def test_descriptor_is_that_of_the_socket():
    with channel() as (sender, receiver):
        assert sender.fileno() != receiver.fileno()
        assert sender.fileno() > 0
