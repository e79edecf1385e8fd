"""Damage files and messages of every format that tpack reads, thousands of times, and read them.

    python -m tests.trials.damaged_files [--count N] [--seed N] [--only NAME]

Whatever comes is the right data or an error of tpack's: never a crash, a hang or an error of somebody else's, and other
data only where a format has no checksum. It prints a table, and what should not have come.
"""

import argparse
import sys
import tempfile
from pathlib import Path

from tests.helpers.damaging import FORMATS, Trial, table


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=600, help="of damaged files of each format")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="part of a format's name")
    options = parser.parse_args()
    trials = []
    for form in FORMATS:
        if options.only not in form.name:
            continue
        with tempfile.TemporaryDirectory() as directory:
            trial = Trial(form, Path(directory), options.seed)
            trial.run(options.count)
        trials.append(trial)
        print(f"{form.name}: {dict(trial.outcomes)}", flush=True)
    print(table(trials))
    bad = [line for trial in trials for line in trial.bad]
    print("\n".join(bad[:200]))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
