"""A block that ends when another worker is lost, whatever it waits for."""

import os
import subprocess
import sys
import threading

import pytest

from tests.helpers.peer_groups import LONG, joined
from tests.helpers.source import ROOT
from tpack.errors import ClusterError, PeerLostError
from tpack.multi_worker.cluster.cluster_spec import ClusterMember
from tpack.multi_worker.cluster.exit_codes import lost_by
from tpack.multi_worker.cluster.peer_failure import ended_by_loss
from tpack.multi_worker.cluster.peers import connect_peers


@pytest.fixture
def pair():
    """Two workers."""
    with joined(2, heartbeat_secs=1.0, straggler_secs=1.0) as peers:
        yield peers


def test_what_a_block_waits_for_is_broken_off_and_the_error_names_who_was_lost(pair):
    returned = threading.Event()
    with (
        pytest.raises(PeerLostError, match="worker 1 failed: no memory") as caught,
        ended_by_loss(pair[0], returned.set),
    ):
        pair[1].report_failure("no memory")
        assert returned.wait(LONG)
        raise ConnectionError("the session was closed")
    assert isinstance(caught.value.__cause__, ConnectionError)


def test_a_block_that_ends_well_ends_badly_if_another_was_lost(pair):
    with pytest.raises(PeerLostError, match="worker 1 failed: no memory"), ended_by_loss(pair[0], lambda: None):
        pair[1].report_failure("no memory")
        assert pair[0].wait_until_lost()


def test_what_a_block_raises_is_told_to_the_others(pair):
    with pytest.raises(ZeroDivisionError), ended_by_loss(pair[0], lambda: None):
        print(1 / 0)
    assert pair[1].wait_until_lost()
    assert str(pair[1].error) == "worker 0 failed: ZeroDivisionError: division by zero"


def test_an_error_of_a_connection_waits_until_it_is_known_who_was_lost(pair):
    raised, failing = threading.Event(), None
    try:
        with (
            pytest.raises(PeerLostError, match="worker 1 failed: killed") as caught,
            ended_by_loss(pair[0], lambda: None, lost_connection=(ConnectionError,)),
        ):
            failing = threading.Thread(target=lambda: (raised.wait(LONG), pair[1].report_failure("killed")))
            failing.start()
            raised.set()
            raise ConnectionError("unavailable")
        assert isinstance(caught.value.__cause__, ConnectionError)
    finally:
        failing.join()
    with joined(2, heartbeat_secs=0.2, straggler_secs=1.0) as peers:
        # Nobody was lost, so that the error is this worker's own.
        with pytest.raises(ConnectionError), ended_by_loss(peers[0], lambda: None, lost_connection=(ConnectionError,)):
            raise ConnectionError("unavailable")
        assert peers[1].wait_until_lost()
        assert "worker 0 failed: ConnectionError: unavailable" in str(peers[1].error)


def test_an_error_of_the_peers_stays_what_it_is(pair):
    with pytest.raises(ClusterError, match="my own") as caught, ended_by_loss(pair[0], lambda: None):
        pair[1].report_failure("no memory")
        assert pair[0].wait_until_lost()
        raise ClusterError("my own")
    assert caught.value.__cause__ is None


def test_a_process_that_is_alone_is_left_alone():
    with pytest.raises(ValueError, match="boo"), ended_by_loss(connect_peers(ClusterMember()), pytest.fail):
        raise ValueError("boo")


# The main thread of worker 0 waits for ever, or holds Python's lock, once worker 1 is lost.
SCRIPT = """
import ctypes, threading, time
from tests.helpers.peer_groups import joined
from tpack.multi_worker.cluster import peer_failure
survivors._LAST_SECS = 1.0
begun = threading.Event()
with joined(2) as peers:
    with survivors.ended_by_loss(peers[0], begun.set, grace_secs=0.5):
        peers[1].report_failure("no memory")
        begun.wait()
        {}
"""


@pytest.mark.parametrize(
    "wait", ["time.sleep(1000)", "ctypes.PyDLL(None).sleep(1000)"], ids=["waits", "holds the lock"]
)
def test_a_step_that_does_not_return_ends_with_the_process(wait):
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT.format(wait)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=LONG,
    )
    assert done.returncode == 75, done.stderr
    assert "Cluster: worker 1 failed: no memory" in done.stderr
    if "time.sleep" in wait:
        assert [lost_by(line) for line in done.stderr.splitlines() if lost_by(line)] == [(1,)]
