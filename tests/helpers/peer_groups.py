"""Workers that are peers, in threads of this process, or as forks of a process that loads nothing but what they need.

``python -m tests.helpers.peer_groups FAULT`` forks three workers, of which one meets with a fault, and prints for each
of the others what it was told, and how long that took.
"""

import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

from tpack.errors import TpackError
from tpack.multi_worker.cluster.cluster_spec import ClusterMember
from tpack.multi_worker.cluster.peers import Peers, connect_peers
from tpack.multi_worker.cluster.ports import PortReservation
from tpack.multi_worker.control.handshake import RendezvousOptions

SECRET = "a secret of 24 characters"
LONG = 60.0
HEARTBEAT_SECS = 1.0
SIZE = 3


def member_of(point: RendezvousOptions, rank: int, num_ps: int = 0) -> ClusterMember:
    """Return one worker, or parameter server, of those that meet at a point.

    Args:
        point: where.
        rank: its number.
        num_ps: how many parameter servers there are.
    """
    cluster = {"worker": tuple(f"127.0.0.1:{port}" for port in range(1, point.size + 1))}
    if num_ps:
        cluster["ps"] = tuple(f"127.0.0.1:{port}" for port in range(1001, num_ps + 1001))
    job, index = ("worker", rank) if rank < point.size else ("ps", rank - point.size)
    return ClusterMember(cluster, job, index, rendezvous=point)


def outcome(function: Callable[[], Any]) -> Any:
    """Return what a function returns, or the error of tpack's that it raises."""
    try:
        return function()
    except TpackError as error:
        return error


def together(peers: list[Peers], function: Callable[[Peers], Any]) -> list[Any]:
    """Call a function for all peers at the same time; return what came of each."""
    with ThreadPoolExecutor(len(peers)) as pool:
        return list(pool.map(lambda one: outcome(lambda: function(one)), peers))


@contextmanager
def joined(size: int = SIZE, num_ps: int = 0, **limits: float) -> Iterator[list[Peers]]:
    """Give the peers of a cluster, all in this process; closed at the end."""
    limits = {"heartbeat_secs": LONG, "straggler_secs": LONG, "timeout_secs": LONG, **limits}
    with PortReservation() as reservation:
        point = RendezvousOptions(f"127.0.0.1:{reservation.port}", size, "job", SECRET, LONG)
        members = [member_of(point, rank, num_ps) for rank in range(size + num_ps)]
        with ThreadPoolExecutor(size + num_ps) as pool:
            found = list(pool.map(lambda member: outcome(lambda: connect_peers(member, **limits)), members))
        peers = [each for each in found if isinstance(each, Peers)]
        try:
            assert len(peers) == len(members), found
            yield peers
        finally:
            # Parameter servers are let go by worker 0.
            together(peers[:size], Peers.close)
            for each in peers[size:]:
                each.close()


# One of the workers meets with a fault.


def _kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _stop() -> None:
    os.kill(os.getpid(), signal.SIGSTOP)


FAULTS = {"killed": (1, _kill), "stopped": (1, _stop), "chief killed": (0, _kill), "chief stopped": (0, _stop)}


def _work(point: RendezvousOptions, rank: int, fault: str) -> None:
    whose, happens = FAULTS[fault]
    peers = connect_peers(member_of(point, rank), heartbeat_secs=HEARTBEAT_SECS, timeout_secs=LONG)
    peers.barrier("the beginning")
    began = time.monotonic()
    if rank == whose:
        # When it leaves the second barrier, all have left the first one.
        peers.barrier("the middle")
        happens()
    error = outcome(lambda: [peers.barrier(topic) for topic in ("the middle", "a step that never ends")])
    told = {"rank": rank, "error": str(error), "ranks": error.ranks, "secs": time.monotonic() - began}
    # In one piece: the others write to the same pipe.
    os.write(sys.stdout.fileno(), json.dumps(told).encode() + b"\n")


def main() -> None:
    """Fork the workers, and wait until those that are whole have ended."""
    fault = sys.argv[1]
    with PortReservation() as reservation:
        point = RendezvousOptions(f"127.0.0.1:{reservation.port}", SIZE, "job", None, LONG)
        pids = {}
        for rank in range(SIZE):
            pids[rank] = os.fork()
            if not pids[rank]:
                try:
                    _work(point, rank, fault)
                finally:
                    os._exit(0)
        victim = pids.pop(FAULTS[fault][0])
        for pid in pids.values():
            os.waitpid(pid, 0)
        os.kill(victim, signal.SIGKILL)
        os.waitpid(victim, 0)


if __name__ == "__main__":
    main()
