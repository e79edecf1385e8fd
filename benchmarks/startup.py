"""How long it takes until something happens: `import tpack`, and the first training step of models of three kinds.

    python benchmarks/startup.py --models resnet50 --towers 1 8 --out startup.json

`import tpack` is compared with an interpreter that does nothing. The first step is compared with the same thing written
by hand: a plain TensorFlow graph with the same towers, variables and gradients, in a session as TensorFlow makes it. It
counts from the launch of a fresh process, which trains on one example in each tower: building and preparing the graph
is what takes the time, and depends neither on the batch nor on the size of the examples.

Where other programs use the machine too, the processor's time of a process says more than the time on the wall.
"""

import json
import subprocess
import sys
import time
from pathlib import Path

from timing import Samples, argument_parser, print_table, write_json

WORKERS = {
    "tpack": ("startup_tpack.py",),
    "towers built": ("startup_tpack.py", "--tower-building", "build"),
    "all rewrites": ("startup_tpack.py", "--grappler", "on"),
    "both": ("startup_tpack.py", "--tower-building", "build", "--grappler", "on"),
    "by hand": ("startup_by_hand.py",),
}
"""The ways, and how each is run: tpack by default, without either of what makes it start fast, and not at all."""

MODELS = ("resnet50", "transformer12", "lstm")
PHASES = (
    "interpreter and imports",
    "building the graph",
    "callbacks and monitors",
    "session and variables",
    "before training",
    "first step",
    "second step",
)
TOTAL = "launch to first step"
CPU = "processor's time of it"
NUM_OPERATIONS = "operations"

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


def measure_first_step(model, towers, *, ways, rounds):
    """Return, for each way, the times from the launch of a process to its first step, and how large its graph is."""
    samples = {way: Samples() for way in ways}
    num_operations = {}
    for _ in range(rounds):
        for way in ways:
            worker, *options = WORKERS[way]
            path = str(Path(__file__).with_name(worker))
            output = _python(path, model, str(towers), repr(time.time()), *options)
            measured = json.loads(output.splitlines()[-1])
            num_operations[way] = measured.pop(NUM_OPERATIONS)
            for name, seconds in measured.items():
                samples[way].add(name, seconds)
            samples[way].add(TOTAL, sum(measured[phase] for phase in PHASES[:-1]))
    return samples, num_operations


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


def report_first_step(title, samples, num_operations):
    """Print and return where the time to the first step goes, and its ratio to that of the last way."""
    *_, base = samples
    names = (*PHASES[:-1], TOTAL, CPU, PHASES[-1])
    rows = [(name, *(samples[way].median(name) for way in samples)) for name in names]
    ratios = {name: {way: _ratio(samples[way], samples[base], name) for way in samples} for name in (TOTAL, CPU)}
    rows += [(f"{name}, over {base}", *ratios[name].values()) for name in ratios]
    print_table(title, ("seconds", *samples), [*rows, (NUM_OPERATIONS, *num_operations.values())])
    figures = {way: samples[way].figures() for way in samples}
    return {**figures, "ratios": ratios[TOTAL], "cpu_ratios": ratios[CPU], NUM_OPERATIONS: num_operations}


def _ratio(samples, base, name):
    return samples.median(name) / base.median(name)


def main():
    parser = argument_parser(__doc__)
    parser.add_argument("--towers", type=int, nargs="*", default=[1, 2, 8, 16], help="default: 1 2 8 16")
    parser.add_argument("--models", nargs="*", choices=MODELS, default=MODELS, help="default: all")
    parser.add_argument("--ways", nargs="*", choices=WORKERS, default=list(WORKERS), help="default: all")
    parser.add_argument("--rounds", type=int, default=1, help="how often each first step is measured (default: 1)")
    parser.add_argument("--import-rounds", type=int, default=15, help="how often the import is (default: 15)")
    options = parser.parse_args()
    figures = {"import": report_import(measure_import(options.import_rounds))}
    for model in options.models:
        for towers in options.towers:
            title = f"{model}, number of towers: {towers}"
            measured = measure_first_step(model, towers, ways=options.ways, rounds=options.rounds)
            figures[title] = report_first_step(title, *measured)
    write_json(options.out, figures)


if __name__ == "__main__":
    main()
