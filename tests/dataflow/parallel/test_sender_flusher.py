"""The thread that sends what is held back."""

import threading

from tpack.dataflow.parallel.sender import _Flusher
from tpack.dataflow.parallel.slots import PeerGoneError

WAIT_SECS = 300


def test_what_is_expected_is_flushed_again_and_again():
    flushed = threading.Semaphore(0)
    flusher = _Flusher(flushed.release)
    for _ in range(3):
        flusher.expect()
        assert flushed.acquire(timeout=WAIT_SECS)
    flusher.stop()


def test_no_thread_is_made_before_it_is_needed_and_it_ends_when_stopped():
    before = set(threading.enumerate())
    flushed = threading.Event()
    flusher = _Flusher(flushed.set)
    assert set(threading.enumerate()) == before
    flusher.expect()
    flusher.expect()
    assert flushed.wait(WAIT_SECS)
    (thread,) = set(threading.enumerate()) - before
    flusher.stop()
    thread.join(WAIT_SECS)
    assert not thread.is_alive()


def test_thread_ends_when_the_other_process_is_gone():
    def flush():
        raise PeerGoneError("gone")

    before = set(threading.enumerate())
    flusher = _Flusher(flush)
    flusher.expect()
    for thread in set(threading.enumerate()) - before:
        thread.join(WAIT_SECS)
    assert set(threading.enumerate()) <= before
