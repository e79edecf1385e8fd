"""What `tpack scale` says of published trainings, to none of which anything was fitted, and of more GPUs.

    python benchmarks/scaling.py --out scaling.json

The published systems send their gradients around a ring, or to servers, so their schedules are written here, and run
on the simulator of `tpack.multi_worker.scaling`. Their networks are those that the publications name; what they do not
say is assumed here, once for all (`RING_HOP_SECS`, `FUSION_BYTES`, `NETWORK`), and no figure was changed afterwards.
docs/scaling.md has the results.
"""

import itertools
from dataclasses import dataclass

from timing import argument_parser, print_table, write_json

from tpack.cli.reduce import MODELS
from tpack.multi_worker.scaling.network import NetworkSpeed
from tpack.multi_worker.scaling.schedule import ELSEWHERE, Course, Hop, Schedule, Work
from tpack.multi_worker.scaling.simulator import Computation, Machine, simulate_step
from tpack.multi_worker.scaling.study import Design, Workload, predict

IMAGES, EPOCHS = 1281167, 95

FUSION_BYTES = 64 * 2**20
"""Horovod's default: gradients that are ready together travel in a buffer of at most so many bytes."""
CYCLES = 8
"""Buffers of a step at least, since Horovod looks every few milliseconds for what is ready."""
RING_HOP_SECS = 30e-6
"""A hop of a ring over GPUs of several machines, from one to the next: NCCL over RDMA or fast Ethernet."""
NETWORK = NetworkSpeed(0.0, 1e9, 0.0, 0.0, 0.0, sum_secs=5e-12, step_secs=0.0, cores=8)
"""Sums of GPUs, 200 GB/s; other numbers are those of each publication."""


def _vgg16():
    channels, shapes = 3, []
    for width, count in ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3)):
        for _ in range(count):
            shapes += [(3, 3, channels, width), (width,)]
            channels = width
    return (*shapes, (25088, 4096), (4096,), (4096, 4096), (4096,), (4096, 1000), (1000,))


def _evenly(count, elements):
    """Return matrices of as many elements in all, for a model of convolutions alone."""
    return ((elements // count,),) * count


SHAPES = {
    "ResNet-50": MODELS["resnet50"](),
    "ResNet-101": _evenly(314, 44_549_160),
    "Inception-v3": _evenly(284, 23_834_568),
    "VGG-16": _vgg16(),
}
FORWARD_OF_LAST = {"VGG-16": 0.1}
"""Where the large layers are at the end of the model, their gradients are ready after so much of the backward pass."""


@dataclass(frozen=True)
class Published:
    """A published training.

    Attributes:
        name: what it is called here.
        model: whose gradients.
        workers: GPUs.
        per_machine: of a machine.
        gigabits: those of a machine's link.
        step_secs: the computation of a step on as many GPUs as `base` says.
        share: of linear scaling, from `base` on.
        source: where it is published.
        base: the GPUs of which the computation is known.
        kind: ring or servers.
    """

    name: str
    model: str
    workers: int
    per_machine: int
    gigabits: float
    step_secs: float
    share: float
    source: str
    base: int = 1
    kind: str = "ring"


def _tensorpack(gpus, batch, hours, minutes):
    """Return a run of tensorpack's ResNet-50: 95 epochs of ImageNet on machines of 8 P100s."""
    steps = round(IMAGES / (gpus * batch)) * EPOCHS
    alone = batch * 8 / 1612
    share = alone / ((hours * 60 + minutes) * 60 / steps)
    return Published(f"tensorpack, {gpus} P100, {batch} each", "ResNet-50", gpus, 8, 100, alone, share, "tensorpack", 8)


# Images a second on one P100 with batches of 64, as TensorFlow's own benchmarks of that time had them.
ONE_P100 = {"ResNet-50": 219.0, "ResNet-101": 137.0, "Inception-v3": 142.0, "VGG-16": 150.0}
HOROVOD = {"ResNet-101": 0.90, "Inception-v3": 0.90, "VGG-16": 0.68}
PUBLISHED = (
    _tensorpack(32, 64, 5, 9),
    _tensorpack(128, 32, 1, 40),
    _tensorpack(128, 64, 1, 23),
    _tensorpack(256, 32, 1, 9),
    *(
        Published(f"Horovod, 512 Pascal, {model}", model, 512, 4, 25, 64 / ONE_P100[model], share, "Horovod")
        for model, share in HOROVOD.items()
    ),
    Published("CSCS, 32 P100", "ResNet-50", 32, 1, 80, 64 / (1133.6 / 8), 4403 / 1133.6 / 4, "reframe#637", 8),
)
# Eight V100s of a machine, four machines: images a second of one with batches of 64, and what BytePS gains over a ring.
ONE_V100 = {"ResNet-50": 380.0, "VGG-16": 230.0}
BYTEPS = {"ResNet-50": 1.44, "VGG-16": 2.00}


def workload_of(model, step_secs):
    """Return the gradients of a model and when they are ready."""
    return Workload.of_shapes(SHAPES[model], step_secs)


def buffers_of(workload):
    """Return (share of the computation, bytes, index of the last gradient) of each buffer of Horovod."""
    gradients = sorted(workload.gradients, key=lambda each: each.ready)
    limit = min(FUSION_BYTES, workload.size_bytes / CYCLES)
    found, size = [], 0
    for number, each in enumerate(gradients):
        size += each.size_bytes
        if size >= limit or number == len(gradients) - 1:
            found.append((each.ready, size))
            size = 0
    return found


def ring_secs(workload, workers, per_machine, gigabits, hop_secs=RING_HOP_SECS):
    """Return the seconds of a step whose buffers go around a ring over all GPUs, one buffer after the other.

    Each hop moves a W-th of a buffer; the link of a machine carries it once, for one of its GPUs.
    """
    buffers = buffers_of(workload)
    courses = []
    for number, (_, size) in enumerate(buffers):
        part = size * 2 * (workers - 1) / workers
        remote = 1.0 if workers > per_machine else 0.0
        hops = Hop(1, round(part), 1, round(part), remote=remote)
        courses.append(Course((number,), ((((hops, Work(size))),),)))
    network = NETWORK.over(gigabits * 1e9 / 8, 2 * (workers - 1) * hop_secs if workers > per_machine else 0.0)
    computation = Computation(workload.step_secs, [ready for ready, _ in buffers])
    return _one_after_the_other(courses, computation, network, workers)


def _one_after_the_other(courses, computation, network, workers):
    """Return the seconds of a step in which a buffer waits for the one before: latencies add up."""
    end = 0.0
    for course, ready in zip(courses, computation.ready, strict=True):
        alone = simulate_step(
            Schedule((course,), 0), Computation(0.0, [1.0] * len(courses)), network, Machine(8), workers
        )
        end = max(end, ready * computation.secs) + alone.secs
    return max(end, computation.secs)


def servers_secs(workload, workers, per_machine, gigabits):
    """Return the seconds of a step with as many servers as machines, on machines of their own (BytePS).

    A machine adds inside first, sends all gradients once and receives the sums once, dealt out evenly over servers.
    """
    gradients = sorted(workload.gradients, key=lambda each: each.ready)
    machines = workers // per_machine
    courses = []
    for number, each in enumerate(gradients):
        size = each.size_bytes
        there = Hop(1, size, machines, size, receiver=ELSEWHERE)
        back = Hop(machines, size, 1, size, sender=ELSEWHERE)
        courses.append(Course((number,), (((there, back),),)))
    network = NETWORK.over(gigabits * 1e9 / 8, RING_HOP_SECS)
    computation = Computation(workload.step_secs, [each.ready for each in gradients])
    return simulate_step(Schedule(tuple(courses), machines), computation, network, Machine(8), workers).secs


def report_published():
    """Print and return what is predicted and what was published."""
    rows = []
    for run in PUBLISHED:
        workload = workload_of(run.model, run.step_secs)
        base = ring_secs(workload, run.base, run.per_machine, run.gigabits)
        secs = ring_secs(workload, run.workers, run.per_machine, run.gigabits)
        share = base / secs
        rows.append((run.name, run.workers, share, run.share, f"{share / run.share - 1:+.0%}", run.source))
    for model, gain in BYTEPS.items():
        workload = workload_of(model, 64 / ONE_V100[model])
        ratio = ring_secs(workload, 32, 8, 20) / servers_secs(workload, 32, 8, 20)
        rows.append((f"BytePS over Horovod, {model}", 32, ratio, gain, f"{ratio / gain - 1:+.0%}", "BytePS"))
    headers = ["", "GPUs", "predicted", "published", "error", "source"]
    print_table("published trainings: share of linear scaling, and the ratio of BytePS", headers, rows)
    return [dict(zip(headers, row, strict=True)) for row in rows]


DESIGNS = ("levels=1", "levels=1+bucket=64", "levels=2", "levels=2+bucket=64", "bfloat16+levels=2", "accumulate=4")


def report_more(network):
    """Print and return the share of linear scaling of tpack's designs between machines of 8 V100s, by simulation."""
    rows = []
    workload = Workload.of_shapes(SHAPES["ResNet-50"], 64 * 8 / 2961, 0.003)
    for text, machines in itertools.product(DESIGNS, (8, 32, 128)):
        found = predict(Design.parse(text), workload, network, machines)
        rows.append((text, 8 * machines, found.step.secs * 1e3, found.share, found.step.limit))
    headers = ["design", "V100s", "ms a step", "share", "limit"]
    print_table("ResNet-50, machines of 8 V100s with 64 images each", headers, rows)
    return [dict(zip(headers, row, strict=True)) for row in rows]


def main():
    """Simulate and report."""
    parser = argument_parser(__doc__)
    parser.add_argument("--gigabits", type=float, default=50.0, help="between machines (default: %(default)s)")
    parser.add_argument("--message-us", type=float, default=100.0, help="of the processor (default: %(default)s)")
    options = parser.parse_args()
    published = report_published()
    message_secs = options.message_us / 1e6
    processor = {"peer_secs": 3 * message_secs, "byte_secs": 3e-10, "sum_secs": 1e-10, "step_secs": 5e-4}
    network = NetworkSpeed(50e-6, options.gigabits * 1e9 / 8, message_secs, cores=16, **processor)
    write_json(options.out, {"published": published, "more": report_more(network)})


if __name__ == "__main__":
    main()
