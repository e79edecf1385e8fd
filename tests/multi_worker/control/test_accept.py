"""Who is let in, and who is refused and told why; jobs with strangers are in ``test_hub.py``."""

import contextlib
import select
import threading
import time

import pytest

from tests.helpers.peer_groups import LONG, SECRET
from tpack.errors import ClusterError
from tpack.multi_worker.cluster.ports import PortReservation
from tpack.multi_worker.control.accept import Door
from tpack.multi_worker.control.handshake import RendezvousOptions, connect, is_proven, present, receive


@pytest.fixture
def door():
    """A door of which worker 2 has gone, and a list of those that have come."""
    came, comes = [], threading.Semaphore(0)

    def take(rank, connection):
        came.append(rank)
        connection.close()
        comes.release()

    with PortReservation() as reservation:
        point = RendezvousOptions(f"127.0.0.1:{reservation.port}", 4, "job", SECRET, LONG)
        door = Door(point, time.monotonic() + LONG, has_ended=lambda rank: rank == 2, comes=take)
        yield door, point, came, comes
        door.close()


def knock(door, point, rank, purpose="line", left=None):
    """Return what is answered to a worker, which has closed a line before."""
    with connect(point, rank, time.monotonic() + LONG) as connection:
        assert select.select([door], [], [], LONG)[0]
        door.open()
        numbers = present(connection, point, rank, purpose, left=left)
        return receive(connection), numbers


def test_each_worker_is_let_in_once_by_a_proof(door):
    door, point, came, comes = door
    for rank, purpose in ((1, "line"), (3, "line"), (4, "watch")):
        answer, numbers = knock(door, point, rank, purpose)
        assert is_proven(answer["proof"], SECRET, "line", *numbers, {"let_in": rank})
        assert comes.acquire(timeout=LONG)
    assert came == [1, 3, 4]
    answers = [knock(door, point, rank)[0] for rank in (0, 1, 3)]
    assert [answer["refused"].split(":")[0] for answer in answers] == [
        f"worker {rank} is there already" for rank in (0, 1, 3)
    ]
    assert len(door.refused) == 3
    assert came == [1, 3, 4]


def test_who_has_ended_may_try_again_and_who_meets_is_too_late(door):
    door, point, came, _ = door
    assert knock(door, point, 2)[0] == {"refused": "again"}
    assert "the 4 workers of this job have met already" in knock(door, point, 1, "meeting")[0]["refused"]
    assert came == []


def test_who_has_left_its_line_may_try_again_and_a_second_one_may_not(door):
    door, point, came, comes = door
    # Worker 0 has not heard of the end of any line.
    _, (number, _) = knock(door, point, 1)
    assert comes.acquire(timeout=LONG)
    assert knock(door, point, 1, left=number)[0] == {"refused": "again"}
    for left in (None, "", "another", 1):
        assert "worker 1 is there already" in knock(door, point, 1, left=left)[0]["refused"]
    for left in (None, ""):
        assert "worker 0 is there already" in knock(door, point, 0, left=left)[0]["refused"]
    assert came == [1]


def test_who_goes_before_it_was_let_in_may_come_again(door):
    door, point, came, comes = door
    with connect(point, 1, time.monotonic() + LONG) as connection:
        door.open()
        present(connection, point, 1, "line")
    # It was let in, or it was gone by then.
    with contextlib.suppress(KeyError):
        while "let_in" not in knock(door, point, 1)[0] and not came:
            pass
    assert comes.acquire(timeout=LONG)


def test_a_port_in_use_is_told_of(door):
    _, point, _, _ = door
    with pytest.raises(ClusterError, match="worker 0 cannot listen at .* set MASTER_PORT to another one"):
        Door(point, time.monotonic() + LONG, has_ended=bool, comes=print)
