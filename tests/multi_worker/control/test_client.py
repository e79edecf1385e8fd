"""A worker's side of the line, with a worker 0 that is played by the test."""

import contextlib
import re
import select
import socket
import threading

import pytest

from tpack.errors import ClusterError, PeerLostError
from tpack.multi_worker.control.client import ControlClient
from tpack.multi_worker.control.messages import Channel
from tpack.multi_worker.control.server import Timeouts

LONG = 60.0
LIMITS = Timeouts(heartbeat_secs=LONG, straggler_secs=LONG, timeout_secs=LONG, largest=1 << 20)


@pytest.fixture
def line():
    """A line, and the other end of it."""
    ours, theirs = socket.socketpair()
    line, hub = ControlClient(ours, 2, LIMITS), Channel(theirs, 1 << 20)
    yield line, hub
    line.close()
    hub.close()


def say(hub, *headers, data=b""):
    for header in headers:
        hub.send(header, data)
    hub.flush()


def test_words_and_results_wake_who_waits_for_them(line):
    line, hub = line
    assert not line.wait_until_heard("complete", 0.01)
    say(hub, {"do": "complete"})
    assert line.wait_until_heard("complete", LONG)
    assert line.wait_for_result(1, 0.01) is None
    say(hub, {"do": "result", "number": 1, "sizes": [2, 0, 1]}, data=b"abc")
    assert line.wait_for_result(1, LONG) == [b"ab", b"", b"c"]
    assert not line.wait_for_error(0.01)


@pytest.mark.parametrize(
    ("header", "kind", "ranks"),
    [
        ({"do": "lost", "text": "worker 1 failed: boo", "ranks": [1]}, PeerLostError, (1,)),
        ({"do": "lost", "text": "other steps", "ranks": []}, ClusterError, None),
        ({"do": "result"}, PeerLostError, (0,)),
        ({"no": "word"}, PeerLostError, (0,)),
    ],
)
def test_what_goes_wrong_first_is_told_once(line, header, kind, ranks):
    line, hub = line
    told, comes = [], threading.Semaphore(0)
    line.on_error(lambda error: (told.append(error), comes.release()))
    say(hub, header)
    with contextlib.suppress(BrokenPipeError):
        # It may have gone by then.
        say(hub, {"do": "lost", "text": "later", "ranks": [5]})
    assert line.wait_for_error(LONG)
    assert comes.acquire(timeout=LONG)
    assert (type(line.error), getattr(line.error, "ranks", None)) == (kind, ranks)
    line.on_error(lambda error: (told.append(error), comes.release()))
    assert comes.acquire(timeout=LONG)
    assert told == [line.error] * 2
    # Nobody waits any more.
    assert not line.wait_until_heard("complete", LONG)
    assert line.wait_for_result(1, LONG) is None


def test_a_worker_0_that_goes_without_a_word_is_lost(line):
    line, hub = line
    hub.close()
    assert line.wait_for_error(LONG)
    assert re.match("worker 0 was lost: its connection (was closed without a farewell|broke)", str(line.error))


def test_a_worker_0_that_has_said_that_it_is_over_is_not(line):
    line, hub = line
    say(hub, {"do": "over"})
    hub.close()
    assert line.wait_until_heard("over", LONG)
    line.close()
    assert line.error is None


def test_it_says_in_which_step_it_is_and_whom_it_waits_for():
    ours, theirs = socket.socketpair()
    limits = Timeouts(heartbeat_secs=1.0, straggler_secs=0.1, timeout_secs=LONG, largest=100)
    line = ControlClient(ours, 2, limits)
    line.step = 7
    line.on_stall(lambda: {2, 1})
    hub, found = Channel(theirs, 100), []
    while not any(message.header["do"] == "stalled" for message in found):
        assert select.select([hub], [], [], LONG)[0]
        found += hub.receive()
        hub.send({"do": "beat"})
        hub.flush()
    assert found[-1].header == {"do": "stalled", "ranks": [1, 2], "step": 7}
    assert {message.header["do"] for message in found[:-1]} == {"beat"}
    line.close()
    hub.close()
