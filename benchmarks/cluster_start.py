"""How long a job of several processes takes from the command to the first step of all of them.

    python benchmarks/cluster_start.py --out cluster_start.json

``tpack launch -n 4`` is compared with one process that trains alone, and with four of those that are started side by
side and know nothing of each other: that is what the machine needs for four interpreters that import TensorFlow, and
what comes on top is the price of being one job. Forked processes are from one that has imported TensorFlow
(``--spares 1``). The last first step counts.
"""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from timing import Samples, argument_parser, print_table, write_json

SCRIPT = str(Path(__file__).with_name("cluster_start_script.py"))
LIMIT_SECS = 200
ONE, SIDE_BY_SIDE, JOB, FORKED = "one process", "processes side by side", "tpack launch", "tpack launch, forked"
LAUNCH_VARIABLES = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "TF_CONFIG")


def commands(way, workers, folder):
    """Return the command lines of a way."""
    alone = [sys.executable, SCRIPT, folder, "alone"]
    logs = os.path.join(folder, "logs")
    launch = [sys.executable, "-m", "tpack", "launch", "-n", str(workers), "--log-dir", logs]
    job = [SCRIPT, folder, "job"]
    forked = [*launch, "--spares", "1", *job]
    return {ONE: [alone], SIDE_BY_SIDE: [alone] * workers, JOB: [[*launch, *job]], FORKED: [forked]}[way]


def measure_start(way, workers):
    """Return the seconds from the start of the first command to the last first step."""
    env = {name: value for name, value in os.environ.items() if name not in LAUNCH_VARIABLES}
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile("w+") as errors:
        start = time.time()
        processes = [
            subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL, stderr=errors)
            for command in commands(way, workers, folder)
        ]
        try:
            codes = [process.wait(LIMIT_SECS) for process in processes]
        finally:
            for process in processes:
                process.terminate()
                process.wait()
        times = [float(path.read_text(encoding="ascii")) for path in Path(folder).iterdir() if path.is_file()]
        wanted = 1 if way == ONE else workers
        if any(codes) or len(times) != wanted:
            errors.seek(0)
            raise SystemExit(f"{way}: codes {codes}, {len(times)} of {wanted} made a step:\n{errors.read()[-2000:]}")
        return max(times) - start


def main():
    """Measure what the arguments ask for."""
    parser = argument_parser(__doc__)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    samples = Samples()
    for _ in range(options.rounds):
        for way in (ONE, SIDE_BY_SIDE, JOB, FORKED):
            samples.add(way, measure_start(way, options.workers))
    ratios = {way: samples.ratio(way, ONE) for way in samples.seconds}
    over = samples.ratio(JOB, SIDE_BY_SIDE)
    rows = [(way, samples.median(way), ratio) for way, ratio in ratios.items()]
    print_table(f"command to first step, processes: {options.workers}", ["", "s", "over one process"], rows)
    print(f"{JOB} over {SIDE_BY_SIDE}: {over:.2f}")
    write_json(options.out, {**samples.figures(), "ratios": ratios, "over_side_by_side": over})


if __name__ == "__main__":
    main()
