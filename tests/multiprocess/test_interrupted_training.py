"""Real trainings in processes of their own, killed, interrupted, or starved of data."""

import json
import random
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.killable import STEPS_PER_EPOCH
from tpack.tfutils.checkpoint import latest_checkpoint
from tpack.tfutils.train_state import read_train_state

ROOT = Path(__file__).parents[2]


@pytest.fixture
def start():
    """A function that starts a training; what a failing test leaves running is killed."""
    processes = []

    def start_training(log_dir, *arguments):
        command = [sys.executable, "-m", "tests.helpers.killable", str(log_dir), *arguments]
        # The log goes to a file: nobody reads a pipe while the test reads the other one, and a full one would block.
        with open(Path(log_dir).parent / "stderr.txt", "w") as log:
            process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=log, text=True)
        processes.append(process)
        return process

    yield start_training
    for process in processes:
        process.kill()
        process.communicate()


def read_until(process, num_steps):
    """Return the last (epoch, local step, global step) that the process reported, of at least `num_steps`."""
    for line in process.stdout:
        words = line.split()
        if words[0] == "step":
            num_steps -= 1
            if num_steps <= 0:
                return tuple(map(int, words[1:]))
    raise AssertionError(f"the process ended early, with the code {process.wait()}")


def steps_in(output):
    """Return the global steps that a process reported."""
    return [int(line.split()[3]) for line in output.splitlines() if line.startswith("step ")]


def finish(process):
    """Wait for the end of the process and its children; return what it still wrote and its exit code."""
    children = psutil.Process(process.pid).children(recursive=True) if process.poll() is None else []
    output, _ = process.communicate(timeout=100)
    assert not [child for child in children if child.is_running()]
    return output, process.returncode


def log_of(log_dir):
    return (log_dir.parent / "stderr.txt").read_text()


def check_checkpoint(log_dir):
    """Check that the newest checkpoint is whole and true to its state; return the state."""
    prefix = latest_checkpoint(str(log_dir))
    state = read_train_state(prefix)
    reader = tf.train.load_checkpoint(prefix)
    assert reader.get_tensor("count") == reader.get_tensor("global_step") == state.global_step
    assert (state.epoch_num - 1) * STEPS_PER_EPOCH + state.local_step == state.global_step
    return state


@pytest.mark.timeout(400)
def test_a_training_killed_ten_times_loses_only_what_came_after_a_checkpoint(tmp_path, start):
    moments = random.Random(3)
    last_step = 0
    for _ in range(10):
        process = start(tmp_path / "log")
        num_steps = moments.randint(8, 45)
        _, _, first_step = read_until(process, 1)
        # It goes on right after a checkpoint, and those are at most seven steps apart.
        assert last_step - 7 < first_step <= last_step + 1
        epoch, local_step, last_step = read_until(process, num_steps - 1)
        assert (epoch - 1) * STEPS_PER_EPOCH + local_step == last_step
        process.kill()
        output, code = finish(process)
        assert code == -signal.SIGKILL
        last_step = max([last_step, *steps_in(output)])
        assert last_step - check_checkpoint(tmp_path / "log").global_step <= 7

    last_epoch = last_step // STEPS_PER_EPOCH + 2
    process = start(tmp_path / "log", "--max-epoch", str(last_epoch))
    output, code = finish(process)
    assert code == 0
    assert output.endswith("finished\n")
    assert check_checkpoint(tmp_path / "log").global_step == last_epoch * STEPS_PER_EPOCH
    entries = json.loads((tmp_path / "log" / "stat.json").read_text())
    assert [entry["epoch_num"] for entry in entries] == sorted({entry["epoch_num"] for entry in entries})
    assert entries[-1]["epoch_num"] == last_epoch
    assert len(list((tmp_path / "log").glob("*.train_state.json"))) <= 3


@pytest.mark.parametrize(("signum", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)], ids=["ctrl-c", "sigterm"])
def test_a_signal_saves_a_checkpoint_and_ends_with_its_code(tmp_path, start, signum, code):
    process = start(tmp_path / "log", "--slow", "0.01")
    *_, last_step = read_until(process, 30)
    process.send_signal(signum)
    output, returncode = finish(process)

    # A shell shows the death by SIGINT, which is how Python ends after Ctrl-C, as 130.
    assert returncode in (code, -signum)
    assert signal.Signals(signum).name in log_of(tmp_path / "log")
    assert "finished" not in output
    assert check_checkpoint(tmp_path / "log").global_step == max([last_step, *steps_in(output)])


def test_a_second_signal_ends_the_process_at_once(tmp_path, start):
    process = start(tmp_path / "log", "--slow", "50")
    read_until(process, 1)
    process.send_signal(signal.SIGTERM)
    process.send_signal(signal.SIGINT)
    _, returncode = finish(process)
    assert returncode != 0


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM], ids=["ctrl-c", "sigterm"])
def test_a_step_that_waits_for_data_for_ever_can_be_interrupted(tmp_path, start, signum):
    process = start(tmp_path / "log", "--fail", "block")
    # Each step takes two data points, so the step after this one waits for the hundredth.
    read_until(process, 50)
    process.send_signal(signum)
    process.send_signal(signal.SIGTERM)
    _, returncode = finish(process)
    assert returncode in (130, 143, -signal.SIGINT, -signal.SIGTERM)


@pytest.mark.parametrize(
    ("kind", "messages"),
    [
        ("raise", ["DataIsBroken: this data point cannot be read", "tpack.errors.InputError", "in ones"]),
        ("end", ["tpack.errors.", "Exhausted"]),
        ("shape", ["tpack.errors.DataPointError", "'one'", "100", "(2,)"]),
    ],
)
def test_data_that_fails_ends_training_with_its_own_error(tmp_path, start, kind, messages):
    process = start(tmp_path / "log", "--fail", kind)
    output, returncode = finish(process)
    assert returncode == 1
    assert "finished" not in output
    log = log_of(tmp_path / "log")
    for message in messages:
        assert message in log
