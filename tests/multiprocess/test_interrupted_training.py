"""Real trainings in processes of their own, killed, interrupted, or starved of data."""

import random
import signal
from pathlib import Path

import pytest

from tests.helpers.killing import check_checkpoint, finish, log_of, read_until, start_training, steps_in, survive_kills

ROOT = Path(__file__).parents[2]


@pytest.fixture
def start():
    """A function that starts a training; what a failing test leaves running is killed."""
    processes = []

    def start_one(log_dir, *arguments):
        processes.append(start_training(log_dir, *arguments))
        return processes[-1]

    yield start_one
    for process in processes:
        process.kill()
        process.communicate()


def test_a_killed_training_loses_only_what_came_after_a_checkpoint(tmp_path, start):
    survive_kills(tmp_path / "log", 3, random.Random(3), start)


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
