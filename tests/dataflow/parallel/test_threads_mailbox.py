"""Queues between threads."""

import threading

import pytest

from tpack.dataflow.base import DataFlowTerminated
from tpack.dataflow.parallel.threads import _Mailbox, _MailboxClosedError

SECS = 300


def run(function, *args):
    """Run in a thread; return the thread, and a list of what the function returned or raised."""
    results = []

    def catch():
        try:
            results.append(function(*args))
        except _MailboxClosedError as error:
            results.append(error)

    thread = threading.Thread(target=catch)
    thread.start()
    return thread, results


def test_items_come_in_their_order():
    box = _Mailbox()
    assert not box.has_items
    for k in range(5):
        box.put(k)
    assert box.has_items
    assert [box.get() for _ in range(5)] == [0, 1, 2, 3, 4]


def test_put_waits_for_room_and_get_for_an_item():
    box = _Mailbox(1)
    getter, got = run(lambda: [box.get() for _ in range(100)])
    for k in range(100):
        box.put(k)
    getter.join(SECS)
    assert got == [list(range(100))]


@pytest.mark.parametrize("action", [lambda box: box.put(2), lambda box: (box.get(), box.get())], ids=["put", "get"])
def test_closing_wakes_who_waits(action):
    box = _Mailbox(1)
    box.put(1)
    thread, results = run(action, box)
    box.close()
    thread.join(SECS)
    assert isinstance(results[0], DataFlowTerminated)


def test_closed_mailbox_is_empty_and_refuses():
    box = _Mailbox()
    box.put(1)
    box.close()
    assert not box.has_items
    with pytest.raises(_MailboxClosedError, match=r"were ended: use reset_state\(\)"):
        box.get()
    with pytest.raises(_MailboxClosedError, match=r"were ended: use reset_state\(\)"):
        box.put(2)
