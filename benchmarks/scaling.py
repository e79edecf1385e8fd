"""A model of the time of a step on many workers: from bytes, bandwidth, messages and overlap.

    python benchmarks/scaling.py --exchange cluster_exchange.json --cluster cluster.json

The first part is fitted to what `cluster_exchange.py` has measured: what an exchange takes by itself, by message and by
byte. `cluster.py` says how well a step is predicted by it. The second part is fitted to what tensorpack has published
for ResNet-50 on machines of 8 GPUs, whose gradients went around a ring: what a hop took, and how much of it all was
hidden behind the backward pass. Then both are read out for other numbers of GPUs. docs/scaling.md explains it.
"""

import json
import math
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from timing import argument_parser, print_table, write_json

from tpack.multi_worker.gradient_buckets import BUCKET_BYTES, MAX_BUCKETS, Route

IMAGES = 1281167
EPOCHS = 95
RESNET50_BYTES = 25_557_032 * 4
BACKWARD = 2 / 3
"""The part of a step's computation that the backward pass takes."""
GPUS = 8
"""In a machine."""


@dataclass(frozen=True)
class Published:
    """A run of tensorpack's on P100s: 95 epochs of ImageNet, or steps of it.

    Attributes:
        gpus: how many.
        batch: examples of each.
        step_secs: what a step took.
    """

    gpus: int
    batch: int
    step_secs: float

    @staticmethod
    def of_run(gpus, batch, *, hours, minutes):
        """Return what a whole training says of its steps."""
        steps = round(IMAGES / (gpus * batch)) * EPOCHS
        return Published(gpus, batch, (hours * 60 + minutes) * 60 / steps)


P100_ONE, P100_EIGHT = 228.0, 1612.0
"""Images a second on one and on eight P100s of one machine, with batches of 64."""
V100_EIGHT = {64: 2961.0, 128: 3137.0}
"""Images a second on eight V100s, by the batch of each."""
PUBLISHED = (
    Published.of_run(32, 64, hours=5, minutes=9),
    Published.of_run(128, 32, hours=1, minutes=40),
    Published.of_run(128, 64, hours=1, minutes=23),
    Published.of_run(256, 32, hours=1, minutes=9),
)


@dataclass(frozen=True)
class Traffic:
    """What there is to do for an exchange.

    Attributes:
        messages: that are sent.
        sent_bytes: that are sent.
        added_bytes: of the summands that are added.
        arrays: that are joined before and taken apart after it.
    """

    messages: float
    sent_bytes: float
    added_bytes: float
    arrays: float

    def of_all(self, workers):
        """Return what so many workers do together."""
        return Traffic(*(workers * each for each in vars(self).values()))


def traffic(size_bytes, workers, num_arrays=MAX_BUCKETS):
    """Return what one worker does to exchange gradients as tpack does.

    Args:
        size_bytes: of all gradients together.
        workers: how many exchange them.
        num_arrays: how many gradients of one size there are.
    """
    if workers == 1:
        return Traffic(0, 0.0, 0.0, 0)
    is_alone = size_bytes / num_arrays >= BUCKET_BYTES
    buckets = num_arrays if is_alone else min(num_arrays, MAX_BUCKETS, max(1, math.ceil(size_bytes / BUCKET_BYTES)))
    route = Route.of_bucket(math.ceil(size_bytes / buckets), workers)
    if route.is_direct:
        messages, sent = (workers - 1) * buckets, (workers - 1) * size_bytes
        return Traffic(messages * route.num_chunks, sent, workers * size_bytes, num_arrays)
    messages, sent = 2 * (workers - 1) * buckets, 2 * (workers - 1) / workers * size_bytes
    return Traffic(messages * route.num_chunks, sent, size_bytes, num_arrays)


@dataclass(frozen=True)
class ExchangeModel:
    """What an exchange takes.

    Attributes:
        fixed_secs: in any case.
        message_secs: for each message that passes the bottleneck.
        byte_secs: for each byte that does.
        added_byte_secs: for each byte that is added there.
        array_secs: for each array that is joined and taken apart there.
    """

    fixed_secs: float
    message_secs: float
    byte_secs: float
    added_byte_secs: float
    array_secs: float

    def secs(self, work):
        """Return the seconds of an exchange.

        Args:
            work: a `Traffic`.
        """
        return sum(secs * count for secs, count in zip(vars(self).values(), (1, *vars(work).values()), strict=True))


def fit_exchange(points):
    """Fit the model by least squares of the relative error, with no negative part.

    Args:
        points: (`Traffic`, seconds) of each measured exchange.
    """
    rows = np.array([[1.0, *vars(work).values()] for work, _ in points])
    weights = 1 / np.array([secs for _, secs in points])
    num_parts = rows.shape[1]
    best, least = np.zeros(num_parts), math.inf
    # There are few sets of parts that may be other than zero.
    sizes = range(1, num_parts + 1)
    for chosen in (list(each) for count in sizes for each in combinations(range(num_parts), count)):
        weighted = rows[:, chosen] * weights[:, None]
        scale = np.linalg.norm(weighted, axis=0)
        found = np.linalg.lstsq(weighted / scale, np.ones(len(points)), rcond=None)[0] / scale
        error = float(np.sum((weighted @ found - 1) ** 2))
        if (found >= 0).all() and error < least:
            best, least = np.zeros(num_parts), error
            best[chosen] = found
    return ExchangeModel(*map(float, best))


def relative_errors(pairs):
    """Return the median and the largest relative error of (predicted, measured) pairs."""
    errors = [abs(predicted / measured - 1) for predicted, measured in pairs]
    return float(np.median(errors)), max(errors)


def one_machine_points(figures):
    """Return (`Traffic`, seconds) of each exchange that was measured on one machine, where what all workers do counts.

    Args:
        figures: what `cluster_exchange.py` has written.
    """
    points = []
    for each in figures.values():
        if "ways" not in each:
            continue
        size_bytes, workers = each["megabytes"] * 1e6, each["workers"]
        secs = each["ways"]["queues"]["median_secs"] - each["ways"]["nothing"]["median_secs"]
        # What takes longer without an exchange was disturbed.
        if secs > 0:
            points.append((traffic(size_bytes, workers, each["arrays"]).of_all(workers), secs))
    return points


def one_machine_steps(figures, model, sizes):
    """Return (network, predicted, measured) seconds of a step of two processes.

    Nothing is hidden: the cores that would compute meanwhile are those that send.
    """
    steps = []
    for network, (size_bytes, num_arrays) in sizes.items():
        rows = figures.get(network, {}).get("rows", {})
        if {"alone", "replicated"} <= set(rows):
            work = traffic(size_bytes, 2, num_arrays).of_all(2)
            predicted = rows["alone"]["median_secs"] + model.secs(work)
            steps.append((network, predicted, rows["replicated"]["median_secs"]))
    return steps


@dataclass(frozen=True)
class RingModel:
    """What tensorpack's published runs say of a ring over all GPUs.

    Attributes:
        hop_secs: what each of its hops took.
        overlap: how much of the backward pass hides what is sent.
    """

    hop_secs: float
    overlap: float

    def step_secs(self, gpus, batch):
        """Return the seconds of a step on P100s."""
        machine = batch * GPUS / P100_EIGHT
        if gpus <= GPUS:
            return machine
        ring = 2 * (gpus - 1) * self.hop_secs
        return machine + max(0.0, ring - self.overlap * BACKWARD * machine)


def fit_ring(published):
    """Return the model with the least relative error, on a grid that is fine enough for what is published."""
    candidates = [RingModel(hop * 2e-6, overlap / 100) for hop in range(1, 501) for overlap in range(101)]

    def error(model):
        return sum((model.step_secs(run.gpus, run.batch) / run.step_secs - 1) ** 2 for run in published)

    return min(candidates, key=error)


def exchange_step_secs(machine_secs, machines, *, message_secs, bandwidth, overlap):
    """Return the seconds of a step of ResNet-50 where machines exchange as tpack does.

    Args:
        machine_secs: a step of one machine.
        machines: how many.
        message_secs: what a message takes.
        bandwidth: bytes a second that a machine sends.
        overlap: as for `RingModel`.
    """
    work = traffic(RESNET50_BYTES, machines)
    wire = work.messages * message_secs + work.sent_bytes / bandwidth
    return machine_secs + max(0.0, wire - overlap * BACKWARD * machine_secs)


def report_exchange(points):
    """Print and return how well the first part fits."""
    model = fit_exchange(points)
    middle, largest = relative_errors([(model.secs(work), secs) for work, secs in points])
    rows = [
        ("in any case, ms", model.fixed_secs * 1e3),
        ("a message, ms", model.message_secs * 1e3),
        ("a gigabyte sent, s", model.byte_secs * 1e9),
        ("a gigabyte added, s", model.added_byte_secs * 1e9),
        ("an array, ms", model.array_secs * 1e3),
    ]
    print_table("an exchange on this machine", ["part", ""], rows)
    print(f"{len(points)} points: median error {middle:.0%}, largest {largest:.0%}")
    return model, {"median_error": middle, "largest_error": largest}


def report_steps(steps):
    """Print how well steps are predicted."""
    rows = [(network, predicted * 1e3, measured * 1e3) for network, predicted, measured in steps]
    print_table("a step of two processes, ms", ["network", "predicted", "measured"], rows)


def report_published():
    """Print and return how well the second part fits."""
    ring = fit_ring(PUBLISHED)
    pairs = [(ring.step_secs(run.gpus, run.batch), run.step_secs) for run in PUBLISHED]
    rows = [
        (run.gpus, run.batch, predicted * 1e3, measured * 1e3, predicted / measured - 1)
        for run, (predicted, measured) in zip(PUBLISHED, pairs, strict=True)
    ]
    headers = ["P100s", "batch of each", "predicted, ms", "published, ms", "error"]
    print_table("tensorpack's ring, ResNet-50", headers, rows)
    print(f"a hop {ring.hop_secs * 1e3:.3f} ms, hidden {ring.overlap:.0%} of the backward pass")
    return ring


def read_out(ring, *, message_secs, bandwidth):
    """Print and return what both designs would reach on more GPUs, as a share of what so many machines alone do."""
    rows = []
    for name, batch, rate in (("P100", 64, P100_EIGHT), ("P100", 32, P100_EIGHT), ("V100", 64, V100_EIGHT[64])):
        machine_secs = batch * GPUS / rate
        for gpus in (8, 64, 256, 1024):
            machines = gpus // GPUS
            hops = 0.0 if machines == 1 else 2 * (gpus - 1) * ring.hop_secs
            ring_secs = machine_secs + max(0.0, hops - ring.overlap * BACKWARD * machine_secs)
            how = {"message_secs": message_secs, "bandwidth": bandwidth, "overlap": ring.overlap}
            ours = exchange_step_secs(machine_secs, machines, **how)
            speed = gpus * batch / ours
            rows.append((f"{gpus} {name}", batch, ring_secs * 1e3, ours * 1e3, speed, machine_secs / ours))
    headers = ["", "batch of each", "ring as published, ms", "two hops, ms", "images a second", "of machines alone"]
    title = f"ResNet-50, machines of {GPUS}, {bandwidth / 1e9:g} GB/s and {message_secs * 1e3:.3f} ms a message"
    print_table(title, headers, rows)
    return [dict(zip(headers, row, strict=True)) for row in rows]


# Bytes and number of the gradients of `cluster.py`'s networks; of the embedding, the rows that were used.
SIZES = {"resnet20": (1.08e6, 59), "perceptron": (100.57e6, 8), "embedding": (0.28e6, 3)}


def main():
    """Fit and read out."""
    parser = argument_parser(__doc__)
    parser.add_argument("--exchange", nargs="+", required=True, help="what cluster_exchange.py --out has written")
    parser.add_argument("--cluster", help="what cluster.py --out has written")
    parser.add_argument("--network", type=float, default=6.25, help="GB/s that a machine sends (default: %(default)s)")
    parser.add_argument("--message-us", type=float, help="what a message takes; by default what the fit says")
    options = parser.parse_args()
    points = [point for path in options.exchange for point in one_machine_points(_read(path))]
    if not points:
        raise SystemExit(f"{', '.join(options.exchange)} has no exchange of queues over 'nothing'")
    model, errors = report_exchange(points)
    if options.cluster:
        report_steps(one_machine_steps(_read(options.cluster), model, SIZES))
    ring = report_published()
    message_secs = model.message_secs if options.message_us is None else options.message_us / 1e6
    rows = read_out(ring, message_secs=message_secs, bandwidth=options.network * 1e9)
    write_json(options.out, {"exchange": {**vars(model), **errors}, "ring": vars(ring), "read_out": rows})


def _read(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


if __name__ == "__main__":
    main()
