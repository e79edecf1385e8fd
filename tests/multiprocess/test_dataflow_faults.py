"""What goes wrong with worker processes, done to real ones: nothing hangs, and nothing is left behind."""

import gc
import importlib
import json
import os
import signal
import subprocess
import sys
import threading
from itertools import islice

import numpy as np
import psutil
import pytest

from tests.helpers.flows import COUNT, Counting, same
from tests.helpers.leaks import SHARED_MEMORY, marked_blocks
from tests.helpers.source import ROOT
from tests.helpers.worker_functions import Images, Sometimes, wait
from tpack.dataflow.base import DataFlowTerminated
from tpack.dataflow.parallel.process_map import MultiProcessMapAndBatchData, MultiProcessMapData
from tpack.dataflow.parallel.process_runner import MultiProcessRunner, MultiProcessRunnerZMQ
from tpack.dataflow.parallel.threads import MultiThreadMapData, MultiThreadRunner
from tpack.dataflow.parallel.worker import start_workers_by
from tpack.dataflow.sources import DataFromGenerator, DataFromList
from tpack.errors import ConfigError, DataWorkerError, InputError

SECS = 300
# A function that puts workers around a flow, by name.
IN_PROCESSES = {
    "runner": lambda ds, **options: MultiProcessRunner(ds, 100, 1, **options),
    "runners": lambda ds, **options: MultiProcessRunnerZMQ(ds, 2, 50, **options),
    "map": lambda ds, **options: MultiProcessMapData(ds, 2, same, buffer_size=100, **options),
    "strict map": lambda ds, **options: MultiProcessMapData(ds, 2, same, buffer_size=100, strict=True, **options),
    "map and batch": lambda ds, **options: MultiProcessMapAndBatchData(ds, 2, same, 2, 100, **options),
}
IN_THREADS = {
    "thread map": lambda ds: MultiThreadMapData(ds, 2, same, buffer_size=8),
    "strict thread map": lambda ds: MultiThreadMapData(ds, 2, same, buffer_size=8, strict=True),
    "thread runners": lambda ds: MultiThreadRunner(lambda: Images(ds.count, ds.size), 4, 2),
}

in_processes = pytest.mark.parametrize("wrap", IN_PROCESSES.values(), ids=IN_PROCESSES)
everywhere = pytest.mark.parametrize(
    "wrap", [*IN_PROCESSES.values(), *IN_THREADS.values()], ids=[*IN_PROCESSES, *IN_THREADS]
)


@pytest.fixture(autouse=True)
def clean():
    """Leave no workers of a flow that the traceback of an exception refers to."""
    yield
    gc.collect()


def ready(ds):
    ds.reset_state()
    return ds


def pids_of(ds):
    return ds._workers.group().pids


@in_processes
def test_kill_of_a_worker_ends_the_iteration_and_says_so(wrap):
    ds = ready(wrap(Images(10**6, 1000)))
    points = iter(ds)
    next(points)
    pids = pids_of(ds)
    os.kill(pids[-1], signal.SIGKILL)
    with pytest.raises(
        DataWorkerError, match=rf"worker {len(pids) - 1} \(process {pids[-1]}\) of .* killed by SIGKILL"
    ):
        list(points)
    assert not any(psutil.pid_exists(pid) for pid in pids)
    with pytest.raises(DataFlowTerminated, match=r"use reset_state\(\) to start new"):
        next(iter(ds))
    ds.reset_state()
    assert len(next(iter(ds))) == 2


@pytest.fixture
def start():
    """A function that starts the program and returns it and its workers; what a failing test leaves is killed."""
    programs = []

    def start_program(*arguments):
        command = [sys.executable, "-m", "tests.helpers.runner_program", *arguments]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        programs.append(subprocess.Popen(command, cwd=ROOT, start_new_session=True, **pipes))
        return programs[-1], [psutil.Process(pid) for pid in json.loads(programs[-1].stdout.readline())]

    yield start_program
    for program in programs:
        program.kill()
        program.communicate()


@pytest.mark.parametrize("mode", ["go on", "hang"])
def test_kill_of_the_program_leaves_no_process_and_no_memory(start, mode):
    before = marked_blocks()
    program, workers = start(mode)
    assert len(workers) == 4
    assert marked_blocks() == before
    program.kill()
    program.communicate(timeout=SECS)
    _, alive = psutil.wait_procs(workers, timeout=SECS)
    assert alive == []
    assert marked_blocks() == before


def test_ctrl_c_ends_the_program_alone_and_that_ends_the_workers(start):
    program, workers = start()
    # As a terminal does: to all processes of the group.
    os.killpg(program.pid, signal.SIGINT)
    _, errors = program.communicate(timeout=SECS)
    _, alive = psutil.wait_procs(workers, timeout=SECS)
    assert alive == []
    assert program.returncode in (130, -signal.SIGINT)
    assert errors.count("Traceback") == 1
    assert errors.rstrip().endswith("KeyboardInterrupt")


SCRIPT = """
import sys
import numpy as np
from tpack.dataflow import DataFromList, MapData, ProxyDataFlow
from tpack.dataflow.parallel import {names}

# No "if __name__ == '__main__'": workers do not run this file again.
class Value:
    def __init__(self, value):
        self.value = value

class Mine(ProxyDataFlow):
    def __iter__(self):
        for point in self.ds:
            yield [Value(point[0] + offset)]

offset = 100
ds = {expression}
ds.reset_state()
found = list(ds)
assert all(isinstance(point[0], Value) for point in found), found
print(sorted(point[0].value for point in found))
print("tensorflow" in sys.modules)
"""


@pytest.mark.parametrize(
    "expression",
    [
        "MultiProcessRunner(Mine(DataFromList([[k] for k in range(3)])), 3, 1)",
        "MultiProcessMapData(DataFromList([[k] for k in range(3)]), 1, lambda p: [Value(p[0] + offset)], strict=True)",
        "MultiProcessMapData(DataFromList([[Value(100 + k)] for k in range(3)]), 1, lambda p: p, strict=True)",
    ],
    ids=["flow", "function", "points"],
)
def test_script_may_define_everything_itself_and_ends_while_workers_run(tmp_path, expression):
    (tmp_path / "script.py").write_text(SCRIPT.format(expression=expression, names=expression.partition("(")[0]))
    done = subprocess.run(
        [sys.executable, "script.py"],
        **{"cwd": tmp_path, "env": {**os.environ, "PYTHONPATH": str(ROOT)}},
        **{"capture_output": True, "text": True, "timeout": SECS, "check": False},
    )
    assert (done.stdout, done.stderr, done.returncode) == ("[100, 101, 102]\nFalse\n", "", 0)


@pytest.mark.parametrize("name", IN_PROCESSES)
def test_worker_that_hangs_is_named_after_the_timeout(name):
    if name.startswith("runner"):
        ds = IN_PROCESSES[name](Sometimes(wait, length=100), timeout=0.5)
    elif "batch" in name:
        ds = MultiProcessMapAndBatchData(
            Counting(100), 1, lambda point: point if point[0] < 3 else wait(), 2, timeout=0.5
        )
    else:
        ds = MultiProcessMapData(Counting(100), 1, lambda point: point if point[0] < 3 else wait(), timeout=0.5)
    ds.reset_state()
    pids = pids_of(ds)
    found = []
    with pytest.raises(DataWorkerError, match=r"worker \d .* hangs: it was silent for .* s \(timeout=0.5\)"):
        for point in ds:
            found.append(point)
    # On a busy machine it may say nothing for as long already while it starts.
    assert len(found) <= 6
    assert not any(psutil.pid_exists(pid) for pid in pids)


def too_large(point):
    """Return an array of a petabyte, which takes no memory here."""
    return [np.broadcast_to(np.uint8(0), 1 << 50)]


@pytest.mark.parametrize(
    "make",
    [
        lambda: MultiProcessRunner(DataFromGenerator(lambda: iter([too_large(0)])), 3, 1),
        lambda: MultiProcessMapData(Counting(), 1, too_large),
        lambda: MultiProcessMapData(DataFromList([too_large(0)]), 1, same),
    ],
    ids=["runner", "map", "to the worker"],
)
def test_full_shared_memory_is_said_with_how_much_was_wanted(make):
    ds = ready(make())
    for _ in range(2):
        with pytest.raises(InputError, match="data points need 1,125,899,9.* of shared memory") as caught:
            list(ds)
        assert str(SHARED_MEMORY) in str(caught.value)


@pytest.mark.parametrize("name", ["runner", "map"])
def test_result_that_cannot_be_pickled_is_named(name):
    if name == "runner":
        ds = MultiProcessRunner(DataFromGenerator(lambda: iter([[threading.Lock()]])), 3, 1)
    else:
        ds = MultiProcessMapData(Counting(), 1, lambda point: [threading.Lock()])
    ds.reset_state()
    with pytest.raises(DataWorkerError, match=r"type list cannot be sent to another process: .*_thread.lock"):
        list(ds)


def test_flow_that_cannot_be_pickled_is_named_before_anything_is_started(monkeypatch):
    monkeypatch.setattr(threading, "enumerate", lambda: [threading.current_thread(), threading.Thread(name="other")])
    flow = DataFromList([threading.Lock()])
    ds = MultiProcessRunner(flow, 3, 1)
    # Helpers of multiprocessing, which another test may have started, stay.
    before = set(psutil.Process().children())
    with pytest.raises(ConfigError, match="MultiProcessRunner cannot be sent to its workers"):
        ds.reset_state()
    assert set(psutil.Process().children()) <= before


def test_flow_that_cannot_be_pickled_is_forked_where_there_are_no_threads():
    program = (
        "import threading; from itertools import islice\n"
        "from tpack.dataflow.parallel.process_runner import MultiProcessRunner\n"
        "from tpack.dataflow.sources import DataFromGenerator\n"
        "lock = threading.Lock()\n"
        "ds = MultiProcessRunner(DataFromGenerator(lambda: ([index] for index in range(3) if lock)), 3, 1)\n"
        "ds.reset_state(); print(sorted(point for (point,) in islice(ds, 3)))"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.stdout == "[0, 1, 2]\n"
    assert done.stderr.count("Forks of this process are started instead") == 1


def test_fork_in_a_process_with_threads_is_refused_and_without_them_needs_no_pickling():
    lock = threading.Lock()
    with start_workers_by("fork"):
        ds = MultiProcessMapData(Counting(), 2, lambda point: point if lock else None, strict=True)
    end = threading.Event()
    thread = threading.Thread(target=end.wait)
    thread.start()
    with pytest.raises(ConfigError, match="was to fork a process with .* other threads"):
        ds.reset_state()
    end.set()
    thread.join()
    program = (
        "import threading; from tests.helpers.flows import Counting\n"
        "from tpack.dataflow.parallel.process_map import MultiProcessMapData\n"
        "from tpack.dataflow.parallel.worker import start_workers_by\n"
        "lock = threading.Lock()\n"
        "with start_workers_by('fork'):\n"
        "    ds = MultiProcessMapData(Counting(), 2, lambda point: point if lock else None, strict=True)\n"
        "ds.reset_state(); print([k for k, _ in ds])"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == (f"{list(range(COUNT))}\n", "")


@everywhere
def test_passes_that_are_broken_off_again_and_again_leave_the_flow_as_it_is(wrap):
    ds = ready(wrap(Images(8, 100)))
    length = len(ds)
    for count in range(20):
        points = iter(ds)
        list(islice(points, count % 3 + 1))
        points.close()
    assert [len(list(ds)) for _ in range(2)] == [length] * 2


def resources():
    """Return the numbers of open files and of mapped blocks of shared memory, and the memory in use besides these."""
    gc.collect()
    process = psutil.Process()
    blocks = [mapping for mapping in process.memory_maps(grouped=False) if "/dev/shm" in mapping.path]
    return process.num_fds(), len(blocks), process.memory_full_info().uss


@everywhere
def test_ten_thousand_points_leave_nothing_behind(wrap):
    ds, passes = ready(wrap(Images(500, 1000))), 25
    length = sum(1 for _ in ds)
    files, blocks, memory = resources()
    assert sum(1 for _ in range(passes) for _ in ds) == passes * length
    after = resources()
    # A block for each pass would be too much, and all points together more memory. While the consumer is slow, a
    # channel doubles its slots from 4 to 108, in five blocks; two workers have four channels.
    assert after[0] - files < 10
    assert after[1] - blocks <= 4 * 5 < passes
    assert after[2] - memory < 5_000_000


@in_processes
def test_flows_that_come_and_go_leave_nothing_behind(wrap):
    def use():
        ds = ready(wrap(Images(40, 70_000)))
        return sum(1 for _ in ds)

    length = use()
    files, blocks, memory = resources()
    assert [use() for _ in range(3)] == [length] * 3
    after = resources()
    assert after[:2] == (files, blocks)
    assert after[2] - memory < 20_000_000


def test_arrays_that_tensorflow_takes_as_they_are_do_not_change_in_its_queue():
    tf = importlib.import_module("tensorflow.compat.v1")
    count, size = 60, 100_000
    ds = ready(MultiProcessRunner(Images(count, size), 20, 1))
    with tf.Graph().as_default(), tf.Session() as session:
        place = tf.placeholder(tf.uint8, [size])
        queue = tf.FIFOQueue(count, [tf.uint8], shapes=[[size]])
        enqueue, dequeue = queue.enqueue([place]), queue.dequeue()
        run = session.make_callable(enqueue, feed_list=[place])
        for array, _ in ds:
            run(array)
        del array
        for _ in ds:
            pass
        for k in range(count):
            assert set(np.unique(session.run(dequeue))) == {k}
