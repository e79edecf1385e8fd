"""What workers of tests run. It lives in a module, so that they import it and not a test file."""

import multiprocessing
import os
import random
import signal
import sys
import threading
import time

import numpy as np

from tpack.dataflow.base import DataFlow, RNGDataFlow
from tpack.dataflow.parallel.slots import Record


def echo(link, prefix):
    """Answer each point with a pair."""
    while True:
        for point in link.jobs.receive().points:
            link.results.put([prefix, point])


def do(link, what):
    """Do something fatal, or say something about the process, after the first point has come."""
    link.jobs.receive()
    WHAT[what](link)


def wait(link=None):
    """Wait for ever."""
    threading.Event().wait()


def fail(link=None):
    """Raise."""
    raise OSError("the disk is gone")


def end_with_points(link):
    """Send points, the last ones held back, and end."""
    for k in range(5):
        link.results.put([k])
    link.results.flush()
    raise SystemExit(7)


def points_and_failure(link):
    """Send points that nobody reads, and raise."""
    for k in range(5):
        link.results.put([k])
    fail()


def describe(link):
    """Send what the process is like."""
    link.results.send(
        Record.POINT,
        {
            "name": multiprocessing.current_process().name,
            "argv": sys.argv,
            "tensorflow": "tensorflow" in sys.modules,
            "numbers": [random.random(), float(np.random.uniform())],
            "blocked": signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, []),
            "pid": os.getpid(),
        },
    )
    wait()


WHAT = {
    "wait": wait,
    "fail": fail,
    "exit": lambda link: os._exit(3),
    "system exit": end_with_points,
    "text exit": lambda link: sys.exit("the disk is full"),
    "exit without code": lambda link: sys.exit(),
    "points and failure": points_and_failure,
    "die": lambda link: os.kill(os.getpid(), signal.SIGKILL),
    "describe": describe,
}


class Randoms(RNGDataFlow):
    """Yield numbers of the flow's own generator, and of numpy's."""

    def __init__(self, count=3):
        self.count = count

    def __len__(self):
        return self.count

    def __iter__(self):
        for _ in range(self.count):
            yield [float(self.rng.uniform()), float(np.random.uniform()), os.getpid()]


class Sometimes(DataFlow):
    """Yield some points, then do something else; know the length only if it is asked for."""

    def __init__(self, then, good_points=3, length=None):
        self.then = then
        self.good_points = good_points
        self.length = length

    def __len__(self):
        return super().__len__() if self.length is None else self.length

    def __iter__(self):
        for k in range(self.good_points):
            yield [k]
        self.then()
        yield [self.good_points]


class Images(DataFlow):
    """Yield arrays that say which they are, in every byte."""

    def __init__(self, count, size):
        self.count = count
        self.size = size

    def __len__(self):
        return self.count

    def __iter__(self):
        for k in range(self.count):
            yield [np.full(self.size, k % 251, np.uint8), k]


def close_and_end(code: int) -> None:
    """Close what is open, and end later, as a large process does whose memory takes the kernel some time."""
    os.closerange(3, 1024)
    time.sleep(0.3)
    os._exit(code)
