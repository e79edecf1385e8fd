"""Threads that iterate flows."""

import threading

import pytest

from tests.helpers.flows import COUNT, Broken, Counting
from tests.helpers.worker_functions import Sometimes
from tpack.dataflow.base import DataFlowTerminated
from tpack.dataflow.parallel.threads import _ThreadCrew
from tpack.errors import DataWorkerError

SECS = 300


def own_threads():
    return [thread for thread in threading.enumerate() if thread.name.startswith("Crew-")]


@pytest.fixture
def start():
    """A function that starts a crew; it is closed after the test, and its threads end."""
    crews = []

    def start_crew(flows, length=None, num_prefetch=3):
        crews.append(_ThreadCrew("Crew", flows, num_prefetch, length))
        return crews[-1]

    yield start_crew
    for crew in crews:
        crew.close()
    for thread in own_threads():
        thread.join(SECS)
    assert own_threads() == []


def numbers(crew):
    return sorted(point[0] for point in crew.iterate())


def test_one_thread_gives_the_passes_of_its_flow(start):
    crew = start([Counting()])
    assert [list(crew.iterate()) for _ in range(2)] == [list(Counting())] * 2


def test_pass_of_unknown_length_is_one_of_each_flow(start):
    crew = start([Counting(3), Counting(5)])
    assert [numbers(crew) for _ in range(3)] == [[0, 0, 1, 1, 2, 2, 3, 4]] * 3


def test_pass_that_was_broken_off_leaves_nothing_behind(start):
    crew = start([Counting(3), Counting(5)], num_prefetch=1)
    for _ in range(10):
        next(crew.iterate())
        assert numbers(crew) == [0, 0, 1, 1, 2, 2, 3, 4]


def test_passes_of_known_length_are_cut_from_the_mixture(start):
    crew = start([Counting(), Counting()], length=COUNT)
    found = [point[0] for _ in range(20) for point in crew.iterate()]
    assert len(found) == 20 * COUNT
    next(crew.iterate())
    assert len(list(crew.iterate())) == COUNT


@pytest.mark.parametrize("length", [None, COUNT])
def test_exception_comes_out_with_its_traceback_and_the_next_pass_is_whole(start, length):
    crew = start([Broken()] if length is None else [Broken(), Broken()], length)
    failures = 0
    while failures < (1 if length is None else 2):
        with pytest.raises(DataWorkerError, match=r"thread Crew-\d raised OSError: the disk is gone") as caught:
            # Which thread's points come, and how many passes it takes until each has failed, is up to the scheduler.
            while True:
                list(crew.iterate())
        assert isinstance(caught.value.__cause__, OSError)
        assert caught.value.__cause__.__traceback__.tb_next is not None
        failures += 1
    assert len(list(crew.iterate())) == COUNT


def test_closing_wakes_who_waits_for_a_thread_that_gives_nothing(start):
    waits, end = threading.Event(), threading.Event()

    def wait():
        waits.set()
        end.wait()

    crew = start([Sometimes(wait, 0)])
    closer = threading.Thread(target=lambda: (waits.wait(SECS), crew.close()))
    closer.start()
    with pytest.raises(DataFlowTerminated, match=r"were ended: use reset_state\(\)"):
        list(crew.iterate())
    closer.join()
    # The thread itself goes on until its flow gives the next point.
    assert len(own_threads()) == 1
    end.set()


def test_threads_end_with_the_crew(start):
    crew = _ThreadCrew("Crew", [Counting(), Counting()], 1, COUNT)
    next(crew.iterate())
    assert len(own_threads()) == 2
    threads = own_threads()
    del crew
    for thread in threads:
        thread.join(SECS)
    assert own_threads() == []
