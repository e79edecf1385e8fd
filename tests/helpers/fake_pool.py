"""Workers without threads or processes: they map points when asked for a result, in an order that the test chooses."""

import random

from tpack.dataflow.parallel.map_flow import MapPool, Result


class FakePool(MapPool):
    """Map with ``func``; return results in random order, and take no more than ``room`` points at a time."""

    def __init__(self, func, room=1000, seed=3):
        self.func = func
        self.room = room
        self.most = 0
        self.jobs = []
        self.random = random.Random(seed)
        self.closed = False

    def submit(self, tag, point):
        if len(self.jobs) >= self.room:
            return False
        self.jobs.append((tag, point))
        self.most = max(self.most, len(self.jobs))
        return True

    def receive(self):
        tag, point = self.jobs.pop(self.random.randrange(len(self.jobs)))
        try:
            return Result(tag, self.func(point), None)
        except OSError as error:
            # As if it came from another thread or process, whose frames are not those of who receives it.
            return Result(tag, None, error.with_traceback(None))

    @property
    def is_closed(self):
        return self.closed

    def close(self):
        self.closed = True
