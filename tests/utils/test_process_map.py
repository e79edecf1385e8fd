"""Functions that several processes call: results, errors and deaths with names, and no process left behind."""

import itertools
import os
import signal
import subprocess
import sys
import threading
from functools import partial

import psutil
import pytest

from tests.helpers.source import ROOT
from tpack.errors import ConfigError, WorkerError
from tpack.utils.process_map import map_in_processes, pickled

WAIT_SECS = 300


def run(make_function, values, num_workers=2, **options):
    return map_in_processes(
        pickled(make_function, "the function"), values, name="squarer", environments=[{}] * num_workers, **options
    )


def make_square(offset=0):
    """Return a function that cannot be sent itself."""
    lock = threading.Lock()

    def square(value):
        with lock:
            return value * value + offset

    return square


def make_report():
    return lambda value: (os.getpid(), os.environ.get("TPACK_TEST_NUMBER"), "tensorflow" in sys.modules)


def make_slow_first():
    """The process that gets value 0 waits until the others have done all the rest."""

    def act(value):
        number, fifo = value
        if number in (0, 9):
            # Each waits for the other.
            with open(fifo, "r" if number == 0 else "w") as file:
                file.read() if number == 0 else file.write("done")
        return number

    return act


def make_failing(how):
    def act(value):
        if value == 3:
            if how == "raise":
                raise KeyError("no such thing")
            if how == "unpicklable":
                return threading.Lock()
            os.kill(os.getpid(), signal.SIGKILL)
        return value

    return act


def fail_to_make(how):
    if how == "raise":
        raise KeyError("no such model")
    os._exit(7)


@pytest.mark.parametrize("ordered", [True, False])
def test_every_value_comes_with_its_result(ordered):
    values = list(range(20))
    results = list(run(partial(make_square, 5), iter(values), 3, ordered=ordered))
    assert sorted(results) == [(value, value * value + 5) for value in values]
    assert not ordered or [value for value, _ in results] == values


def test_no_value_is_no_result():
    assert list(run(make_square, [])) == []


def test_each_process_has_its_environment_and_no_more_than_it_needs():
    environments = [{"TPACK_TEST_NUMBER": str(number)} for number in range(2)]
    seen = set()
    for _, report in map_in_processes(
        pickled(make_report, "it"), itertools.count(), name="reporter", environments=environments, ordered=False
    ):
        seen.add(report)
        if len(seen) == 2:
            break
    assert {number for _, number, _ in seen} == {"0", "1"}
    assert len({pid for pid, _, _ in seen} | {os.getpid()}) == 3
    assert not any(has_tensorflow for _, _, has_tensorflow in seen)
    assert "TPACK_TEST_NUMBER" not in os.environ


@pytest.mark.parametrize("ordered", [True, False])
def test_the_order_is_kept_where_it_is_wanted(tmp_path, ordered):
    fifo = str(tmp_path / "fifo")
    os.mkfifo(fifo)
    values = [(number, fifo) for number in range(10)]
    results = [result for _, result in run(make_slow_first, values, ordered=ordered)]
    assert results == list(range(10)) if ordered else results[0] != 0
    assert sorted(results) == list(range(10))


@pytest.mark.parametrize(
    ("make_function", "message"),
    [
        (
            partial(make_failing, "raise"),
            r"squarer \d of 2 \(process \d+\) failed on value 3: KeyError: 'no such thing'",
        ),
        (partial(make_failing, "unpicklable"), r"squarer \d of 2 .* failed on value 3: TypeError: .*lock"),
        (partial(make_failing, "die"), r"squarer \d of 2 \(process \d+\) was killed by SIGKILL on value 3"),
        (partial(fail_to_make, "raise"), r"squarer \d of 2 .* failed before it was ready: KeyError: 'no such model'"),
        (partial(fail_to_make, "die"), r"squarer \d of 2 .* ended with exit code 7 before it was ready"),
    ],
)
def test_failure_and_death_name_the_process_and_the_value(make_function, message):
    with pytest.raises(WorkerError, match=message) as caught:
        list(run(make_function, range(100)))
    if "failed" in message:
        assert "In the worker:\nTraceback" in str(caught.value)


def test_an_error_of_the_values_comes_after_the_results_before_it():
    def values():
        yield 1
        raise ZeroDivisionError("in the data")

    results = run(make_square, values())
    assert next(results) == (1, 1)
    with pytest.raises(ZeroDivisionError, match="in the data"):
        next(results)


def test_who_stops_asking_ends_the_processes():
    results = run(make_square, range(1000))
    assert next(results) == (0, 0)
    # One that has ended, and that another test has not waited for, has no command line.
    living = [child for child in psutil.Process().children() if child.status() != psutil.STATUS_ZOMBIE]
    workers = [child for child in living if "child_process" in " ".join(child.cmdline())]
    assert len(workers) == 2
    results.close()
    assert not any(worker.is_running() for worker in workers)


def test_what_cannot_be_sent_is_refused():
    with pytest.raises(ConfigError, match="the model cannot be sent to another process: .*lock"):
        pickled(threading.Lock(), "the model")
    with pytest.raises(ConfigError, match="value 1 for squarer . of 2 cannot be sent"):
        list(run(make_square, [1, threading.Lock(), 2]))


@pytest.mark.parametrize("how", ["is killed", "ends"])
def test_processes_end_with_their_owner(how):
    """What is left of it refers to the results until its end; the script has no guard, and is not run again."""
    program = (
        "import os, signal\n"
        "from tests.utils.test_process_map import make_report, run\n"
        "results = run(make_report, range(1000), ordered=False)\n"
        "pids = {next(results)[1][0] for _ in range(50)}\n"
        "print(*pids, flush=True)\n"
    )
    program += "signal.pause()\n" if how == "is killed" else ""
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    parent = subprocess.Popen([sys.executable, "-W", "error", "-c", program], cwd=ROOT, **pipes)
    children = [int(pid) for pid in parent.stdout.readline().split()]
    if how == "is killed":
        parent.kill()
    assert parent.communicate(timeout=WAIT_SECS) == ("", "")
    alive = [psutil.Process(pid) for pid in children if psutil.pid_exists(pid)]
    _, alive = psutil.wait_procs(alive, timeout=WAIT_SECS)
    for process in alive:
        process.kill()
    assert children
    assert not alive
