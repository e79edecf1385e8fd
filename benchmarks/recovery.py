"""How long a job takes from the loss of a worker to its next step.

    python benchmarks/recovery.py --out recovery.json

A job of two workers under ``tpack launch`` is made to lose worker 1 by SIGKILL after some steps, once with plain
restarts and once with ``--spares 1``, in turns. The time is that from the kill to the first step of worker 0 in the
next run; the launcher's own line has the phases.
"""

import itertools
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from timing import Samples, argument_parser, print_table, write_json

SCRIPT = str(Path(__file__).with_name("recovery_script.py"))
WAYS = {"restarts": ["--restarts", "3"], "spares": ["--restarts", "3", "--spares", "1"]}
STEPS = 10
"""Of which two checkpoints are written."""
RECOVERY = "tpack launch: first step"
MOST_LINES = 100
"""Of the workers, within which it is there."""
LINE = re.compile(r"\[(\d)\] (pid|step) (\d+) ([\d.]+)\n")


def measure_recovery(way, network, workers):
    """Return the seconds from the kill to the next step, and the launcher's line."""
    with tempfile.TemporaryDirectory() as folder:
        logs = os.path.join(folder, "logs")
        launch = [sys.executable, "-m", "tpack", "launch", "-n", str(workers), "--log-dir", logs, *WAYS[way]]
        with open(os.path.join(folder, "errors"), "w+", encoding="utf-8") as errors:
            command = [*launch, SCRIPT, folder, network]
            job = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True)
            try:
                secs = follow(job)
                # The line of the launcher comes when all workers have made the step; they go on with others.
                for _ in itertools.islice(job.stdout, MOST_LINES):
                    if RECOVERY in Path(errors.name).read_text(encoding="utf-8"):
                        break
            finally:
                job.send_signal(signal.SIGINT)
                job.stdout.read()
                job.wait()
            errors.seek(0)
            said = errors.read()
    if secs is None:
        raise SystemExit(f"{way}: the job ended before its next step:\n{said[-2000:]}")
    return secs, next((line for line in said.splitlines() if line.startswith(RECOVERY)), "")


def follow(job):
    """Kill a worker of a job, and return the seconds to its next step; None if it ends."""
    pids, killed = {}, None
    for line in job.stdout:
        found = LINE.fullmatch(line)
        if not found:
            continue
        rank, what, number, moment = int(found[1]), found[2], int(found[3]), float(found[4])
        if what == "pid":
            pids.setdefault(rank, number)
        elif killed is None and rank == 0 and number == STEPS:
            killed = time.time()
            os.kill(pids[1], signal.SIGKILL)
        # What the others print before they notice is of the same run.
        elif killed is not None and rank == 1 and moment > killed:
            return moment - killed
    return None


def main():
    """Measure what the arguments ask for."""
    parser = argument_parser(__doc__)
    parser.add_argument("--networks", nargs="+", default=["tiny", "resnet50"], choices=["tiny", "resnet50"])
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    figures = {}
    for network in options.networks:
        samples, lines = Samples(), {}
        for _ in range(options.rounds):
            for way in WAYS:
                secs, lines[way] = measure_recovery(way, network, options.workers)
                samples.add(way, secs)
        rows = [(way, samples.median(way), samples.ratio(way, "restarts")) for way in WAYS]
        print_table(f"{network}: from the kill to the next step", ["", "s", "over restarts"], rows)
        for way, line in lines.items():
            print(f"{way}: {line}")
        sys.stdout.flush()
        figures[network] = {**samples.figures(), "last_lines": lines}
    write_json(options.out, figures)


if __name__ == "__main__":
    main()
