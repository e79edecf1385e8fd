"""The two ends of a channel, both in one process, for tests of each end."""

import socket
from contextlib import contextmanager

from tpack.dataflow.parallel.receiver import Receiver
from tpack.dataflow.parallel.sender import Sender


@contextmanager
def channel(capacity=50, *, has_flusher=False):
    """Yield a sender and a receiver that are connected."""
    here, there = socket.socketpair()
    sender, receiver = Sender(here, capacity, has_flusher=has_flusher), Receiver(there)
    try:
        yield sender, receiver
    finally:
        sender.close()
        receiver.close()


def take_all(receiver):
    """Return all messages that have come; new memory comes by itself, so that one look is not enough."""
    found = []
    for _ in range(5):
        receiver.fill(wait=False)
        while receiver.has_message:
            found.append(receiver.take())
    return found


def exchange(sender, receiver, points):
    """Send data points one by one; return what arrives."""
    found = []
    for point in points:
        sender.put(point)
        sender.flush()
        found += receiver.receive().points
    return found
