"""Processes that map points."""

import os
import signal
import threading

import pytest

from tests.helpers.worker_functions import wait
from tpack.dataflow.parallel.process_map import _ProcessPool, serve_map
from tpack.dataflow.parallel.worker_group import GroupOptions, WorkerPool
from tpack.errors import DataPointError, DataWorkerError


@pytest.fixture
def start():
    """A function that starts a pool; it is closed after the test."""
    pools = []

    def start_pool(func, count=2, *, capacity=4, timeout=None):
        options = GroupOptions(count, capacity, capacity, timeout, "spawn", 1)
        pools.append(_ProcessPool(WorkerPool("Owner", serve_map, (func,), options)))
        return pools[-1]

    yield start_pool
    for pool in pools:
        pool.close()


def tenfold(point):
    return [point[0] * 10] if point[0] != 3 else None


def test_every_point_comes_back_with_its_tag(start):
    pool = start(tenfold)
    found, submitted = [], 0
    while len(found) < 50:
        while submitted < 50 and pool.submit(("tag", submitted), [submitted]):
            submitted += 1
        found.append(pool.receive())
    assert sorted(result.tag[1] for result in found) == list(range(50))
    assert all(result.point == tenfold([result.tag[1]]) and result.error is None for result in found)


def test_points_go_to_the_worker_with_the_fewest(start):
    pool = start(wait, 3)
    for k in range(7):
        assert pool.submit(k, [k])
    assert sorted(map(len, pool._tags)) == [2, 2, 3]


def test_pool_without_room_says_so_while_results_are_to_come(start):
    pool = start(tenfold, 1, capacity=1)
    submitted = 0
    while pool.submit(submitted, [b"x" * 30_000, submitted] if submitted else [1]):
        submitted += 1
    assert submitted >= 1
    assert {pool.receive().tag for _ in range(submitted)} == set(range(submitted))
    # Now nothing is to come, so it waits for room.
    assert pool.submit("next", [2])
    assert pool.receive().point == [20]


def test_exception_is_a_result(start):
    pool = start(lambda point: 1 / point[0])
    pool.submit(0, [0])
    tag, point, error = pool.receive()
    assert (tag, point) == (0, None)
    assert "of Owner raised ZeroDivisionError" in str(error)
    assert isinstance(error.__cause__, ZeroDivisionError)


def test_point_that_cannot_be_pickled_is_not_submitted(start):
    pool = start(tenfold)
    with pytest.raises(DataPointError, match="cannot be sent"):
        pool.submit(0, [threading.Lock()])
    pool.submit(1, [1])
    assert pool.receive() == (1, [10], None)


def test_pool_may_idle_for_longer_than_its_timeout_and_a_worker_with_points_may_not(start):
    pool = start(wait, 2, timeout=0.2)
    assert pool._group._expected == set()
    pool.submit(0, [0])
    assert len(pool._group._expected) == 1
    with pytest.raises(DataWorkerError, match="hangs"):
        pool.receive()
    assert pool.is_closed


def test_dead_worker_is_noticed_wherever_the_pool_is(start):
    def killed():
        pool = start(wait, 1)
        os.kill(pool._group.pids[0], signal.SIGKILL)
        return pool

    def submit_for_ever(pool):
        while True:
            pool.submit(0, [0])

    with pytest.raises(DataWorkerError, match="SIGKILL"):
        submit_for_ever(killed())
    pool = start(wait, 1)
    pool.submit(0, [0])
    # One point is held back.
    assert pool.submit(1, [1])
    assert pool.submit(2, [2])
    os.kill(pool._group.pids[0], signal.SIGKILL)
    with pytest.raises(DataWorkerError, match="SIGKILL"):
        pool.receive()
