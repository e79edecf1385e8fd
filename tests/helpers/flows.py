"""Flows that the tests of flows wrap. They live in a module, so that they can be pickled."""

import numpy as np

from tpack.dataflow.base import DataFlow

COUNT = 7


class Counting(DataFlow):
    """Yield ``[0, "0"]``, ``[1, "1"]``, ... and count how often it is reset and begun."""

    def __init__(self, count=COUNT):
        self.count = count
        self.num_resets = 0
        self.num_passes = 0

    def __len__(self):
        return self.count

    def __iter__(self):
        self.num_passes += 1
        for k in range(self.count):
            yield [k, str(k)]

    def reset_state(self):
        self.num_resets += 1


class Unsized(Counting):
    """The same, and does not know its length."""

    __len__ = DataFlow.__len__


class Broken(DataFlow):
    """Raise in the middle of the first pass, and be whole in later ones."""

    def __init__(self, good_points=3):
        self.good_points = good_points
        self.num_passes = 0

    def __len__(self):
        return COUNT

    def __iter__(self):
        self.num_passes += 1
        for k in range(COUNT):
            if k == self.good_points and self.num_passes == 1:
                raise OSError("the disk is gone")
            yield [k, str(k)]


def generate():
    """Yield the data points of ``Counting``."""
    yield from Counting()


def same(value):
    """Return the argument."""
    return value


def twice(point):
    """Return two data points for one."""
    return [point, [*point]]


def picture(point):
    """Make an image and a class number, from 0 to 6, of the first component."""
    return [np.full((4, 6, 3), point[0], np.float32), int(point[0]) % 7]


def widen(point):
    """Make an array of the first component, of one of three shapes."""
    return [np.full(point[0] % 3, point[0]), *point[1:]]
