"""Kill trainings at random, many times: what the suite does three times, for as long as there is patience.

    python -m tests.trials.kills [--kills N] [--seed N] [--asynchronous] [--in-saves]

It prints a line for each ten kills, and ends with an error at the first training that did not go on as it should. With
``--in-saves`` a training is killed at once when a temporary file of a certain kind is seen, and the next run has to
remove all of them.
"""

import argparse
import os
import random
import re
import subprocess
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

from tests.helpers.killing import check_checkpoint, finish, log_of, read_until, start_training, survive_kills

KILLS_OF_A_TRAINING = 10


def start_first_with(arguments: list[str], log_dir: Path, *others: str) -> "subprocess.Popen[str]":
    """Start a training with some arguments before those that a test gives."""
    return start_training(log_dir, *arguments, *others)


TEMPORARY = re.compile(r"\..+\.tmp|.+\.tempstate\d+|.+_temp|.+\.tmp[0-9a-f]{32}")
KINDS = {
    "run.json": r"\.run\.json\.[0-9a-f]+\.tmp",
    "checkpoint": r"\.checkpoint\.[0-9a-f]+\.tmp",
    "stats.json": r"\.stats\.json\.[0-9a-f]+\.tmp",
    "the state of training": r"\.model-.+\.tmp",
    "the values of variables": r"model-.+\.tempstate\d+",
}


def temporary_in(log_dir: Path, pattern: "re.Pattern[str]" = TEMPORARY) -> list[str]:
    """Return the temporary files of a directory."""
    return [name for name in os.listdir(log_dir) if pattern.fullmatch(name)]


def kill_in_save(log_dir: Path, kind: str, start: Any) -> list[str]:
    """Kill a training when a temporary file of a kind is there, and return all that it has left."""
    pattern = re.compile(KINDS[kind])
    process = start(log_dir)
    read_until(process, 1)
    # The next run is to go on from a checkpoint.
    while not (log_dir / "checkpoint").exists() or not temporary_in(log_dir, pattern):
        assert process.poll() is None, log_of(log_dir)
    process.kill()
    finish(process)
    return temporary_in(log_dir)


def survive_kills_in_saves(log_dir: Path, kills: int, start: Any) -> None:
    """Kill trainings in their saves, each followed by a run that ends, which has to leave nothing temporary."""
    num_left = 0
    for number in range(kills):
        kind = list(KINDS)[number % len(KINDS)]
        left = kill_in_save(log_dir, kind, start)
        num_left += bool(left)
        epoch = check_checkpoint(log_dir).epoch_num + 1
        process = start(log_dir, "--max-epoch", str(epoch))
        output, code = finish(process)
        assert code == 0, log_of(log_dir)
        after = temporary_in(log_dir)
        print(f"kill {number + 1}, at {kind}: left {left}; after the next run {after}", flush=True)
        assert not after
    print(f"{kills} kills in saves, of which {num_left} left something; nothing was there after the next run")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=100, help="in all; each training is killed ten times")
    parser.add_argument("--seed", type=int, default=3)
    parser.add_argument("--asynchronous", action="store_true", help="checkpoints are written while training goes on")
    parser.add_argument("--in-saves", action="store_true", help="kill when a temporary file is there")
    options = parser.parse_args()
    # One that is being written, which training has left behind by up to another seven steps, is lost as well.
    arguments, most_lost = (["--asynchronous"], 14) if options.asynchronous else ([], 7)
    moments = random.Random(options.seed)
    start = partial(start_first_with, arguments)
    if options.in_saves:
        with tempfile.TemporaryDirectory() as directory:
            survive_kills_in_saves(Path(directory) / "log", options.kills, start)
        return
    done = 0
    while done < options.kills:
        with tempfile.TemporaryDirectory() as directory:
            kills = min(KILLS_OF_A_TRAINING, options.kills - done)
            survive_kills(Path(directory) / "log", kills, moments, start, most_lost=most_lost)
        done += kills
        print(f"{done} kills, {done} resumed from a whole checkpoint", flush=True)


if __name__ == "__main__":
    main()
