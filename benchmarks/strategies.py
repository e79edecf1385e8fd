"""Training under strategies: tpack's mirrored strategy and replicated trainer, and TensorFlow's strategy used two ways.

    python benchmarks/strategies.py --out strategies.json

ResNet-20 on 32 x 32 images and a small convolution network for the digits are trained by SGD on one constant batch for
each tower, on 2 and on 8 logical CPU devices. All rows but the last compute the same, in plain TensorFlow calls; the
last is a Keras model of the same layers, which updates moving averages besides. Each row has a process of its own that
lives for all rounds; a round is some steps of each row, in an order that is drawn anew each time, because a row can be
slowed down by the one before it: Keras still prepares data then. Beside the steps stands how long building took: the
graph with gradients and updates; for TensorFlow's function its tracing; for ``fit`` what came until its first step was
made, less the time of a step, so that it holds the first run of everything too.
"""

import contextlib
import json
import random
import subprocess
import sys
import tempfile
from pathlib import Path

from timing import Samples, argument_parser, print_table, write_json

ROWS = {
    "strategy": "StrategyTrainer(MirroredStrategy)",
    "replicated": "SyncMultiGPUTrainerReplicated",
    "loop": "tf.distribute.MirroredStrategy, custom loop",
    "loop_one_device": "the same with ReductionToOneDevice",
    "loop_shared_cores": "the same with tpack's number of threads for an operation",
    "fit": "tf.distribute.MirroredStrategy, Keras fit",
}
STEPS = {"resnet20": 10, "digits": 100}
WORKER = Path(__file__).with_name("strategies_worker.py")
MARK = "> "


class Worker:
    """The process of one row."""

    def __init__(self, row, network, towers, options, stack):
        self._log = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "stderr.txt"
        log = stack.enter_context(self._log.open("w", encoding="utf-8"))
        numbers = (towers, options.batch, options.steps or STEPS[network])
        command = [sys.executable, str(WORKER), row, network, *map(str, numbers)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True)
        stack.callback(self._end)

    def answer(self):
        """Return the next value that the process writes; raise `RuntimeError` when it ended instead."""
        for line in self._process.stdout:
            if line.startswith(MARK):
                return json.loads(line[len(MARK) :])
        self._process.wait()
        lines = self._log.read_text(encoding="utf-8").strip().splitlines() or ["nothing was said"]
        raise RuntimeError(next((line for line in reversed(lines) if "Error" in line), lines[-1]))

    def run_round(self):
        """Return the seconds of a step in one more round."""
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        return self.answer()

    def _end(self):
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        try:
            self._process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()


def measure(network, towers, options):
    """Return samples, seconds of building by row, and errors by row."""
    samples, build_secs, errors = Samples(), {}, {}
    with contextlib.ExitStack() as stack:
        workers = {}
        for row in options.rows:
            worker = Worker(row, network, towers, options, stack)
            try:
                build_secs[row] = worker.answer()["build_secs"]
                workers[row] = worker
            except RuntimeError as error:
                errors[row] = str(error)
        order = random.Random(0)
        for _ in range(options.rounds):
            for row in order.sample(list(workers), len(workers)):
                samples.add(row, workers[row].run_round())
    return samples, build_secs, errors


def report(network, towers, options):
    """Measure, print a table, and return the figures."""
    samples, build_secs, errors = measure(network, towers, options)
    rows, ratios = [], {}
    for row in (row for row in options.rows if row in samples.seconds):
        # Above 1: so much slower than the first row.
        ratios[row] = samples.ratio(row, options.rows[0]) if options.rows[0] in build_secs else None
        rows.append((ROWS[row], 1 / samples.median(row), ratios[row], build_secs[row]))
    title = f"{network}, {towers} towers on logical CPU devices, batches of {options.batch} in each"
    print_table(title, ["", "steps a second", "time over the first row's", "seconds to build"], rows)
    for row, error in errors.items():
        print(f"{ROWS[row]} did not run: {error}")
    figures = samples.figures()
    return {"rows": {row: figures[row] for row in ratios}, "ratios": ratios, "build_secs": build_secs, "errors": errors}


def main():
    """Measure what the arguments ask for."""
    parser = argument_parser(__doc__)
    parser.add_argument("--networks", nargs="+", default=["resnet20", "digits"], choices=["resnet20", "digits"])
    parser.add_argument("--towers", nargs="+", type=int, default=[2, 8])
    parser.add_argument("--rows", nargs="+", default=list(ROWS), choices=list(ROWS), help="in this order")
    parser.add_argument("--batch", type=int, default=16, help="examples of each tower")
    parser.add_argument("--steps", type=int, help="steps of a round; by default it depends on the network")
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    figures = {
        f"{network}, towers={towers}": report(network, towers, options)
        for network in options.networks
        for towers in options.towers
    }
    write_json(options.out, figures)


if __name__ == "__main__":
    main()
