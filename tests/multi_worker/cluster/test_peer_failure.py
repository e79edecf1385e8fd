"""The end of processes that have lost a worker."""

import os
import subprocess
import sys
import threading

import pytest

from tests.helpers.peer_groups import LONG
from tests.helpers.source import ROOT
from tpack.errors import ClusterError, PeerLostError
from tpack.multi_worker.cluster import peer_failure
from tpack.multi_worker.cluster.peer_failure import EXIT_PEER_LOST, exit_code, last_words, lost_by


def test_who_is_at_fault_ends_as_one_that_failed():
    assert EXIT_PEER_LOST == 75
    lost = PeerLostError("worker 1 was lost", (1,))
    assert [exit_code(lost, rank) for rank in range(3)] == [75, 1, 75]
    assert exit_code(ClusterError("other steps"), 0) == exit_code(ValueError("boo"), 0) == 1


def test_launchers_read_the_last_words():
    for ranks, text, have_failed in (
        ((1,), "worker 1 failed: ValueError: it was worker 2: a,\n b", True),
        ((2, 10), "of 11 workers 2 did not come within 5 s: 2, 10", False),
        ((2,), "worker 2 was lost: no heartbeat for 3 s", False),
        ((3,), "", False),
    ):
        words = last_words(PeerLostError(text, ranks), 0)
        for line in (words, f"[11-23 06:36:49 @process_exit.py:47] \x1b[31mERR {words}\x1b[0m"):
            assert lost_by(line) == (ranks, text.replace("\n", ""), have_failed)
    for words in (
        last_words(PeerLostError("lost", (0,)), 0),
        last_words(ClusterError("steps"), 0),
        "worker 1 was lost",
    ):
        assert lost_by(words) == ((), "", False)
    assert last_words(ClusterError("steps"), 0) == "Rank 0 ends with code 1: steps"


SCRIPT = """
import sys, threading, time
from tpack.multi_worker.cluster import peer_failure
from tpack.errors import PeerLostError
peer_failure.set_exit_code_of_uncaught(0)
peer_failure._LAST_SECS = 0.1
{0}
"""
CASES = {
    "uncaught": ("raise PeerLostError('worker 1 was lost', (1,))", 75),
    "chained": (
        "try: raise PeerLostError('lost', (1,))\nexcept Exception as error: raise ValueError('x') from error",
        75,
    ),
    "at fault": ("raise PeerLostError('worker 0 was lost', (0,))", 1),
    "other": ("raise ValueError('boo')", 1),
    "caught": ("try: raise PeerLostError('lost', (1,))\nexcept PeerLostError: pass", 0),
    "a thread hangs": (
        "end, error = peer_failure.end_soon_after_main_thread, PeerLostError('lost', (1,))\n"
        "threading.Thread(target=end, args=(error, 0), daemon=True).start()\n"
        "threading.Thread(target=time.sleep, args=(1000,)).start()\nraise PeerLostError('lost', (1,))",
        75,
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_the_code_of_a_process_says_whether_it_has_lost_another(case):
    what, code = CASES[case]
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT.format(what)], cwd=ROOT, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == code, done.stderr
    assert [found.ranks for line in done.stderr.splitlines() if (found := lost_by(line)).ranks] == [(1,)] * (code == 75)


def test_nothing_is_done_while_the_main_thread_lives():
    error = PeerLostError("lost", (1,))
    waiting = threading.Thread(target=peer_failure.end_soon_after_main_thread, args=(error, 0), daemon=True)
    waiting.start()
    waiting.join(0.1)
    assert waiting.is_alive()


# The main thread of worker 0 waits for ever, or holds Python's lock, once worker 1 is lost.
BLOCK = """
import ctypes, threading, time
from tests.helpers.peer_groups import joined
from tpack.multi_worker.cluster import peer_failure
from tpack.multi_worker.cluster.peers import ended_by_loss
peer_failure._TIMER_SECS = 1.0
begun = threading.Event()
with joined(2) as peers:
    with ended_by_loss(peers[0], begun.set, grace_secs=0.5):
        peers[1].report_failure("no memory")
        begun.wait()
        {}
"""


@pytest.mark.parametrize(
    "wait", ["time.sleep(1000)", "ctypes.PyDLL(None).sleep(1000)"], ids=["waits", "holds the lock"]
)
def test_a_step_that_does_not_return_ends_with_the_process(wait):
    done = subprocess.run(
        [sys.executable, "-c", BLOCK.format(wait)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=LONG,
    )
    assert done.returncode == 75, done.stderr
    assert "Cluster: worker 1 failed: no memory" in done.stderr
    if "time.sleep" in wait:
        found = [lost for line in done.stderr.splitlines() if (lost := lost_by(line)).ranks]
        assert found == [((1,), "worker 1 failed: no memory", True)]
