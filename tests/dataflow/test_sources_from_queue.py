"""Data points from a queue."""

import queue
from itertools import islice

import pytest

from tpack.dataflow.sources import DataFromQueue
from tpack.dataflow.state import StatelessError
from tpack.errors import ConfigError


def test_points_come_in_the_order_of_the_queue():
    source = queue.Queue()
    for k in range(5):
        source.put([k])
    ds = DataFromQueue(source)
    ds.reset_state()
    assert list(islice(ds, 3)) == [[0], [1], [2]]
    assert list(islice(ds, 2)) == [[3], [4]]
    assert source.empty()


def test_queue_has_no_length_and_no_position():
    ds = DataFromQueue(queue.Queue())
    with pytest.raises(NotImplementedError, match="DataFromQueue does not know its length"):
        len(ds)
    with pytest.raises(StatelessError, match="DataFromQueue cannot tell its position"):
        ds.state_dict()


def test_what_is_no_queue_is_refused():
    with pytest.raises(ConfigError, match=r"DataFromQueue got a list: wanted a queue, with a method get\(\)"):
        DataFromQueue([1])
