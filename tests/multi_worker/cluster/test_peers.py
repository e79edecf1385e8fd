"""Workers in threads exchange values, and are told what goes wrong."""

import json
import os
import socket
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from tests.helpers.peer_groups import FAULTS, HEARTBEAT_SECS, LONG, SECRET, joined, member_of, outcome, together
from tests.helpers.source import ROOT
from tpack.errors import ClusterError, ConfigError, DataPointError, PeerLostError
from tpack.multi_worker.cluster import peers as peers_module
from tpack.multi_worker.cluster.cluster_spec import ClusterMember
from tpack.multi_worker.cluster.peers import Peers, connect_peers, ended_by_loss
from tpack.multi_worker.cluster.ports import PortReservation
from tpack.multi_worker.control.handshake import RendezvousOptions

VALUES = [
    [None, True, 1, 2.5, "text", [1, [2]], {"a": {"b": [3]}}],
    b"\0bytes",
    np.arange(6, dtype=np.int16).reshape(2, 3),
    np.zeros((0, 3), np.float64),
    {"loss": np.float32(1.5), "parts": [np.ones(3, np.uint8), b""]},
]


def assert_same(found, wanted):
    """Assert that a value is another one, arrays by dtype and shape too."""
    if isinstance(wanted, dict):
        assert found.keys() == wanted.keys()
        for name in wanted:
            assert_same(found[name], wanted[name])
    elif isinstance(wanted, list):
        for one, other in zip(found, wanted, strict=True):
            assert_same(one, other)
    else:
        assert np.array_equal(found, wanted)
        assert getattr(found, "dtype", None) == getattr(wanted, "dtype", None)


def test_all_are_given_the_values_of_all_by_rank():
    with joined() as peers:
        for value in VALUES:
            for found in together(peers, lambda one, value=value: one.gather("values", [one.rank, value])):
                assert_same(found, [[rank, value] for rank in range(3)])
        assert together(peers, lambda one: one.broadcast("seed", one.rank, root=2)) == [2, 2, 2]
        assert together(peers, lambda one: one.broadcast("nothing")) == [None] * 3
        assert together(peers, lambda one: one.barrier("end")) == [None] * 3
        # More than one message, and more than a socket holds.
        large = together(peers, lambda one: one.gather("large", np.full(1 << 20, one.rank)))
        assert all([part[0] for part in each] == [0, 1, 2] and part.size == 1 << 20 for each in large for part in each)
        assert [(one.rank, one.size, one.error) for one in peers] == [(0, 3, None), (1, 3, None), (2, 3, None)]


def test_a_process_that_is_alone_exchanges_with_itself():
    with connect_peers(ClusterMember()) as peers:
        assert (peers.rank, peers.size) == (0, 1)
        assert peers.gather("values", (1, 2)) == [[1, 2]]
        assert peers.broadcast("seed", 5) == 5
        peers.barrier("end")
        peers.note_step(3)
        peers.on_lost(pytest.fail)
        peers.on_stall(lambda: [])
        peers.report_failure("nobody hears it")
        peers.check()
        assert not peers.wait_until_lost()
        with pytest.raises(ConfigError, match="root"):
            peers.broadcast("seed", 5, root=1)


def test_values_that_cannot_be_sent_are_refused_before_others_wait(monkeypatch):
    monkeypatch.setattr(peers_module, "LARGEST_VALUE_BYTES", 1000)
    with joined(2) as peers:
        with pytest.raises(DataPointError, match="cannot be serialized"):
            peers[0].gather("values", object())
        with pytest.raises(ConfigError, match=r"a value of 10\d\d bytes for 'values': expected at most 1000"):
            peers[0].gather("values", b"x" * 1010)
        with pytest.raises(ConfigError, match="timeout_secs"):
            peers[0].gather("values", 1, timeout_secs=0)
        with pytest.raises(ConfigError, match="topic"):
            peers[0].barrier("")
        assert together(peers, lambda one: one.gather("rank", one.rank)) == [[0, 1], [0, 1]]


def test_different_calls_are_an_error_that_says_who_is_where():
    with joined() as peers:
        topics = ["checksums", "evaluation", "checksums"]
        for error in together(peers, lambda one: one.barrier(topics[one.rank])):
            assert type(error) is ClusterError
            assert "do not exchange the same: worker " in str(error)
            assert "is in 'evaluation'" in str(error)
        # Nothing is exchanged after that.
        for error in together(peers, lambda one: one.barrier("end")):
            assert "is in 'evaluation'" in str(error)
        for one in peers:
            with pytest.raises(ClusterError, match="is in 'evaluation'"):
                one.check()


def test_who_does_not_come_is_named_in_all():
    with joined() as peers:
        peers[1].note_step(17)
        lost = threading.Semaphore(0)
        for one in peers:
            one.on_lost(lambda error: lost.release())
        for error in together([peers[0], peers[2]], lambda one: one.gather("sums", 1, timeout_secs=0.5)):
            assert isinstance(error, PeerLostError)
            assert error.ranks == (1,)
            assert "worker 1 did not come to 'sums' within 0.5 s, where workers 0, 2 waited" in str(error)
        assert all(lost.acquire(timeout=LONG) for _ in peers)
        assert "worker 1 did not come" in str(peers[1].error)
        # Who asks later is told at once.
        peers[0].on_lost(lambda error: lost.release())
        assert lost.acquire(timeout=LONG)


def test_a_failure_is_told_to_the_others_with_its_text():
    with joined() as peers:
        with ThreadPoolExecutor(2) as pool:
            waiting = [pool.submit(outcome, lambda one=one: one.barrier("step")) for one in peers[:2]]
            with pytest.raises(ZeroDivisionError), peers[2]:
                print(1 / 0)
            errors = [each.result() for each in waiting]
        assert {(str(error), error.ranks) for error in errors} == {
            ("worker 2 failed: ZeroDivisionError: division by zero", (2,))
        }
        # It knows by itself, and what comes later is not what was first.
        assert peers[2].error is None
        peers[0].report_failure("for that")
        assert "ZeroDivisionError" in str(peers[1].error)


def test_who_ends_in_order_is_no_loss_until_others_wait_for_it():
    with joined() as peers:
        assert together(peers, lambda one: one.note_step(5)) == [None] * 3
        peers[1].close()
        peers[1].close()
        with pytest.raises(ClusterError, match="worker 1 has closed its control channel: 'more' cannot be"):
            peers[1].barrier("more")
        for error in together([peers[0], peers[2]], lambda one: one.barrier("more")):
            assert "worker 1 ended after step 5, and worker" in str(error)
            assert "in 'more': expected the same number of steps" in str(error)


def test_another_number_of_steps_is_an_error_in_all_that_go_on():
    with joined(heartbeat_secs=1.0) as peers:
        for one in peers:
            one.note_step(100)
        peers[1].close()
        assert not peers[0].wait_until_lost()
        peers[2].note_step(101)
        for one in (peers[0], peers[2]):
            assert one.wait_until_lost()
            assert "worker 1 ended after step 100, and worker 2 went on to step 101: expected the" in str(one.error)


def test_worker_0_waits_at_its_end_for_those_that_it_connects():
    with joined() as peers, ThreadPoolExecutor(1) as pool:
        ended = pool.submit(peers[0].close)
        # That one of the others still can end in order shows that worker 0 is there.
        peers[1].close()
        assert not ended.done()
        peers[2].close()
        ended.result(LONG)
        assert [one.error for one in peers] == [None] * 3


def test_parameter_servers_are_watched_and_end_with_the_workers():
    with joined(2, num_ps=2) as peers, ThreadPoolExecutor(2) as pool:
        served = [pool.submit(outcome, each.serve_until_end) for each in peers[2:]]
        assert together(peers[:2], lambda one: one.gather("rank", one.rank)) == [[0, 1], [0, 1]]
        assert "in a parameter server: expected a worker" in str(outcome(lambda: peers[2].barrier("step")))
        together(peers[:2], Peers.close)
        assert [each.result(LONG) for each in served] == [None, None]
    with joined(2, num_ps=1) as peers:
        peers[2].report_failure("no memory")
        for error in together(peers[:2], lambda one: one.barrier("step")):
            assert (str(error), error.ranks) == ("ps 0 failed: no memory", (2,))


@pytest.mark.parametrize("fault", FAULTS)
def test_a_lost_worker_is_named_by_all_that_are_left(fault):
    # The processes are forks of one that has no thread, as this one has.
    done = subprocess.run(
        [sys.executable, "-m", "tests.helpers.peer_groups", fault],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=LONG,
        check=True,
    )
    told = [json.loads(line) for line in done.stdout.splitlines()]
    whose, _ = FAULTS[fault]
    assert sorted(each["rank"] for each in told) == sorted({0, 1, 2} - {whose}), done.stderr
    for each in told:
        assert each["ranks"] == [whose]
        how = f"no heartbeat for {HEARTBEAT_SECS:g} s" if "stopped" in fault else "its connection"
        assert each["error"].startswith(f"worker {whose} was lost: {how}")
        assert each["secs"] >= HEARTBEAT_SECS * 0.7 or "killed" in fault


def test_who_is_missing_at_the_start_is_named_in_all_that_came():
    with PortReservation() as reservation:
        point = RendezvousOptions(f"127.0.0.1:{reservation.port}", 4, "job", SECRET, LONG)
        with ThreadPoolExecutor(2) as pool:
            errors = list(
                pool.map(lambda rank: outcome(lambda: connect_peers(member_of(point, rank), timeout_secs=1.0)), (0, 2))
            )
        for error in errors:
            assert "of 4 workers 2 did not come within 1 s: 1, 3" in str(error)
        alone = outcome(lambda: connect_peers(member_of(point, 1), timeout_secs=0.2))
        assert "worker 0 is missing" in str(alone)


def test_who_cannot_have_peers_is_told():
    with pytest.raises(ConfigError, match="connect_peers got an evaluator"):
        connect_peers(ClusterMember({"worker": ("a:1", "b:1")}, "evaluator", 0))
    with pytest.raises(ConfigError, match="connect_peers got a member without an address of worker 0"):
        connect_peers(ClusterMember({"worker": ("a:1", "b:1")}, "worker", 0))
    with pytest.raises(ConfigError, match="heartbeat_secs"):
        connect_peers(ClusterMember(), heartbeat_secs=0)
    with pytest.raises(ConfigError, match="straggler_secs=5: expected a number of at least 10"):
        connect_peers(ClusterMember(), straggler_secs=5)
    with socket.create_server(("127.0.0.1", 0)) as other:
        point = RendezvousOptions(f"127.0.0.1:{other.getsockname()[1]}", 2)
        with pytest.raises(ClusterError, match="worker 0 cannot listen at .* set MASTER_PORT to another one"):
            connect_peers(member_of(point, 0))


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
