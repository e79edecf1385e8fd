"""What runs in a worker, run in a thread of the test, which is the owner."""

import socket
import threading
from contextlib import contextmanager

from tpack.dataflow.parallel.receiver import Receiver
from tpack.dataflow.parallel.sender import Sender
from tpack.dataflow.parallel.slots import PeerGoneError
from tpack.dataflow.parallel.worker import ParentLink

SECS = 300


class Owner:
    """The owner's ends of the channels."""

    def __init__(self, jobs, results):
        self.jobs = jobs
        self.results = results

    def submit(self, *points):
        """Send points to the worker."""
        for point in points:
            self.jobs.put(point)
        self.jobs.flush()

    def receive(self, count):
        """Return the kinds and contents of what comes, one pair for each of so many points and other things."""
        found = []
        while len(found) < count:
            message = self.results.receive()
            found += [(message.kind, point) for point in message.points or [message.number]]
        assert len(found) == count
        return found


@contextmanager
def served(serve, *arguments, capacity=50):
    """Run a function with a link; yield the owner."""
    results_here, results_there = socket.socketpair()
    jobs_here, jobs_there = socket.socketpair()
    link = ParentLink(Sender(results_there, capacity, has_flusher=True), Receiver(jobs_there))
    raised = []

    def run():
        try:
            serve(link, *arguments)
        except PeerGoneError as error:
            raised.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    owner = Owner(Sender(jobs_here, capacity, has_flusher=False), Receiver(results_here))
    try:
        yield owner
    finally:
        owner.jobs.close()
        owner.results.close()
        thread.join(SECS)
        link.results.close()
        link.jobs.close()
    assert not thread.is_alive()
    assert len(raised) == 1
