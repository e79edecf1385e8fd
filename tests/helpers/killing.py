"""What tests and trials of killed trainings share: reading a training's steps, and holding its checkpoints to them."""

import json
import random
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import tensorflow.compat.v1 as tf

from tests.helpers.killable import STEPS_PER_EPOCH
from tests.helpers.launching import assert_gone
from tests.helpers.source import ROOT
from tpack.tfutils.checkpoint import latest_checkpoint
from tpack.tfutils.train_state import TrainState, read_train_state


def start_training(log_dir: Path, *arguments: str) -> "subprocess.Popen[str]":
    """Start ``tests.helpers.killable``; its log is ``stderr.txt`` beside the log directory."""
    command = [sys.executable, "-m", "tests.helpers.killable", str(log_dir), *arguments]
    # The log goes to a file: nobody reads a pipe while the test reads the other one, and a full one would block.
    with open(Path(log_dir).parent / "stderr.txt", "w") as log:
        return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=log, text=True)


def read_until(process: Any, num_steps: int) -> tuple[int, ...]:
    """Return the last (epoch, local step, global step) that the process reported, of at least `num_steps`."""
    for line in process.stdout:
        words = line.split()
        if words[0] == "step":
            num_steps -= 1
            if num_steps <= 0:
                return tuple(map(int, words[1:]))
    raise AssertionError(f"the process ended early, with the code {process.wait()}")


def steps_in(output: str) -> list[int]:
    """Return the global steps that a process reported."""
    return [int(line.split()[3]) for line in output.splitlines() if line.startswith("step ")]


def finish(process: Any) -> tuple[str, int]:
    """Wait for the end of the process and its children; return what it still wrote and its exit code."""
    children = psutil.Process(process.pid).children(recursive=True) if process.poll() is None else []
    output, _ = process.communicate(timeout=300)
    # One whose parent ended before it may wait for the system to take note of its end.
    if children:
        assert_gone([child.pid for child in children])
    return output, process.returncode


def log_of(log_dir: Path) -> str:
    """Return what the training logged."""
    return (log_dir.parent / "stderr.txt").read_text()


def check_checkpoint(log_dir: Path) -> TrainState:
    """Check that the newest checkpoint is whole and true to its state; return the state."""
    prefix = latest_checkpoint(str(log_dir))
    state = read_train_state(prefix)
    reader = tf.train.load_checkpoint(prefix)
    assert reader.get_tensor("count") == reader.get_tensor("global_step") == state.global_step
    assert (state.epoch_num - 1) * STEPS_PER_EPOCH + state.local_step == state.global_step
    return state


def survive_kills(
    log_dir: Path, kills: int, moments: random.Random, start: Any = start_training, *, most_lost: int = 7
) -> None:
    """Kill a training again and again, each time after some steps, and check that it loses only what was not saved.

    Args:
        log_dir: Where it logs.
        kills: How often.
        moments: Draws the numbers of steps.
        start: Starts it.
        most_lost: How many steps a kill may cost: those from one checkpoint to the next, unless they are written while
            training goes on.

    Raises:
        AssertionError: It went on from somewhere else, a checkpoint is not whole, or statistics were lost.
    """
    last_step = 0
    for _ in range(kills):
        process = start(log_dir)
        num_steps = moments.randint(most_lost + 1, 45)
        _, _, first_step = read_until(process, 1)
        # It goes on right after a checkpoint.
        assert last_step - most_lost < first_step <= last_step + 1
        epoch, local_step, last_step = read_until(process, num_steps - 1)
        assert (epoch - 1) * STEPS_PER_EPOCH + local_step == last_step
        process.kill()
        output, code = finish(process)
        assert code == -signal.SIGKILL
        last_step = max([last_step, *steps_in(output)])
        assert last_step - check_checkpoint(log_dir).global_step <= most_lost

    last_epoch = last_step // STEPS_PER_EPOCH + 2
    process = start(log_dir, "--max-epoch", str(last_epoch))
    output, code = finish(process)
    assert code == 0
    assert output.endswith("finished\n")
    assert check_checkpoint(log_dir).global_step == last_epoch * STEPS_PER_EPOCH
    entries = json.loads((log_dir / "stats.json").read_text())
    assert [entry["epoch_num"] for entry in entries] == sorted({entry["epoch_num"] for entry in entries})
    assert entries[-1]["epoch_num"] == last_epoch
    assert len(list(log_dir.glob("*.train_state.json"))) <= 3
