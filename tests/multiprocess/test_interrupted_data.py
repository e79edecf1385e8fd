"""A training that is killed twice uses the data points that it would have used in one go."""

import random
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers.killable_data import NUM_TOWERS, SEED, STEPS_PER_EPOCH, flow
from tpack.utils.rng import fix_rng_seed

ROOT = Path(__file__).parents[2]
LAST_EPOCH = 5


@pytest.fixture
def start(tmp_path):
    """A function that starts the training; what a failing test leaves running is killed."""
    processes = []

    def start_training():
        command = [sys.executable, "-m", "tests.helpers.killable_data", str(tmp_path / "log"), str(LAST_EPOCH)]
        with open(tmp_path / "stderr.txt", "w") as log:
            process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=log, text=True)
        processes.append(process)
        return process

    yield start_training
    for process in processes:
        process.kill()
        process.communicate()


def expected_labels(num_steps):
    """Return the labels of each step of a training that nobody interrupts."""
    fix_rng_seed(SEED)
    try:
        ds = flow()
        ds.reset_state()
        points = iter(ds)
        return [sum((next(points)[0].tolist() for _ in range(NUM_TOWERS)), []) for _ in range(num_steps)]
    finally:
        points.close()
        ds.ds.close()
        fix_rng_seed(None)


def read_steps(process, number=None):
    """Return up to `number` of the steps that the process reports, {global step: labels}."""
    steps = {}
    for line in process.stdout:
        words = line.split()
        if words[0] == "step":
            steps[int(words[1])] = [int(word) for word in words[2:]]
        if len(steps) == number:
            break
    return steps


def test_a_training_killed_twice_sees_the_sequence_of_one_that_was_not(start, tmp_path):
    expected = expected_labels(LAST_EPOCH * STEPS_PER_EPOCH)
    moments = random.Random(5)
    reached = []
    for _ in range(2):
        process = start()
        steps = read_steps(process, moments.randint(9, 30))
        process.kill()
        steps |= read_steps(process)
        assert process.wait() == -9
        reached.append((min(steps), max(steps)))
        assert steps == {step: expected[step - 1] for step in steps}
    process = start()
    steps = read_steps(process)
    assert process.wait() == 0, (tmp_path / "stderr.txt").read_text()
    assert list(steps) == list(range(min(steps), LAST_EPOCH * STEPS_PER_EPOCH + 1))
    assert steps == {step: expected[step - 1] for step in steps}
    # Each run went on right after a checkpoint of the one before, and those are seven steps apart.
    for (_, last), (first, _) in zip(reached, [*reached[1:], (min(steps), 0)], strict=True):
        assert first > 1 and first % 7 == 1
        assert last - 7 <= first <= last + 1
