"""Messages over one connection, by both of its ends in one thread."""

import os
import selectors
import socket

import pytest

from tpack.multi_worker.control.messages import Channel, ControlMessage, Waker

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


NO_MESSAGES = [
    b"GET / HTTP/1.1\r\n\r\n",
    b"\0\0\0\2" + bytes(8) + b"{]",
    b"\0\0\0\1" + bytes(8) + b"3",
    b"\0\0\0\2\xff" + bytes(7),
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
