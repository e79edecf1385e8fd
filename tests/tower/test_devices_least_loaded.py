"""The least loaded of several devices, against sorting by hand."""

import numpy as np
import pytest

from tpack.errors import ConfigError
from tpack.tower.devices import LeastLoaded


def test_take_gives_equal_loads_to_the_first():
    load = LeastLoaded(["a", "b", "c"])
    assert [load.take(1) for _ in range(4)] == ["a", "b", "c", "a"]
    assert load.sizes == [2, 1, 1]


def test_take_keeps_loads_within_the_largest_item(rng):
    load, expected = LeastLoaded("abcd"), np.zeros(4, int)
    for size in rng.integers(1, 1000, 200).tolist():
        least = int(np.argmin(expected))
        assert load.take(size) == "abcd"[least]
        expected[least] += size
    assert load.sizes == expected.tolist()
    assert max(load.sizes) - min(load.sizes) <= 1000


def test_no_device_is_an_error():
    with pytest.raises(ConfigError, match="at least one device"):
        LeastLoaded([])
