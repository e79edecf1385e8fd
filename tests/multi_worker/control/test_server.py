"""Whom worker 0 lets in while the others train, and what it says of those that are slow."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from tests.helpers.light_peers import LightPeers
from tests.helpers.peer_groups import LONG, SECRET, joined, member_of, outcome, together
from tpack.errors import ClusterError, PeerLostError
from tpack.multi_worker.cluster.peers import Peers, connect_peers
from tpack.multi_worker.cluster.ports import PortReservation
from tpack.multi_worker.cluster.rendezvous import meet
from tpack.multi_worker.control import client, handshake, messages
from tpack.multi_worker.control import server as control_server
from tpack.multi_worker.control.handshake import Admission, RendezvousOptions, first_ranks
from tpack.multi_worker.control.messages import Timeouts
from tpack.multi_worker.control.server import ControlServer, workers
from tpack.utils import serialize

STRANGERS = [
    ({}, 1, "worker 1 is connected already: this is a duplicate, or another job has the port"),
    ({"token": "other"}, 1, "it belongs to the job 'other', and worker 0 to 'job': two jobs, one port"),
    ({"size": 4}, 3, "it expects 4 workers, and worker 0 3"),
    ({"secret": SECRET.upper()}, 1, "its TPACK_CLUSTER_SECRET is not that of worker 0"),
    ({"secret": None}, 1, "worker 0 has a TPACK_CLUSTER_SECRET and worker 1 has none: expected the same in all"),
]


@pytest.fixture
def warnings(monkeypatch):
    """What is logged as a warning, by the worker whose thread logs it; a semaphore counts it."""
    said, comes = [], threading.Semaphore(0)

    def warn(text):
        said.append(text)
        comes.release()

    monkeypatch.setattr(client.logger, "warning", warn)
    return said, comes


def test_strangers_are_refused_and_disturb_nobody():
    with joined() as peers:
        point = peers[0]._server._options
        for changes, rank, message in STRANGERS:
            other = RendezvousOptions(**{**vars(point), "timeout_secs": LONG, **changes})
            assert message in str(outcome(lambda other=other, rank=rank: connect_peers(member_of(other, rank))))
        # Who comes to the rendezvous of a job that has begun is late, or takes the port of another job.
        error = outcome(lambda: meet(point, 2))
        assert "the 3 workers of this job have met already, worker 2 among them: it is a duplicate or late" in str(
            error
        )
        for data in (b"GET / HTTP/1.1\r\n\r\n", b"\0\0\0\2{}", b""):
            with handshake.connect(point, 1, time.monotonic() + LONG) as stranger:
                stranger.sendall(data)
        assert together(peers, lambda one: one.gather("rank", one.rank)) == [[0, 1, 2]] * 3


def test_who_comes_for_its_next_training_waits_until_worker_0_has_left_the_last(monkeypatch):
    asked = threading.Semaphore(0)
    refuse = Admission._refuse

    def told(*arguments):
        refuse(*arguments)
        asked.release()

    with joined(size=2) as peers, monkeypatch.context() as patch:
        server, point = peers[0]._server, peers[0]._server._options
        peers[1].report_failure("the workers do not agree")
        # Worker 0 does not read the end of this line.
        patch.setattr(server, "_receive", lambda rank: None)
        peers[1].close()
        patch.setattr(Admission, "_refuse", told)
        late = outcome(lambda: connect_peers(member_of(point, 1), timeout_secs=0.1))
        assert f"not admitted within 0.1 s: worker 0 at {point.master} is still in the last training" in str(late)
        with ThreadPoolExecutor(1) as pool:
            coming = pool.submit(outcome, lambda: connect_peers(member_of(point, 1), timeout_secs=LONG))
            for _ in range(3):
                assert asked.acquire(timeout=LONG)
            assert set(server._admission.refused) == {"127.0.0.1: again"}
            patch.undo()
            peers[0].close()
            again = [connect_peers(member_of(point, 0), timeout_secs=LONG), coming.result(LONG)]
        assert together(again, lambda one: one.gather("rank", one.rank)) == [[0, 1]] * 2
        together(again, Peers.close)


def test_whom_it_refused_stands_in_its_error():
    with PortReservation() as reservation:
        point = RendezvousOptions(f"127.0.0.1:{reservation.port}", 2, "job", SECRET)
        other = RendezvousOptions(point.master, 2, "other", SECRET)
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(outcome, lambda: connect_peers(member_of(point, 0), timeout_secs=2.0))
            refused = outcome(lambda: connect_peers(member_of(other, 1), timeout_secs=2.0))
            assert "it belongs to the job 'other'" in str(refused)
            text = "of 2 workers 1 did not come within 2 s: 1. Refused were 127.0.0.1: it belongs to the job 'other'"
            assert text in str(waiting.result(LONG))


def test_who_is_slow_is_named_once_in_all(warnings):
    said, comes = warnings
    with joined(heartbeat_secs=1.0, straggler_secs=1.0) as peers:
        for one in peers:
            one.note_step(7 if one.rank == 1 else 8)
        for _ in peers:
            assert comes.acquire(timeout=LONG)
        assert set(said) == {said[0]}
        assert said[0].startswith("Cluster: worker 1 made no step for ")
        assert said[0].endswith(" s, and the others are in step 8; worker 1 is in step 7.")
        peers[1].note_step(8)
        assert together(peers, lambda one: one.gather("rank", one.rank)) == [[0, 1, 2]] * 3
        assert len(said) == 3


def test_who_does_not_come_to_an_exchange_is_named_before_it_is_too_late(warnings):
    said, comes = warnings
    with joined(heartbeat_secs=1.0, straggler_secs=1.0) as peers:
        early = [threading.Thread(target=one.barrier, args=("sums",)) for one in peers[1:]]
        for thread in early:
            thread.start()
        for _ in peers:
            assert comes.acquire(timeout=LONG)
        peers[0].barrier("sums")
        for thread in early:
            thread.join()
        assert {text.split(" for ")[0] for text in said} == {"Cluster: worker 0 made no step"}
        assert all("and the others wait in 'sums'; worker 0 is in step 0." in text for text in said)


def test_in_one_step_those_are_slow_that_others_wait_for(warnings):
    said, comes = warnings
    with joined(heartbeat_secs=0.5, straggler_secs=0.5) as peers:
        for one, whom in zip(peers, ([1, 2], [2], []), strict=True):
            one.on_stall(lambda whom=whom: whom)
            one.note_step(3)
        for _ in peers:
            assert comes.acquire(timeout=LONG)
        assert {text.split(" for ")[0] for text in said} == {"Cluster: worker 2 made no step"}


def test_who_hangs_in_a_step_is_lost_after_a_longer_time(warnings):
    said, _ = warnings
    with joined(heartbeat_secs=0.5, straggler_secs=0.5, step_timeout_secs=1.5) as peers:
        for one, whom in zip(peers, ([1, 2], [2], []), strict=True):
            one.on_stall(lambda whom=whom: whom)
            one.note_step(3)
        for one in peers:
            assert one._client.wait_for_error(LONG)
            assert one.error.ranks == (2,)
            assert str(one.error).startswith(
                "worker 2 was lost: the others have waited for its part of step 3 for 1.5 s (step_timeout_secs)"
            )
        assert {text.split(" for ")[0] for text in said} == {"Cluster: worker 2 made no step"}


def test_who_does_not_leave_a_step_that_others_have_left_is_lost():
    with joined(heartbeat_secs=0.5, straggler_secs=0.5, step_timeout_secs=1.0) as peers:
        for one in peers:
            one.note_step(3, is_running=True)
        peers[0].note_step(3)
        peers[0].note_step(4, is_running=True)
        peers[1].note_step(3)
        for one in peers:
            assert one._client.wait_for_error(LONG)
            assert one.error.ranks == (2,)


def test_who_is_late_between_steps_is_not_lost(warnings):
    _, comes = warnings
    with joined(heartbeat_secs=0.5, straggler_secs=0.5, step_timeout_secs=0.1) as peers:
        for one in peers:
            one.note_step(7 if one.rank == 1 else 8)
        for _ in peers:
            assert comes.acquire(timeout=LONG)
        assert not peers[0]._client.wait_for_error(1.0)
        peers[1].note_step(8)
        assert together(peers, lambda one: one.gather("rank", one.rank)) == [[0, 1, 2]] * 3


def did_not_listen(server, secs):
    """Let the server, in its own thread, find out that it has not listened for so long."""
    note_pause, is_done = server._note_pause, threading.Event()

    def once(_):
        server._note_pause = note_pause
        note_pause(secs)
        is_done.set()

    server._note_pause = once
    server._waker.wake()
    assert is_done.wait(LONG)


def test_a_process_that_was_stopped_itself_accuses_nobody():
    with joined(heartbeat_secs=LONG) as peers:
        server = peers[0]._server
        # As if the time between two looks had been half a minute and more, and a minute and more.
        did_not_listen(server, 0.6 * LONG)
        assert server._has_failed is False
        did_not_listen(server, 1.1 * LONG)
        for error in together(peers, lambda one: one.barrier("step")):
            assert isinstance(error, ClusterError)
            assert "worker 0 was stopped, or got no CPU time, for 66.0 s, so that the others have given" in str(error)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_server_that_ends_by_an_error_ends_the_job_by_the_name_of_worker_0():
    def fail():
        raise MemoryError("no more")

    with joined() as peers:
        peers[0]._server._check_deadlines = fail
        peers[0]._server._waker.wake()
        for error in together(peers, lambda one: one.barrier("step")):
            assert isinstance(error, PeerLostError)
            assert error.ranks == (0,)
            assert "worker 0 was lost: its control server ended by an error (MemoryError: no more)" in str(error)


def test_a_loss_is_noticed_where_no_thread_can_be_started(monkeypatch):
    told = threading.Semaphore(0)

    def refuse(thread):
        raise RuntimeError("can't start new thread")

    with joined(size=2) as peers, monkeypatch.context() as patch:
        peers[1].on_lost(lambda error: told.release())
        patch.setattr(threading.Thread, "start", refuse)
        peers[0].report_failure("no memory")
        assert told.acquire(timeout=LONG)
        assert str(peers[1].error) == "worker 0 failed: no memory"


def report(reports):
    """Let workers report NaN, each with the step since which its own part is bad; return the error of each."""

    def report_one(one):
        if one.rank in reports:
            one.report_failure(f"NumericsError: nan of {one.rank}", not_finite_since=reports[one.rank])
        else:
            one._client.wait_for_error(LONG)
        return one.error

    with joined() as peers:
        return together(peers, report_one)


@pytest.mark.parametrize(
    ("reports", "origin"),
    [({0: 8, 1: 8, 2: 7}, 2), ({0: -1, 1: 7, 2: -1}, 1), ({1: 8, 2: -1}, 1), ({0: 5, 1: 6}, 0)],
    ids=["first", "found in its step", "one does not look", "time is over"],
)
def test_nan_is_the_failure_of_the_worker_whose_own_part_had_it_first(monkeypatch, reports, origin):
    monkeypatch.setattr("tpack.multi_worker.control.server.VERDICT_SECS", 0.3)
    errors = report(reports)
    assert errors[origin] is None
    for error in errors[:origin] + errors[origin + 1 :]:
        assert error.ranks == (origin,)
        assert str(error).startswith(f"worker {origin} failed: NumericsError: nan of {origin}. NaN or infinity was in")


def test_nan_of_all_workers_at_once_is_the_failure_of_each():
    assert report({0: 3, 1: 3, 2: 3}) == [None] * 3


def test_ranks_in_words():
    assert workers([2]) == "worker 2"
    assert workers({3, 1}) == "workers 1, 3"
    assert first_ranks(list(range(25))) == ", ".join(map(str, range(20))) + " and 5 more"


@pytest.fixture
def server():
    """A server of four workers that is not started, its point, and a function that lets a worker connect."""
    with PortReservation() as reservation:
        point = RendezvousOptions(f"127.0.0.1:{reservation.port}", 4, "job", SECRET, LONG)
        server = ControlServer(
            point, Timeouts(heartbeat_secs=LONG, straggler_secs=LONG, timeout_secs=LONG, largest=1000)
        )
        own = server.start()
        yield server, point
        server._has_failed = True
        own.close()
        server.close(LONG)


def ask(point, rank, purpose="worker", left=None):
    """Return the answer to a worker that has closed a channel before, and both nonces."""
    with handshake.connect(point, rank, time.monotonic() + LONG) as connection:
        answer, *numbers = handshake.present(connection, point, rank, purpose, left=left)
        return answer, numbers


def test_each_worker_is_admitted_once_by_a_proof(server):
    server, point = server
    for rank, purpose in ((1, "worker"), (3, "worker"), (4, "ps")):
        answer, numbers = ask(point, rank, purpose)
        assert handshake.is_proven(answer["proof"], SECRET, "control", *numbers, {"let_in": rank})
    answers = [ask(point, rank)[0] for rank in (0, 1, 3)]
    assert [answer["refused"].split(":")[0] for answer in answers] == [
        f"worker {rank} is connected already" for rank in (0, 1, 3)
    ]
    assert "the 4 workers of this job have met already" in ask(point, 2, "rendezvous")[0]["refused"]
    assert sorted(server._workers) == [0, 1, 3, 4]


def test_a_worker_that_has_left_its_channel_may_try_again_and_a_second_one_may_not(server):
    _, point = server
    # The server has not read a farewell.
    _, (number, _) = ask(point, 1)
    assert ask(point, 1, left=number)[0] == {"refused": "again"}
    for left in (None, "", "another", 1):
        assert "worker 1 is connected already" in ask(point, 1, left=left)[0]["refused"]
    for left in (None, ""):
        assert "worker 0 is connected already" in ask(point, 0, left=left)[0]["refused"]


@contextmanager
def worker_0_of(size):
    """Worker 0 in threads, and the others as sockets."""
    with PortReservation() as reservation, ThreadPoolExecutor(1) as pool:
        point = RendezvousOptions(f"127.0.0.1:{reservation.port}", size, "job", SECRET, LONG)
        limits = {"heartbeat_secs": LONG, "timeout_secs": LONG, "straggler_secs": LONG}
        coming = pool.submit(connect_peers, member_of(point, 0), **limits)
        others = LightPeers(point, "worker", Timeouts(LONG, LONG, LONG, 1 << 20))
        others.serve_until(lambda: others.all_have("complete"), LONG)
        worker_0 = coming.result(LONG)
        try:
            yield worker_0, others, pool
        finally:
            others.send({"do": "bye", "step": 0})
            others.serve_until(lambda: others.all_have("over"), LONG)
            others.close()
            worker_0.close()


def calls_of(monkeypatch, owner, name):
    """Count the calls of a method."""
    calls, method = [], getattr(owner, name)

    def called(self, *arguments):
        calls.append(self)
        return method(self, *arguments)

    monkeypatch.setattr(owner, name, called)
    return calls


def test_a_message_costs_worker_0_the_same_whatever_the_number_of_workers(monkeypatch):
    """Each beat of one worker once made worker 0 look at all, so that a thousand took more than a core."""
    monkeypatch.setattr(control_server, "LOOK_SECS", LONG)
    with worker_0_of(50) as (_, others, _):
        looks = calls_of(monkeypatch, ControlServer, "_check_deadlines")
        flushes = calls_of(monkeypatch, messages.Channel, "flush")
        messages_of_worker_0 = calls_of(monkeypatch, ControlServer, "_do")
        own = len(others.peers)
        others.send({"do": "beat", "step": 0})
        others.serve_until(lambda: len(messages_of_worker_0) >= own, LONG)
        assert not looks
        # Those of this test, and none of the server.
        assert len(flushes) == own
        monkeypatch.setattr(control_server, "LOOK_SECS", 0.0)


def test_what_many_exchange_is_sent_as_often_as_there_are_workers(monkeypatch):
    sent = {}
    for size in (20, 80):
        with worker_0_of(size) as (worker_0, others, pool):
            coming = pool.submit(worker_0.gather, "a value", "the same" * 1000)
            others.gather("a value", serialize.dumps("the same" * 1000))
            assert coming.result(LONG) == ["the same" * 1000] * size
            sent[size] = {peer.num_bytes for peer in others.peers}
    assert len(sent[20]) == 1
    assert sent[20] == sent[80]


def test_an_error_that_is_queued_while_others_are_flushed_is_sent_at_once():
    """It once waited for the next heartbeat, since its channels had been looked at already."""
    with PortReservation() as reservation:
        point = RendezvousOptions(f"127.0.0.1:{reservation.port}", 3, "job", SECRET, LONG)
        one = ControlServer(point, Timeouts(LONG, LONG, LONG, 1 << 20))
        one._look_at = time.monotonic() + LONG
        assert one._wait_secs() > 0.0
        one._fail("worker 1 was lost", [1])
        assert one._wait_secs() == 0.0
        one.start().close()
        one.close(0.0)
