"""Show a folder of many runs by ``tpack watch --serve`` in a real Chromium; print how long it takes, keep pictures.

    python -m tests.trials.watched_page --runs 200 --out /tmp/pages

It needs Debian's `chromium` and `chromium-driver`.
"""

import argparse
import json
import math
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.helpers.browser import chromium
from tests.helpers.source import ROOT
from tpack.callbacks.monitors.run_status import write_run

STATS = [
    "cost",
    "accuracy",
    "val_cost",
    "val_accuracy",
    "learning_rate",
    "queue/size",
    "grad/norm",
    "a/b",
    "c/d",
    "e/f",
]
NUM_ENTRIES = 1000


def write_runs(folder, num_runs):
    """Write runs of a thousand entries with ten statistics; return the number of values."""
    draw = random.Random(1)
    for number in range(num_runs):
        directory = folder / f"experiment-{number // 20}" / f"seed-{number % 20}"
        directory.mkdir(parents=True)
        entries = []
        for epoch in range(1, NUM_ENTRIES + 1):
            curve = 2 * math.exp(-epoch / (50 + number)) + 0.1 * draw.random()
            values = {name: curve if at % 2 == 0 else 1 - curve / 3 for at, name in enumerate(STATS)}
            entries.append({"epoch_num": epoch, "global_step": 100 * epoch, **values})
        (directory / "stats.json").write_text(json.dumps(entries))
        (directory / "log.log").write_text("[11-28 10:00:00 @train.py:1] WRN the batch is small\n" * 3)
        config = {"trainer": "SimpleTrainer", "global_batch": 32 * (1 + number % 3), "towers": 1}
        progress = {
            "epoch": NUM_ENTRIES,
            "max_epoch": NUM_ENTRIES,
            "global_step": 100 * NUM_ENTRIES,
            "epoch_secs": 12.0,
        }
        told = {"state": "finished", "command": "python train.py", "began": "2026-11-28T10:00:00+00:00"}
        write_run(str(directory), {**told, "versions": {"tpack": "0.9"}, "config": config, "progress": progress})
    return num_runs * NUM_ENTRIES * len(STATS)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--out", type=Path, default=Path("/tmp/watched_page"))
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, chromium() as browser:
        num_values = write_runs(Path(folder), options.runs)
        command = [sys.executable, "-m", "tpack", "watch", "--serve", folder]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        began = time.perf_counter()
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
            address = process.stdout.readline().split()[0]
            started = time.perf_counter() - began
            for width in (1280, 420):
                browser.resize(width)
                browser.open(address)
                browser.wait_for("document.body.dataset.state === 'shown'")
                answered, listed, shown = browser.run(
                    "return [performance.getEntriesByType('navigation')[0].responseEnd,"
                    " performance.getEntriesByName('listed')[0].startTime,"
                    " performance.getEntriesByName('drawn')[0].startTime];"
                )
                print(
                    f"{width} wide: answer after {answered:.0f} ms, list {listed:.0f}, curves of 4 {shown:.0f}",
                    flush=True,
                )
                browser.picture(options.out / f"{width}.png")
            browser.resize(1280)
            took = browser.run(
                "window.began = performance.now(); document.body.dataset.state = ''; byId('all').click(); return 0;"
            )
            browser.wait_for("document.body.dataset.state === 'shown'")
            took = browser.run("return performance.now() - window.began;")
            browser.picture(options.out / "all.png")
            process.terminate()
            code = process.wait(30)
        errors = browser.errors()
    print(f"{num_values} values of {options.runs} runs; the server started in {started:.2f} s")
    print(f"all runs chosen: their curves after {took:.0f} ms")
    print(f"the server ended with {code}, the console said {errors}")


if __name__ == "__main__":
    main()
