"""How long it takes until something happens: `import tpack`, and the first training step of ResNet-50.

    python benchmarks/startup.py --towers 1 8 --out startup.json

`import tpack` is compared with an interpreter that does nothing. The first step is compared with the same thing written
by hand: a plain TensorFlow graph with the same towers, variables and gradients. It counts from the launch of a fresh
process, which trains on one image of 64 x 64 pixels in each tower: building and preparing the graph is what takes the
time, and depends neither on the batch nor on the size of the images.
"""

import json
import subprocess
import sys
import time
from pathlib import Path

from timing import Samples, argument_parser, print_table, write_json

IMAGE_SIZE = 64
WORKERS = {"tpack": "startup_tpack.py", "by hand": "startup_by_hand.py"}
PHASES = (
    "interpreter and imports",
    "building the graph",
    "callbacks and monitors",
    "creating the session",
    "initialising variables",
    "before training",
    "first step",
    "second step",
)
TOTAL = "launch to first step"

BARE = "pass"
IMPORT_TPACK = "import tpack"
IMPORT_NUMPY = "import numpy"
WORKER = "from tpack.dataflow.parallel import process_map, process_runner"
IMPORTS = (BARE, IMPORT_TPACK, IMPORT_NUMPY, "import numpy, tpack.dataflow", WORKER, "from tpack.dataflow import *")
HELP = "tpack --help"
LIST_MODULES = "import sys, tpack; print(*sys.modules)"


def measure_import(rounds):
    """Return the times of a bare interpreter, of others that import parts of tpack, and of the command line's help."""
    modules = _python("-c", LIST_MODULES).split()
    if "tensorflow" in modules:
        raise SystemExit("import tpack has imported TensorFlow")
    programs = {**{code: ("-c", code) for code in IMPORTS}, HELP: ("-m", "tpack", "--help")}
    samples = Samples()
    for _ in range(rounds):
        for name, arguments in programs.items():
            start = time.perf_counter()
            _python(*arguments)
            samples.add(name, time.perf_counter() - start)
    return samples


def measure_first_step(towers, rounds):
    """Return, for both ways, the times of the phases from the launch of a process to its first step."""
    samples = {way: Samples() for way in WORKERS}
    for _ in range(rounds):
        for way, worker in WORKERS.items():
            output = _python(str(Path(__file__).with_name(worker)), str(towers), repr(time.time()))
            phases = json.loads(output.splitlines()[-1])
            for phase, seconds in phases.items():
                samples[way].add(phase, seconds)
            samples[way].add(TOTAL, sum(phases[phase] for phase in PHASES[:-1]))
    return samples


def _python(*arguments):
    done = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{arguments[0]} failed:\n{done.stderr}")
    return done.stdout


def report_import(samples):
    """Print and return what importing costs."""
    extra = (samples.median(IMPORT_TPACK) - samples.median(BARE)) * 1e3
    ratio = samples.ratio(IMPORT_TPACK, BARE)
    milliseconds = {name: samples.median(name) * 1e3 for name in (*IMPORTS, HELP)}
    rows = [(name, ms, ms - milliseconds[BARE], ms - milliseconds[IMPORT_NUMPY]) for name, ms in milliseconds.items()]
    print_table("in an interpreter of its own", ("", "ms", "more than nothing", "more than numpy"), rows)
    print(
        f"import tpack: {extra:.1f} ms more than a bare interpreter ({ratio:.2f} times its time), no TensorFlow loaded"
    )
    return {**samples.figures(), "ratio": ratio, "extra_secs": extra / 1e3}


def report_first_step(towers, samples):
    """Print and return where the time to the first step goes."""
    tpack, by_hand = samples.values()
    ratio = tpack.median(TOTAL) / by_hand.median(TOTAL)
    rows = [(name, tpack.median(name), by_hand.median(name)) for name in (*PHASES[:-1], TOTAL, PHASES[-1])]
    print_table(f"ResNet-50, number of towers: {towers}", ("seconds", *WORKERS), rows)
    print(f"tpack takes {ratio:.2f} times as long from the launch to the first step")
    return {**{way: samples[way].figures() for way in WORKERS}, "ratio": ratio}


def main():
    parser = argument_parser(__doc__)
    parser.add_argument("--towers", type=int, nargs="*", default=[1, 8], help="numbers of towers (default: 1 8)")
    parser.add_argument("--rounds", type=int, default=1, help="how often each first step is measured (default: 1)")
    parser.add_argument("--import-rounds", type=int, default=15, help="how often the import is (default: 15)")
    options = parser.parse_args()
    figures = {"import": report_import(measure_import(options.import_rounds))}
    for towers in options.towers:
        figures[f"towers={towers}"] = report_first_step(towers, measure_first_step(towers, options.rounds))
    write_json(options.out, figures)


if __name__ == "__main__":
    main()
