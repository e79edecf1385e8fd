"""Messages over one connection, by both of its ends in one thread."""

import os
import selectors
import socket

import pytest

from tpack.errors import ClusterError
from tpack.multi_worker.control import messages
from tpack.multi_worker.control.messages import (
    Channel,
    ControlMessage,
    Waker,
    allow_descriptors,
    receive_now,
    result_of,
    send_now,
    values_of,
)

LARGEST = 1 << 24


@pytest.fixture
def ends():
    """The two ends of a connection."""
    one, other = (Channel(end, LARGEST) for end in socket.socketpair())
    yield one, other
    one.close()
    other.close()


def test_messages_come_as_they_were_sent(ends):
    one, other = ends
    sent = [({"do": "a"}, b""), ({"do": "b", "n": [1]}, b"x" * 10), ({}, bytes(3_000_000))]
    for header, data in sent:
        one.send(header, data)
    assert one.events == selectors.EVENT_READ | selectors.EVENT_WRITE
    found = []
    while len(found) < 3:
        one.flush()
        found += other.receive()
    assert found == [ControlMessage(*each) for each in sent]
    assert not one.has_unsent
    assert one.events == selectors.EVENT_READ
    assert other.receive() == []


def test_what_came_before_the_end_is_heard(ends):
    one, other = ends
    one.send({"do": "last"})
    one.flush()
    one.close()
    assert [message.header for message in other.receive()] == [{"do": "last"}]
    with pytest.raises(EOFError):
        other.receive()
    other.send({"do": "answer"})
    with pytest.raises(OSError, match="Broken pipe"):
        other.flush()


def test_messages_of_a_blocking_socket_have_the_same_frames(ends):
    one, end = socket.socketpair()
    other = Channel(end, LARGEST)
    with one:
        send_now(one, {"a": [1, None]})
        assert other.receive() == [ControlMessage({"a": [1, None]}, b"")]
        with pytest.raises(TimeoutError):
            receive_now(one, 0.01)
        other.send({"b": 2})
        other.send({"more": 3}, b"data")
        other.flush()
        assert receive_now(one, 60) == {"b": 2}
        with pytest.raises(ValueError, match="a message of 11 and 4 bytes"):
            receive_now(one, 60)
        assert one.recv(15) == b'{"more": 3}data'
        other.close()
        with pytest.raises(ConnectionResetError, match="the connection was closed"):
            receive_now(one, 60)


def test_nothing_is_kept_beyond_the_limits():
    stranger, end = socket.socketpair()
    channel = Channel(end, 0, 64)
    stranger.setblocking(False)
    with stranger:
        stranger.sendall(b"\0\0\0\x40" + bytes(8) + b"[" * 63)
        assert channel.receive() == []
        assert len(channel._unread) == 75
        stranger.sendall(b"x" * 10_000)
        with pytest.raises(ValueError, match="Expecting|nested"):
            channel.receive()
        assert len(channel._unread) <= 76
    channel.close()


def test_a_proven_peer_may_send_more():
    one, end = socket.socketpair()
    channel = Channel(end, 0, 64)
    channel.allow(1000)
    with one:
        one.sendall(b"\0\0\0\2" + (1000).to_bytes(8, "big") + b"{}" + bytes(1000))
        assert channel.receive() == [ControlMessage({}, bytes(1000))]
    channel.close()


NO_MESSAGES = [
    b"GET / HTTP/1.1\r\n\r\n",
    b"\0\0\0\2" + bytes(8) + b"{]",
    b"\0\0\0\1" + bytes(8) + b"3",
    b"\0\0\0\2\xff" + bytes(7),
    b"\0\0\x40\0" + bytes(8) + b"[" * 0x4000,
]


@pytest.mark.parametrize("data", NO_MESSAGES)
def test_what_is_no_message_is_an_error(data):
    stranger, end = socket.socketpair()
    channel = Channel(end, LARGEST)
    with stranger:
        stranger.sendall(data)
        with pytest.raises(ValueError, match="Expecting|message"):
            channel.receive()
    channel.close()


def test_a_forked_process_does_not_hold_the_connection(ends):
    one, other = ends
    (begun, begins), (over, ends_it) = os.pipe(), os.pipe()
    pid = os.fork()
    if not pid:
        os.write(begins, b"0" if one.fileno() < 0 else b"1")
        os.close(ends_it)
        # Lives until the test is over.
        os.read(over, 1)
        os._exit(0)
    for descriptor in (begins, over):
        os.close(descriptor)
    assert os.read(begun, 1) == b"0"
    one.close()
    with pytest.raises(EOFError):
        other.receive()
    for descriptor in (begun, ends_it):
        os.close(descriptor)
    os.waitpid(pid, 0)


def test_a_waker_wakes_and_goes_back_to_sleep():
    waker = Waker()
    with selectors.DefaultSelector() as selector:
        selector.register(waker, selectors.EVENT_READ)
        assert selector.select(0) == []
        for _ in range(100_000):
            waker.wake()
        assert selector.select(0)
        waker.clear()
        assert selector.select(0) == []
    waker.close()
    waker.wake()


@pytest.mark.parametrize("values", [[b""] * 3, [b"a", b"b", b"a", b"a"], [b"", b"long" * 1000, b""], [b"one"]])
def test_the_values_of_an_exchange_come_in_the_order_of_the_ranks(ends, values):
    one, other = ends
    one.put(result_of(7, values))
    one.flush()
    (message,) = other.receive()
    assert (message.header["do"], message.header["number"]) == ("result", 7)
    assert values_of(message) == values


def test_a_value_that_all_have_travels_once():
    def size_of(values):
        return sum(map(len, result_of(1, values)))

    same = [size_of([bytes(1000)] * workers) for workers in (2, 1024)]
    assert same[1] - same[0] == len("1024") - len("2")
    # As a broadcast: one has a value, and the others have none.
    assert size_of([bytes(1000)] + [b""] * 1023) < 1200
    assert size_of([bytes(1000), bytes([1]) * 1000] * 512) < 2000 + 9 * 1024


@pytest.mark.parametrize(
    ("limits", "count", "raised"),
    [((1024, 4096), 100, None), ((1024, 4096), 2000, 2512), ((1024, 2100), 2000, 2100), ((100, -1), 5000, 5512)],
)
def test_the_limit_of_descriptors_is_raised_where_it_is_too_low(monkeypatch, limits, count, raised):
    told = []
    monkeypatch.setattr(messages.resource, "getrlimit", lambda kind: limits)
    monkeypatch.setattr(messages.resource, "setrlimit", lambda kind, wanted: told.append(wanted))
    allow_descriptors(count, "a job")
    assert told == ([] if raised is None else [(raised, limits[1])])


def test_a_hard_limit_of_descriptors_is_an_error_in_words(monkeypatch):
    monkeypatch.setattr(messages.resource, "getrlimit", lambda kind: (1024, 4096))
    text = (
        r"worker 0 of 4096 needs 8192 descriptors, and this process may open 4096 \(RLIMIT_NOFILE\): .* at least 8704"
    )
    with pytest.raises(ClusterError, match=text):
        allow_descriptors(8192, "worker 0 of 4096")
