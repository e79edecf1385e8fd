"""Data points to store and read again, and how to tell that they are the same."""

import numpy as np

from tpack.dataflow.sources import DataFromList


def make_points(count=7):
    """Return data points of arrays of several shapes, numbers, strings and None."""
    rng = np.random.default_rng(3)
    return [
        [rng.integers(0, 256, (k % 3, 5), np.uint8), k, f"name {k}", np.float32(k), None, {"more": [k, b"bytes"]}]
        for k in range(count)
    ]


def make_alike_points(count=600):
    """Return data points of numbers and arrays that are all of one shape."""
    rng = np.random.default_rng(3)
    return [[rng.normal(size=(2, 3)).astype("f4"), k, 0.5 * k] for k in range(count)]


def flow_of(points):
    """Return a flow of the points in their order."""
    return DataFromList(points, shuffle=False)


def assert_same(found, wanted):
    """Compare lists of data points."""
    assert len(found) == len(wanted)
    for one, other in zip(found, wanted, strict=True):
        assert len(one) == len(other)
        for left, right in zip(one, other, strict=True):
            assert getattr(left, "dtype", None) == getattr(right, "dtype", None)
            np.testing.assert_array_equal(left, right)


def read_all(ds):
    """Reset a flow and return its first pass."""
    ds.reset_state()
    return list(ds)


def flip(path, position, bits=1):
    """Flip bits of one byte of a file."""
    data = bytearray(path.read_bytes())
    data[position] ^= bits
    path.write_bytes(data)
