"""Training in several processes: tpack's trainers, TensorFlow's own strategy, and PyTorch's DDP over gloo.

    python benchmarks/cluster.py --torch-python ~/torch/bin/python --out cluster.json

ResNet-20 on 32 x 32 images, a perceptron of 25 M weights, and an embedding of 1 M rows whose gradients are sparse are
trained by SGD in two processes of this machine, each on one batch of its own. Each row has its own processes, which
live for all rounds; a round is some steps of each row, in an order that is drawn anew each time. The slowest process
counts. "alone" is one process with the share of the cores that one of two has: the work of a process is the same, so
what a step takes longer is the price of the others. Bytes are those that the loopback interface carried, divided by the
workers. A parameter server has a process of its own besides.
"""

import contextlib
import random
import sys
from pathlib import Path

import cluster_worker
from cluster_models import SIZES
from cluster_processes import Row
from timing import Samples, argument_parser, print_table, write_json

ROWS = {
    "replicated": "MultiWorkerTrainerReplicated",
    "ps": "DistributedTrainerParameterServer",
    "ps synchronous": "DistributedTrainerParameterServer(synchronous=True)",
    "ps replicated": "DistributedTrainerReplicated",
    "horovod": "tpack.horovod, plain session",
    "alone": "tpack, one process",
    "tensorflow": "tf.distribute.MultiWorkerMirroredStrategy, custom loop",
    "torch": "PyTorch DistributedDataParallel, gloo",
    "torch alone": "PyTorch, one process",
}
TORCH = ("torch", "torch alone")
ALONE = {**dict.fromkeys(ROWS, "alone"), "torch": "torch alone"}
"""By which row of one process a row of several is divided."""
STEPS = {"resnet20": 10, "perceptron": 5, "embedding": 50}
START_SECS = 300


def start_row(row, network, options, stack):
    """Start the processes of a row; return them when they are ready."""
    numbers = [network, options.shrink, options.steps or STEPS[network]]
    workers = 1 if row.endswith("alone") else options.workers
    if row in TORCH:
        script = Path(__file__).with_name("cluster_torch.py")
        started = Row(script, workers, numbers, stack=stack, python=options.torch_python)
    else:
        num_silent = int(row in cluster_worker.WITH_SERVER)
        started = Row(cluster_worker.__file__, workers, [row, *numbers], stack=stack, num_silent=num_silent)
    started.answers(START_SECS)
    return started


def measure(network, options):
    """Return samples, the bytes that a process sends a step by row, and errors by row."""
    samples, sent, errors = Samples(), {}, {}
    with contextlib.ExitStack() as stack:
        rows = {}
        for row in options.rows:
            print(f"{network}: {row}", file=sys.stderr)
            try:
                rows[row] = start_row(row, network, options, stack)
            except RuntimeError as error:
                errors[row] = str(error)
        order = random.Random(0)
        for _ in range(options.rounds):
            for row in order.sample(list(rows), len(rows)):
                answers = rows[row].ask("round")
                samples.add(row, max(secs for secs, _ in answers))
                sent[row] = answers[0][1] if answers[0][1] is None else answers[0][1] / len(answers)
    return samples, sent, errors


def report(network, options):
    """Measure, print a table, and return the figures."""
    samples, sent, errors = measure(network, options)
    measured = [row for row in options.rows if row in samples.seconds]
    over_first = {row: samples.ratio(row, measured[0]) for row in measured}
    over_alone = {
        row: samples.ratio(row, alone)
        for row, alone in ALONE.items()
        if {row, alone} <= set(measured) and not row.endswith("alone")
    }
    table = [
        (
            ROWS[row],
            1 / samples.median(row),
            over_first[row],
            over_alone.get(row, ""),
            "" if sent[row] is None else sent[row] / 1e6,
        )
        for row in measured
    ]
    headers = ["", "steps a second", "time over the first row's", "time over one process's", "MB a step"]
    print_table(f"{network}, batches of {SIZES[network].batch}, processes: {options.workers}", headers, table)
    for row, error in errors.items():
        print(f"{ROWS[row]} did not run: {error}")
    return {
        "rows": samples.figures(),
        "ratios": over_first,
        "over_alone": over_alone,
        "sent_bytes": sent,
        "errors": errors,
    }


def main():
    """Measure what the arguments ask for."""
    parser = argument_parser(__doc__)
    parser.add_argument("--networks", nargs="+", default=list(SIZES), choices=list(SIZES))
    parser.add_argument("--rows", nargs="+", default=list(ROWS), choices=list(ROWS), help="in this order")
    parser.add_argument("--workers", type=int, default=2, help="processes of a row (default: %(default)s)")
    parser.add_argument("--steps", type=int, help="steps of a round; by default it depends on the network")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--shrink", type=int, default=1, help="divide the width of the perceptron, and the rows")
    parser.add_argument("--torch-python", help="an interpreter that has PyTorch")
    options = parser.parse_args()
    if not options.torch_python:
        print("PyTorch is left out: --torch-python names no interpreter that has it")
        options.rows = [row for row in options.rows if row not in TORCH]
    write_json(options.out, {network: report(network, options) for network in options.networks})


if __name__ == "__main__":
    main()
