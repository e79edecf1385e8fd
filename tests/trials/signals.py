"""Send SIGINT and SIGTERM to trainings at random moments of all their phases, many times.

    python -m tests.trials.signals [--runs N] [--seed N]

Each training is to end in time, with the code of the signal and without leaving a process behind, and to end as one
that nobody disturbed when it is started again. It prints a line for each run that did not, and a table in the end.
"""

import argparse
import random
import shutil
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

from tests.helpers.interruptible import HANGS, SOURCES
from tests.helpers.signalling import Outcome, Plan, random_plan, try_plan


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--seed", type=int, default=3)
    options = parser.parse_args()
    chance = random.Random(options.seed)
    outcomes: dict[str, list[tuple[Plan, Outcome]]] = defaultdict(list)
    num_faulty = 0
    with tempfile.TemporaryDirectory() as directory:
        for number in range(options.runs):
            plan = random_plan(chance, tuple(SOURCES), HANGS)
            outcome = try_plan(plan, Path(directory) / str(number))
            outcomes[f"{plan.phase}{' hangs' if plan.hangs else ''}"].append((plan, outcome))
            if outcome.faults:
                num_faulty += 1
                shutil.copytree(Path(directory) / str(number), Path(f"{directory}-faulty") / str(number))
                print(f"run {number}: {plan}: {'; '.join(outcome.faults)}", flush=True)
            if (number + 1) % 10 == 0:
                print(f"{number + 1} runs, {num_faulty} with a fault", flush=True)
                print_table(outcomes)
    return 1 if num_faulty else 0


def print_table(outcomes: dict[str, list[tuple[Plan, Outcome]]]) -> None:
    """Print what came out, a line for each phase."""
    print(f"{'phase':24} {'runs':>5} {'ended before':>12} {'1 signal':>9} {'2 signals':>9}  codes")
    for phase, tried in sorted(outcomes.items()):
        longest = {
            several: max((o.secs for p, o in tried if o.came and (len(p.signals) > 1) == several), default=0.0)
            for several in (False, True)
        }
        codes = sorted({outcome.code for _, outcome in tried if outcome.came})
        missed = sum(not outcome.came for _, outcome in tried)
        print(
            f"{phase:24} {len(tried):5} {missed:12} {longest[False]:8.2f}s {longest[True]:8.2f}s  {codes}", flush=True
        )


if __name__ == "__main__":
    sys.exit(main())
