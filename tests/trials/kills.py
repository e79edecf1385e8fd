"""Kill trainings at random, many times: what the suite does three times, for as long as there is patience.

    python -m tests.trials.kills [--kills N] [--seed N] [--asynchronous]

It prints a line for each ten kills, and ends with an error at the first training that did not go on as it should.
"""

import argparse
import random
import subprocess
import tempfile
from functools import partial
from pathlib import Path

from tests.helpers.killing import start_training, survive_kills

KILLS_OF_A_TRAINING = 10


def start_first_with(arguments: list[str], log_dir: Path, *others: str) -> "subprocess.Popen[str]":
    """Start a training with some arguments before those that a test gives."""
    return start_training(log_dir, *arguments, *others)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=100, help="in all; each training is killed ten times")
    parser.add_argument("--seed", type=int, default=3)
    parser.add_argument("--asynchronous", action="store_true", help="checkpoints are written while training goes on")
    options = parser.parse_args()
    # One that is being written, which training has left behind by up to another seven steps, is lost as well.
    arguments, most_lost = (["--asynchronous"], 14) if options.asynchronous else ([], 7)
    moments = random.Random(options.seed)
    start = partial(start_first_with, arguments)
    done = 0
    while done < options.kills:
        with tempfile.TemporaryDirectory() as directory:
            kills = min(KILLS_OF_A_TRAINING, options.kills - done)
            survive_kills(Path(directory) / "log", kills, moments, start, most_lost=most_lost)
        done += kills
        print(f"{done} kills, {done} resumed from a whole checkpoint", flush=True)


if __name__ == "__main__":
    main()
