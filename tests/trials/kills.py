"""Kill trainings at random, many times: what the suite does three times, for as long as there is patience.

    python -m tests.trials.kills [--kills N] [--seed N]

It prints a line for each ten kills, and ends with an error at the first training that did not go on as it should.
"""

import argparse
import random
import tempfile
from pathlib import Path

from tests.helpers.killing import survive_kills

KILLS_OF_A_TRAINING = 10


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=100, help="in all; each training is killed ten times")
    parser.add_argument("--seed", type=int, default=3)
    options = parser.parse_args()
    moments = random.Random(options.seed)
    done = 0
    while done < options.kills:
        with tempfile.TemporaryDirectory() as directory:
            kills = min(KILLS_OF_A_TRAINING, options.kills - done)
            survive_kills(Path(directory) / "log", kills, moments)
        done += kills
        print(f"{done} kills, {done} resumed from a whole checkpoint", flush=True)


if __name__ == "__main__":
    main()
