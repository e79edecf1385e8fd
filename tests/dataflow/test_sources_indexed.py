"""Flows over data that can be read at any place."""

import numpy as np
import pytest

from tpack.dataflow.sources import IndexedDataFlow
from tpack.errors import InputError


class Squares(IndexedDataFlow):
    """Yield the squares of numbers, and remember which were asked for."""

    def __init__(self, count=6, shuffle=False, broken=None):
        super().__init__(shuffle)
        self.count = count
        self.broken = broken
        self.read = []

    def __len__(self):
        return self.count

    def _read(self, index):
        self.read.append(index)
        if index == self.broken:
            raise OSError("the disk is gone")
        return [index**2]


def ready(*args, **kwargs):
    ds = Squares(*args, **kwargs)
    ds.reset_state()
    return ds


def test_points_come_in_order_or_in_a_new_order_on_each_pass():
    assert [point[0] for point in ready()] == [0, 1, 4, 9, 16, 25]
    ds = ready(50, shuffle=True)
    passes = [[point[0] for point in ds] for _ in range(2)]
    assert passes[0] != passes[1]
    assert sorted(passes[0]) == sorted(passes[1]) == [k**2 for k in range(50)]


def test_going_on_reads_nothing_that_was_read_before():
    ds = ready()
    points = iter(ds)
    for _ in range(4):
        next(points)
    other = ready()
    other.load_state_dict(ds.state_dict())
    assert [point[0] for point in other] == [16, 25]
    assert other.read == [4, 5]


def test_point_that_could_not_be_read_was_not_taken():
    ds = ready(broken=3)
    with pytest.raises(OSError, match="the disk is gone"):
        list(ds)
    assert ds.state_dict()["index"] == 3


def test_state_of_older_pass_does_not_matter():
    ds = ready(shuffle=True)
    old = iter(ds)
    next(old)
    new = iter(ds)
    wanted = [next(new), next(new)]
    next(old)
    state = ds.state_dict()
    assert state["index"] == 2
    rest = list(new)
    other = ready(shuffle=True)
    other.load_state_dict(state)
    assert list(other) == rest
    assert len(wanted + rest) == 6


def test_state_of_other_data_or_order_is_refused():
    state = ready().state_dict()
    with pytest.raises(InputError, match="Squares got a state over 6 data points and has 7: the data has changed"):
        ready(7).load_state_dict(state)
    with pytest.raises(InputError, match="Squares got the state of one with shuffle=False"):
        ready(shuffle=True).load_state_dict(state)
    with pytest.raises(InputError, match="Squares got the state of one with shuffle=True"):
        ready().load_state_dict(ready(shuffle=True).state_dict())
    with pytest.raises(InputError, match="with index=7: expected an integer from 0 to 6"):
        ready().load_state_dict({**state, "index": 7})


def test_generator_that_a_script_set_is_used_and_told():
    first, second = ready(shuffle=True), ready(shuffle=True)
    first.rng = np.random.RandomState(3)
    second.load_state_dict(first.state_dict())
    assert list(first) == list(second)
