"""The time of a step and its bytes with each choice of what travels between workers, on links of three kinds.

    python benchmarks/gradient_compression.py --out gradient_compression.json

The networks of `cluster.py` are trained by SGD in several processes of this machine, each on one batch of its own, with
plain gradients and with each choice. The processes are connected by the loopback interface, or by wires of a certain
rate and delay (`cluster_wire`), which need the rights of root. A round is some steps of each row, in an order that is
drawn each time; a row that exchanges in some steps only makes so many that it does so evenly. The slowest process
counts. A ratio is that of a row over the plain row of its rounds. Some rows live at a time, always with the plain one,
since each of their processes has the memory of a training.
"""

import contextlib
import os
import random
import secrets
import sys
from pathlib import Path

import gradient_compression_worker
from cluster_models import SIZES
from cluster_processes import Row
from cluster_wire import Link, Wire, why_not
from timing import Samples, argument_parser, print_table, write_json

PLAIN = "plain"
TORCH = ("DDP", "DDP, fp16", "DDP, local SGD of 8")
"""PyTorch's `DistributedDataParallel` over gloo, with plain gradients and with its own hooks.

Its PowerSGD hook is not there: over gloo, the first step with it does not return (PyTorch 2.13).
"""
ROWS = (*gradient_compression_worker.ARGUMENTS, *TORCH)
PERIODS = {"accumulate=4": 4, "sync_every_steps=8": 8, "DDP, local SGD of 8": 8}
"""In how many steps something travels."""
LOOPBACK = "loopback"
LINKS = {LOOPBACK: None, "1 Gb/s": Link(1e9), "0.1 Gb/s, 5 ms": Link(1e8, 5e-3)}
STEPS = {"resnet20": 8, "perceptron": 2, "embedding": 16}
GROUPS_FROM = 4
"""Of fewer workers, two levels are one."""
LIMIT_SECS = 240


def start_row(row, network, workers, link, options, stack):
    """Start the processes of a row; return them when they are ready."""
    period = PERIODS.get(row, 1)
    steps = -(-(options.steps or STEPS[network]) // period) * period
    wire = Wire(LINKS[link], workers, stack=stack) if LINKS[link] else None
    script, python = Path(gradient_compression_worker.__file__), None
    if row in TORCH:
        script, python = script.with_name("gradient_compression_torch.py"), options.torch_python
    started = Row(script, workers, [row, network, options.shrink, steps, period], stack=stack, python=python, wire=wire)
    started.answers(LIMIT_SECS)
    return started


class Point:
    """The figures of a network, a number of workers and a kind of links, by row."""

    def __init__(self):
        self.median_secs, self.ratios, self.sent_bytes, self.errors = {}, {}, {}, {}

    def measure(self, group, start, rounds):
        """Measure some rows beside the plain one, which has been started."""
        samples, order = Samples(), random.Random(0)
        with contextlib.ExitStack() as stack:
            rows = {}
            for row in group:
                try:
                    rows[row] = start(row, stack)
                except RuntimeError as error:
                    self.errors[row] = str(error)
            for _ in range(rounds):
                for row in order.sample(list(rows), len(rows)):
                    answers = rows[row].ask("round", LIMIT_SECS)
                    samples.add(row, max(secs for secs, _ in answers))
                    self.sent_bytes[row] = [sent for _, sent in answers]
        for row in (row for row in group if row in samples.seconds):
            self.median_secs.setdefault(row, samples.median(row))
            self.ratios.setdefault(row, samples.ratio(row, PLAIN))


def measure(network, workers, link, options):
    """Return the figures of all rows."""
    point = Point()
    others = [row for row in options.rows if row != PLAIN and (row != "levels=2" or workers >= GROUPS_FROM)]
    with contextlib.ExitStack() as stack:
        plain = start_row(PLAIN, network, workers, link, options, stack)

        def start(row, stack):
            return plain if row == PLAIN else start_row(row, network, workers, link, options, stack)

        size = max(1, options.together - 1)
        for first in range(0, max(1, len(others)), size):
            group = others[first : first + size]
            print(f"{network}, workers: {workers}, {link}: {', '.join(group)}", file=sys.stderr)
            point.measure([PLAIN, *group], start, options.rounds)
    # On the loopback interface each process counts what all of them send.
    share = workers if LINKS[link] is None else 1
    for row, sent in point.sent_bytes.items():
        point.sent_bytes[row] = None if None in sent else sum(sent) / len(sent) / share
    return point


def report(network, workers, link, options):
    """Measure, print a table, and return the figures."""
    point = measure(network, workers, link, options)
    table = [
        (row, secs * 1e3, point.ratios[row], "" if (sent := point.sent_bytes[row]) is None else sent / 1e6)
        for row, secs in point.median_secs.items()
    ]
    headers = ["", "ms a step", "over plain", "MB a step and worker"]
    print_table(f"{network}, batches of {SIZES[network].batch}, workers: {workers}, {link}", headers, table)
    for row, error in point.errors.items():
        print(f"{row} did not run: {error}")
    sys.stdout.flush()
    return vars(point)


def main():
    """Measure what the arguments ask for."""
    parser = argument_parser(__doc__)
    parser.add_argument("--networks", nargs="+", default=list(SIZES), choices=list(SIZES))
    parser.add_argument("--workers", type=int, nargs="+", default=[2, 4])
    parser.add_argument("--links", nargs="+", default=list(LINKS), choices=list(LINKS))
    parser.add_argument("--rows", nargs="+", default=list(ROWS), choices=list(ROWS), help="beside the plain one")
    parser.add_argument("--torch-python", help="an interpreter that has PyTorch")
    parser.add_argument("--together", type=int, default=5, help="rows that live at a time (default: %(default)s)")
    parser.add_argument("--steps", type=int, help="steps of a round; by default it depends on the network")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--shrink", type=int, default=1, help="divide the width of the perceptron, and the rows")
    options = parser.parse_args()
    reason = why_not() if any(LINKS[link] for link in options.links) else ""
    if reason:
        print(f"All links but {LOOPBACK} are left out: {reason}")
        options.links = [link for link in options.links if LINKS[link] is None]
    if not options.torch_python:
        print("PyTorch is left out: --torch-python names no interpreter that has it")
        options.rows = [row for row in options.rows if row not in TORCH]
    # Processes on several addresses do not start without a secret.
    os.environ.setdefault("TPACK_CLUSTER_SECRET", secrets.token_hex(32))
    figures = {
        f"{network}, workers={workers}, {link}": report(network, workers, link, options)
        for network in options.networks
        for workers in options.workers
        for link in options.links
    }
    write_json(options.out, figures)


if __name__ == "__main__":
    main()
