"""How long workers take to exchange arrays: both designs of tpack's, TensorFlow's collective ring and PyTorch's gloo.

    python benchmarks/cluster_exchange.py --torch-python ~/torch/bin/python --out cluster_exchange.json

Processes on this machine, each with a TensorFlow server, take the mean of arrays of float32 over all of them: through
queues, with a graph for each worker, which is what tpack does, and by Horovod's name for it; by copies in one graph
over all workers, which the chief drives; by TensorFlow's collective operations as a ring; and by gloo. "nothing" is the
same step without an exchange. A round has some steps of each way, and the slowest process counts. Bytes are those that
the loopback interface carried, divided by the workers: what each has sent.
"""

import contextlib
from pathlib import Path

import cluster_exchange_worker
from cluster_line import wire_bytes
from cluster_processes import Row
from timing import Samples, argument_parser, print_table, write_json

GLOO = "PyTorch gloo"
QUEUES = "queues"
MEGABYTE = 1e6
WARMUP_STEPS = 2


def measure(megabytes, workers, num_arrays, options):
    """Return the samples, the bytes that a worker sends a step by way, and what each way found to be the mean."""
    arguments = [int(megabytes * MEGABYTE / 4), num_arrays]
    with contextlib.ExitStack() as stack:
        ours = Row(cluster_exchange_worker.__file__, workers, arguments, stack=stack)
        rows = dict.fromkeys(cluster_exchange_worker.WAYS, ours)
        ours.answers()
        if options.torch_python:
            script = Path(__file__).with_name("cluster_torch_exchange.py")
            rows[GLOO] = Row(script, workers, arguments, stack=stack, python=options.torch_python)
            rows[GLOO].answers()
        return take_samples(rows, workers, options.steps or max(1, round(20 / max(megabytes, 1))), options.rounds)


def take_samples(rows, workers, steps, rounds):
    """Make rounds of steps of all ways in turns."""
    samples, sent, means = Samples(), {}, {}
    for way, row in rows.items():
        row.ask([way, WARMUP_STEPS])
        means[way] = row.ask([way, 0])[0]
    for _ in range(rounds):
        for way, row in rows.items():
            before = wire_bytes()
            samples.add(way, max(secs for secs in row.ask([way, steps]) if secs is not None))
            sent[way] = None if before is None else (wire_bytes() - before) / steps / workers
    return samples, sent, means


def report(megabytes, workers, num_arrays, options):
    """Measure, print a table, and return the figures."""
    samples, sent, means = measure(megabytes, workers, num_arrays, options)
    wanted = (workers + 1) / 2
    wrong = [way for way, mean in means.items() if way != "nothing" and abs(mean - wanted) > 1e-5]
    if wrong:
        raise SystemExit(f"{', '.join(wrong)} did not compute the mean, {wanted}: {means}")
    ratios = {way: samples.ratio(way, QUEUES) for way in samples.seconds}
    rows = [
        (
            way,
            samples.median(way) * 1e3,
            ratios[way],
            megabytes / 1e3 / samples.median(way),
            "" if sent[way] is None else sent[way] / MEGABYTE,
        )
        for way in samples.seconds
    ]
    title = f"{megabytes:g} MB in arrays: {num_arrays}, workers: {workers}"
    print_table(title, ["", "ms a step", f"over {QUEUES}", "GB/s of gradients", "MB sent"], rows)
    point = {"megabytes": megabytes, "arrays": num_arrays, "workers": workers}
    return {**point, "ways": samples.figures(), "ratios": ratios, "sent_bytes": sent}


def main():
    """Measure what the arguments ask for."""
    parser = argument_parser(__doc__)
    parser.add_argument("--megabytes", type=float, nargs="+", default=[0.1, 1, 10, 100])
    parser.add_argument("--workers", type=int, nargs="+", default=[2, 4])
    parser.add_argument("--arrays", type=int, nargs="+", default=[1, 4, 16], help="how many arrays they are")
    parser.add_argument("--steps", type=int, help="steps of a round; by default it depends on the size")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--torch-python", help="an interpreter that has PyTorch")
    options = parser.parse_args()
    if not options.torch_python:
        print(f"{GLOO} is left out: --torch-python names no interpreter that has it")
    figures = {
        f"{megabytes:g} MB, arrays={num_arrays}, workers={workers}": report(megabytes, workers, num_arrays, options)
        for workers in options.workers
        for megabytes in options.megabytes
        for num_arrays in options.arrays
    }
    write_json(options.out, figures)


if __name__ == "__main__":
    main()
