"""Threads that map points."""

import threading

import pytest

from tpack.dataflow.base import DataFlowTerminated
from tpack.dataflow.parallel.threads import _ThreadPool

SECS = 300


def own_threads():
    return [thread for thread in threading.enumerate() if thread.name.startswith("Pool-")]


def join(threads):
    for thread in threads:
        thread.join(SECS)
    return [thread for thread in threads if thread.is_alive()]


def fail(point):
    raise OSError("gone")


@pytest.fixture
def start():
    """A function that starts a pool; it is closed after the test, and its threads end."""
    pools = []

    def start_pool(func, count=2):
        pools.append(_ThreadPool("Pool", func, count))
        return pools[-1]

    yield start_pool
    for pool in pools:
        pool.close()
    assert join(own_threads()) == []


def test_every_point_comes_back_with_its_tag(start):
    pool = start(lambda point: point * 10)
    for k in range(20):
        assert pool.submit(f"tag {k}", k)
    found = {pool.receive() for _ in range(20)}
    assert found == {(f"tag {k}", 10 * k, None) for k in range(20)}


def test_points_are_mapped_at_the_same_time(start):
    barrier = threading.Barrier(3)
    pool = start(lambda point: barrier.wait(SECS), count=3)
    for k in range(3):
        pool.submit(k, k)
    assert {pool.receive().point for _ in range(3)} == {0, 1, 2}


def test_exception_is_a_result_and_the_thread_goes_on(start):
    pool = start(lambda point: 1 / point, count=1)
    for k in range(3):
        pool.submit(k, k)
    tag, point, error = pool.receive()
    assert (tag, point) == (0, None)
    assert str(error) == "thread Pool-0 raised ZeroDivisionError: division by zero"
    assert isinstance(error.__cause__, ZeroDivisionError)
    assert pool.receive() == (1, 1.0, None)


def test_closed_pool_refuses_and_its_threads_end(start):
    pool = start(len)
    assert not pool.is_closed
    pool.close()
    assert pool.is_closed
    assert join(own_threads()) == []
    with pytest.raises(DataFlowTerminated, match=r"were ended: use reset_state\(\)"):
        pool.submit(0, [])
    with pytest.raises(DataFlowTerminated, match=r"were ended: use reset_state\(\)"):
        pool.receive()


def test_threads_end_with_the_pool(start):
    pool = _ThreadPool("Pool", len, 3)
    threads = own_threads()
    assert len(threads) == 3
    del pool
    assert join(threads) == []
