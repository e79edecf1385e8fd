"""Kill the launcher, an agent or a rank of ``tpack launch`` at random moments, and look for what survives.

    python -m tests.trials.launch_kills [--kills N] [--seed N]

Each rank has a process in the background. It prints a line for each kill, and ends with an error at the first after
which something of the job goes on, or after which the exit code is not that of who was killed.
"""

import argparse
import os
import random
import signal
import tempfile
import time
import uuid
from collections import Counter
from pathlib import Path

import psutil

from tests.helpers.launching import LIMIT_SECS, Launched, waiting

VARIABLE = "TPACK_LAUNCH_TRIAL"
LATEST_SECS = 6.0


def processes_of(mark: str) -> list[psutil.Process]:
    """Return the processes that carry a mark in their environment, the launcher's own and all below it."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.status() != psutil.STATUS_ZOMBIE and process.environ().get(VARIABLE) == mark:
                found.append(process)
        except psutil.Error:
            # Somebody else's, or it has just ended.
            continue
    return found


def kill_one(directory: Path, who: str, after_secs: float) -> tuple[str, float]:
    """Kill one process of a job after some time.

    Args:
        directory: where the job runs.
        who: ``launcher``, ``agent`` or ``rank``; the launcher if there is no other yet.
        after_secs: how long the job has had.

    Returns:
        Who was killed, and after how many seconds all had ended.
    """
    mark = uuid.uuid4().hex
    with Launched(directory, waiting(("0", "1")), "-n", "2", "--grace", "3", **{VARIABLE: mark}) as launched:
        time.sleep(after_secs)
        agents = launched.agents()
        ranks = [rank for agent in agents for rank in agent.children()]
        victims = {"agent": agents, "rank": ranks}.get(who, [])
        killed = who if victims else "launcher"
        os.kill(victims[0].pid if victims else launched.process.pid, signal.SIGKILL)
        began = time.monotonic()
        code = launched.end()
        while survivors := processes_of(mark):
            assert time.monotonic() < began + LIMIT_SECS, f"after a kill of the {killed}: {survivors}"
            time.sleep(0.05)
        # An agent that has started nothing yet is a machine that could not be reached.
        wanted = {"launcher": {-signal.SIGKILL}, "agent": {1, 10}, "rank": {10, 11}}[killed]
        assert code in wanted, f"after a kill of the {killed} the exit code is {code}: {launched.said()}"
        return killed, time.monotonic() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=30)
    parser.add_argument("--seed", type=int, default=3)
    options = parser.parse_args()
    moments = random.Random(options.seed)
    counts: Counter[str] = Counter()
    longest = 0.0
    for _ in range(options.kills):
        who, after_secs = moments.choice(["launcher", "agent", "rank"]), moments.uniform(0.0, LATEST_SECS)
        with tempfile.TemporaryDirectory() as directory:
            killed, secs = kill_one(Path(directory), who, after_secs)
        counts[killed] += 1
        longest = max(longest, secs)
        print(f"{killed} killed after {after_secs:.1f} s, all ended {secs:.1f} s later", flush=True)
    print(f"{dict(counts)}: nothing survived; all ended at most {longest:.1f} s later")


if __name__ == "__main__":
    main()
