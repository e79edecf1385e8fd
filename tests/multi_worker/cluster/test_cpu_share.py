"""Workers of one machine share its cores, unless each was given cores of its own."""

import pytest

from tests.helpers.peer_groups import joined, together
from tpack.multi_worker.cluster import cpu_share
from tpack.multi_worker.cluster.cpu_share import share_of_cores


@pytest.mark.parametrize(
    ("of_workers", "shares"),
    [
        # All may run on all of them, also on more than one line of 64.
        ([range(4), range(4), range(4)], [1, 1, 1]),
        ([range(96), range(96), range(96)], [32, 32, 32]),
        # Each has its own.
        ([range(4), range(4, 8), range(8, 12)], [4, 4, 4]),
        # Two have some in common, and the third is apart.
        ([range(4), range(2, 6), [7]], [3, 3, 1]),
        # There are more workers than cores.
        ([[0], [0], range(2)], [1, 1, 1]),
    ],
)
def test_each_core_is_shared_by_the_workers_that_may_use_it(monkeypatch, of_workers, shares):
    with joined(3) as peers:
        masks = [sum(1 << core for core in numbers) for numbers in of_workers]
        gather = type(peers[0]).gather
        monkeypatch.setattr(
            type(peers[0]), "gather", lambda one, topic, told: gather(one, topic, [told[0], f"{masks[one.rank]:x}"])
        )
        assert together(peers, share_of_cores) == shares


def test_workers_of_other_machines_have_their_own(monkeypatch):
    monkeypatch.setattr(cpu_share.os, "sched_getaffinity", lambda pid: range(4))
    with joined(3) as peers:
        gather = type(peers[0]).gather
        names = ["a", "b", "a"]
        monkeypatch.setattr(
            type(peers[0]), "gather", lambda one, topic, told: gather(one, topic, [names[one.rank], told[1]])
        )
        assert together(peers, share_of_cores) == [2, 4, 2]


def test_workers_of_one_machine_are_told_by_what_it_calls_itself(monkeypatch, tmp_path):
    monkeypatch.setattr(cpu_share.os, "sched_getaffinity", lambda pid: range(4))
    with joined(2) as peers:
        assert together(peers, share_of_cores) == [2, 2]
        monkeypatch.setattr(cpu_share, "_BOOT_ID", tmp_path / "none")
        assert together(peers, share_of_cores) == [2, 2]
