"""The workers of a flow, seen from their owner. Each is a new interpreter, but where a fork is asked for."""

import gc
import os
import re
import select
import signal
import threading
import time

import psutil
import pytest

from tests.helpers.worker_functions import do, echo
from tpack.dataflow.parallel.slots import Record
from tpack.dataflow.parallel.worker_group import GroupOptions, WorkerPool
from tpack.errors import DataWorkerError

SECS = 300


@pytest.fixture
def start():
    """A function that starts workers; they are ended after the test."""
    groups = []

    def start_group(serve, argument, *, count=1, method="spawn", seed=5, timeout=None, warn_secs=60.0):
        options = GroupOptions(count, 8, 8, timeout, method, seed, warn_secs)
        groups.append(WorkerPool("Owner", serve, (argument,), options))
        return groups[-1]

    yield start_group
    for group in groups:
        group.close()


def put(group, index, point):
    group.senders[index].put(point)
    group.senders[index].flush()


def receive_points(group, count):
    """Return so many points, with the indices of their workers."""
    found = []
    while len(found) < count:
        index, message = group.receive()
        found += [(index, point) for point in message.points]
    return found


def exchange(group, count):
    """Let workers answer once: the next that can be read from them is an answer, and not that they have begun."""
    for index in range(count):
        put(group, index, [index])
    receive_points(group, count)


def test_points_go_to_workers_and_come_back(start):
    group = start(echo, "hello", count=3)
    for index in range(3):
        put(group, index, [index])
    assert sorted(receive_points(group, 3)) == [(k, ["hello", [k]]) for k in range(3)]
    assert len(set(group.pids)) == 3
    assert group.name_of(2) == f"worker 2 (process {group.pids[2]}) of Owner"


def test_every_worker_has_its_turn(start):
    group = start(echo, "", count=2)
    exchange(group, 2)
    for k in range(6):
        put(group, 0, [k])
    put(group, 1, ["me"])
    for receiver in group._receivers:
        select.select([receiver], [], [])
    assert {group.receive()[0] for _ in range(2)} == {0, 1}


@pytest.mark.parametrize("method", ["spawn", "fork"])
def test_process_is_set_up(start, monkeypatch, method):
    monkeypatch.setattr(threading, "enumerate", lambda: [threading.current_thread()])
    groups = [start(do, "describe", count=2, method=method) for _ in range(2)]
    found = []
    for group in groups:
        for index in range(2):
            put(group, index, 1)
        found += [[point for _, point in sorted(receive_points(group, 2), key=lambda pair: pair[0])]]
    for group, points in zip(groups, found, strict=True):
        assert [point["name"] for point in points] == ["Owner-0", "Owner-1"]
        assert [point["pid"] for point in points] == group.pids
        assert all(point["blocked"] for point in points)
        assert points[0]["numbers"] != points[1]["numbers"]
        assert method == "fork" or not any(point["tensorflow"] for point in points)
    assert [point["numbers"] for point in found[0]] == [point["numbers"] for point in found[1]]


@pytest.mark.parametrize(
    ("what", "words"),
    [
        ("exit", "ended with exit code 3"),
        ("system exit", "ended with exit code 7"),
        ("exit without code", "ended with exit code 0"),
        ("text exit", "raised SystemExit: the disk is full"),
        ("die", "was killed by SIGKILL"),
        ("fail", "raised OSError: the disk is gone"),
    ],
)
def test_worker_that_ends_is_named_with_the_reason(start, what, words):
    group = start(do, what, count=2)
    name = group.name_of(1)
    put(group, 1, 1)
    with pytest.raises(DataWorkerError) as caught:
        receive_points(group, 100)
    assert str(caught.value).startswith(f"{name} {words}")
    assert group.is_closed
    assert not any(psutil.pid_exists(pid) for pid in group.pids)


def test_what_a_worker_sent_before_it_ended_comes_first(start):
    group = start(do, "system exit")
    put(group, 0, 1)
    assert receive_points(group, 5) == [(0, [k]) for k in range(5)]
    with pytest.raises(DataWorkerError, match="exit code 7"):
        group.receive()


def test_arguments_that_cannot_be_read_are_named(start):
    class Unreadable:
        def __reduce__(self):
            return int, ("no number",)

    group = start(echo, Unreadable())
    with pytest.raises(DataWorkerError, match="worker 0 .* raised ValueError: invalid literal") as caught:
        group.receive()
    assert isinstance(caught.value.__cause__, ValueError)


def test_worker_that_hangs_is_named_and_the_others_are_not(start):
    group = start(do, "wait", count=3, timeout=0.1)
    for index in (0, 2):
        group.expect(index, is_expected=False)
    with pytest.raises(DataWorkerError, match=r"worker 1 .* hangs: it was silent for .* s \(timeout=0\.1\)"):
        group.receive()
    assert group.is_closed


def test_worker_may_take_longer_to_begin_than_to_answer(start):
    class SlowToLoad:
        def __reduce__(self):
            return time.sleep, (1,)

    group = start(echo, SlowToLoad(), timeout=0.5)
    group.expect(0, is_expected=False)
    group.expect(0, is_expected=True)
    put(group, 0, [1])
    assert receive_points(group, 1) == [(0, [None, [1]])]


def test_worker_that_does_not_begin_is_named(start):
    group = start(do, "wait", timeout=0.1)
    group._silent_since = [time.monotonic() - 61]
    with pytest.raises(DataWorkerError, match=r"worker 0 .* hangs: it was silent for 6\d\.\d s"):
        group.receive()


def test_worker_that_is_stopped_is_named_in_the_log_and_waited_for(start, log_dir):
    group = start(echo, "", count=2, warn_secs=0.05)
    exchange(group, 2)
    group.expect(0, is_expected=False)
    os.kill(group.pids[1], signal.SIGSTOP)
    put(group, 1, [1])
    group.expect(1, is_expected=False)
    group.expect(1, is_expected=True)
    log = log_dir / "log.log"
    # Workers that are slow to begin are told of, too.
    num_before = len(log.read_text())

    def let_go_on_when_told():
        while log.read_text()[num_before:].count("Still waiting for") < 2:
            pass
        os.kill(group.pids[1], signal.SIGCONT)

    thread = threading.Thread(target=let_go_on_when_told)
    thread.start()
    assert receive_points(group, 1) == [(1, ["", [1]])]
    thread.join()
    said = log.read_text()[num_before:]
    assert f"Still waiting for {group.name_of(1)}, silent for 0 s" in said
    assert group.name_of(0) not in said


def test_silence_is_told_each_time_it_has_doubled(start, log_dir):
    group = start(do, "wait", warn_secs=10)
    group._begun.add(0)
    for silence in (5, 11, 12, 19, 21, 39, 41):
        group._silent_since = [time.monotonic() - silence]
        group._check_silence()
    told = re.findall(r"silent for (\d+) s", (log_dir / "log.log").read_text())
    assert told == ["11", "21", "41"]


def test_time_limit_counts_before_the_word(start, log_dir):
    group = start(do, "wait", timeout=10, warn_secs=3)
    group._begun.add(0)
    for silence in (4, 7):
        group._silent_since = [time.monotonic() - silence]
        group._check_silence()
    group._silent_since = [time.monotonic() - 10]
    with pytest.raises(DataWorkerError, match="hangs: it was silent for 10"):
        group._check_silence()
    assert (log_dir / "log.log").read_text().count("Still waiting") == 2


def test_waiting_for_room_has_a_limit(start):
    group = start(echo, "", timeout=0.1)
    exchange(group, 1)
    os.kill(group.pids[0], signal.SIGSTOP)
    while group.senders[0].try_put(b"x" * 100_000):
        pass
    with pytest.raises(DataWorkerError, match="worker 0 .* hangs"):
        group.wait_for_room(0)


@pytest.mark.parametrize("use", ["command", "room", "bury"])
def test_last_words_are_those_of_the_worker_also_where_its_owner_writes(start, use):
    group = start(do, "points and failure")
    put(group, 0, 1)
    group._members.children[0].exit_code(SECS)
    with pytest.raises(DataWorkerError, match="worker 0 .* raised OSError: the disk is gone") as caught:
        if use == "command":
            for _ in range(1000):
                group.command(0, 1)
        elif use == "room":
            group.wait_for_room(0)
        else:
            group.bury(0)
    assert isinstance(caught.value.__cause__, OSError)
    assert group.is_closed


def test_worker_that_nothing_is_expected_of_may_be_silent(start):
    group = start(echo, "", count=2, timeout=SECS)
    exchange(group, 2)
    group._silent_since = [-1e9, -1e9]
    group.expect(0, is_expected=False)
    group.expect(1, is_expected=False)
    group.expect(1, is_expected=True)
    put(group, 1, [1])
    assert receive_points(group, 1) == [(1, ["", [1]])]


def test_worker_that_has_answered_while_nobody_looked_does_not_hang(start):
    group = start(echo, "", timeout=SECS)
    exchange(group, 1)
    put(group, 0, [1])
    while not group._poll.poll():
        pass
    group._silent_since = [-1e9]
    assert receive_points(group, 1) == [(0, ["", [1]])]


def test_workers_end_with_the_group(start):
    group = WorkerPool("Owner", do, ("wait",), GroupOptions(2, 8, 8, None, "spawn", 5))
    processes = [psutil.Process(pid) for pid in group.pids]
    assert all(process.is_running() for process in processes)
    del group
    assert not any(process.is_running() for process in processes)


def test_closing_wakes_who_waits_in_another_thread(start):
    group = start(do, "wait")
    caught = []

    def receive():
        try:
            group.receive()
        except DataWorkerError as error:
            caught.append(str(error))

    thread = threading.Thread(target=receive)
    thread.start()
    group.close()
    thread.join(SECS)
    assert caught == ["the workers of Owner were ended"]
    with pytest.raises(DataWorkerError, match="were ended"):
        group.receive()
    with pytest.raises(DataWorkerError, match="were ended"):
        group.bury(0)


def test_command_to_a_worker_that_is_dead_says_how_it_died(start):
    group = start(do, "wait")
    os.kill(group.pids[0], signal.SIGKILL)
    with pytest.raises(DataWorkerError, match="was killed by SIGKILL"):
        for _ in range(1000):
            group.command(0, 1)


def test_waiting_for_room_ends_with_room_or_with_the_worker(start):
    group = start(echo, "")
    put(group, 0, b"x" * 100_000)
    group.wait_for_room(0)
    assert group.senders[0].try_put(1)
    os.kill(group.pids[0], signal.SIGKILL)
    group._members.children[0].exit_code(SECS)
    with pytest.raises(DataWorkerError, match="was killed by SIGKILL"):
        group.wait_for_room(0)


def test_cancelling_reaches_the_worker(start):
    group = start(echo, "")
    group.cancel(0, 1)
    for _ in range(3):
        put(group, 0, [1])
    with pytest.raises(DataWorkerError, match="CancelledError"):
        receive_points(group, 3)


def test_failing_to_start_leaves_nothing(start, monkeypatch):
    gc.collect()
    before = sorted(os.listdir("/proc/self/fd"))
    monkeypatch.setattr(threading, "enumerate", lambda: [threading.current_thread(), threading.Thread(name="other")])
    with pytest.raises(Exception, match="cannot be sent to its workers"):
        start(echo, threading.Lock(), count=2)
    with pytest.raises(Exception, match="was to fork a process with 1 other threads"):
        start(echo, "", count=2, method="fork")
    gc.collect()
    assert sorted(os.listdir("/proc/self/fd")) == before


def test_fork_of_the_owner_does_not_end_its_workers(start):
    group = start(echo, "")
    pid = os.fork()
    if pid == 0:
        group.close()
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    put(group, 0, [1])
    index, message = group.receive()
    assert (index, message.kind, message.points) == (0, Record.POINT, [["", [1]]])
