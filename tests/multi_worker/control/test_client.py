"""The client of the control channel, against a server that the test plays."""

import contextlib
import re
import select
import socket
import threading

import pytest

from tpack.errors import ClusterError, PeerLostError
from tpack.multi_worker.control.client import ControlClient
from tpack.multi_worker.control.messages import Channel, Timeouts

LONG = 60.0
TIMEOUTS = Timeouts(heartbeat_secs=LONG, straggler_secs=LONG, timeout_secs=LONG, largest=1 << 20)


@pytest.fixture
def client():
    """A client, and the other end of its connection."""
    ours, theirs = socket.socketpair()
    client, server = ControlClient(ours, 2, TIMEOUTS), Channel(theirs, 1 << 20)
    yield client, server
    client.close()
    server.close()


def say(server, *headers, data=b""):
    for header in headers:
        server.send(header, data)
    server.flush()


def test_words_and_results_wake_who_waits_for_them(client):
    client, server = client
    assert not client.wait_for("complete", 0.01)
    say(server, {"do": "complete"})
    assert client.wait_for("complete", LONG)
    assert client.wait_for_result(1, 0.01) is None
    say(server, {"do": "result", "number": 1, "sizes": [2, 1], "runs": [[0, 1], [1, 2]]}, data=b"abc")
    assert client.wait_for_result(1, LONG) == [b"ab", b"c", b"c"]
    assert not client.wait_for_error(0.01)


@pytest.mark.parametrize(
    ("header", "kind", "ranks"),
    [
        ({"do": "lost", "text": "worker 1 failed: boo", "ranks": [1]}, PeerLostError, (1,)),
        ({"do": "lost", "text": "other steps", "ranks": []}, ClusterError, None),
        ({"do": "result"}, PeerLostError, (0,)),
        ({"no": "word"}, PeerLostError, (0,)),
    ],
)
def test_what_goes_wrong_first_is_told_once(client, header, kind, ranks):
    client, server = client
    told, comes = [], threading.Semaphore(0)
    client.on_error(lambda error: (told.append(error), comes.release()))
    say(server, header)
    with contextlib.suppress(BrokenPipeError):
        # It may have gone by then.
        say(server, {"do": "lost", "text": "later", "ranks": [5]})
    assert client.wait_for_error(LONG)
    assert comes.acquire(timeout=LONG)
    assert (type(client.error), getattr(client.error, "ranks", None)) == (kind, ranks)
    client.on_error(lambda error: (told.append(error), comes.release()))
    assert comes.acquire(timeout=LONG)
    assert told == [client.error] * 2
    # Nobody waits any more.
    assert not client.wait_for("complete", LONG)
    assert client.wait_for_result(1, LONG) is None


def test_a_worker_0_that_goes_without_a_word_is_lost(client):
    client, server = client
    server.close()
    assert client.wait_for_error(LONG)
    assert re.match("worker 0 was lost: its connection (was closed without a farewell|broke)", str(client.error))


def test_a_worker_0_that_has_said_that_it_is_over_is_not(client):
    client, server = client
    say(server, {"do": "over"})
    server.close()
    assert client.wait_for("over", LONG)
    client.close()
    assert client.error is None


def test_it_says_in_which_step_it_is_and_whom_it_waits_for():
    ours, theirs = socket.socketpair()
    timeouts = Timeouts(heartbeat_secs=1.0, straggler_secs=0.1, timeout_secs=LONG, largest=100)
    client = ControlClient(ours, 2, timeouts)
    client.step = 7
    client.on_stall(lambda: {2, 1})
    server, found = Channel(theirs, 100), []
    while not any(message.header["do"] == "stalled" for message in found):
        assert select.select([server], [], [], LONG)[0]
        found += server.receive()
        server.send({"do": "beat"})
        server.flush()
    assert found[-1].header == {"do": "stalled", "ranks": [1, 2], "step": 7, "in_step": False}
    assert {message.header["do"] for message in found[:-1]} == {"beat"}
    client.close()
    server.close()
