"""How well `tpack scale` predicts what it was not fitted to: more workers, other networks and codecs.

    python benchmarks/scaling_held_out.py --fit two.json four.json --workers 8 16 --out held_out.json
    python benchmarks/scaling_held_out.py --fit two.json four.json --gigabits 1 0.1 --workers 4 8 --out wires.json
    python benchmarks/scaling_held_out.py --fit two.json four.json --report held_out.json wires.json

``--fit`` names what ``tpack cluster check --json`` has written in jobs of two and four processes. Then real processes
exchange gradients as tpack's trainers do, on the loopback interface or on links of a certain rate (`cluster_wire`),
whose latency and bandwidth are measured first, as ``tpack cluster check`` measures them.
Their computation is replaced by sleeps, since there are more processes than cores; messages, bytes, sums and codecs of
all of them share the cores of the machine, and so they do in the simulation.
"""

import contextlib
import itertools
import json
import os
from dataclasses import replace
from statistics import median

import numpy as np
import scaling_worker
from cluster_processes import Row
from cluster_wire import Link, Wire, why_not
from timing import argument_parser, print_table, write_json

from tpack.multi_worker.scaling.network import NetworkSpeed, merged
from tpack.multi_worker.scaling.schedule import GradientSpec
from tpack.multi_worker.scaling.study import Design, Workload, predict, with_codecs

RESNET20 = [[3, 3, 3, 16], *[[3, 3, 16, 16]] * 6, [3, 3, 16, 32], *[[3, 3, 32, 32]] * 5, [3, 3, 32, 64]]
RESNET20 += [*[[3, 3, 64, 64]] * 5, [64, 10], *[[16]] * 14, *[[32]] * 12, *[[64]] * 12, [10]]
MODELS = {"resnet20": (RESNET20, 0.1), "layers": ([[512, 512]] * 12, 0.2)}
"""{name: shapes of the gradients, seconds of computation}: 1.1 MB and 12.6 MB."""
DESIGNS = ("levels=1", "levels=2", "levels=1+bucket=1", "bfloat16+levels=1", "int8", "top_k:0.01", "power_sgd:4")
LINK_MEGABYTES = 4.0
"""What a link of a certain rate is measured with."""
CLEAR = 1.1
"""The ratio from which two designs differ: their order is to be predicted."""


def workload_of(model):
    """Return what `scaling_worker` computes."""
    shapes, sleep_secs = MODELS[model]
    count = min(scaling_worker.NUM_SLEEPS, len(shapes))
    ready = {}
    for number, members in enumerate(np.array_split(range(len(shapes))[::-1], count), 1):
        share = scaling_worker.FORWARD + (1 - scaling_worker.FORWARD) * number / count
        ready |= {int(n): (share, position) for position, n in enumerate(members)}
    order = sorted(ready, key=lambda n: ready[n])
    return Workload([GradientSpec(f"v{n}", tuple(shapes[n]), ready=ready[n][0]) for n in order], sleep_secs)


def measure(workers, models, designs, steps, rounds, wire=None):
    """Return {(model, design): (seconds of a step, those of a processor)} of so many processes, and their links.

    The links are ``{"bandwidth": ..., "latency_secs": ...}`` as measured on a wire, and None on the loopback interface.
    """
    found, links = {}, None
    with contextlib.ExitStack() as stack:
        network = Wire(wire, workers, stack=stack) if wire else None
        row = Row(scaling_worker.__file__, workers, [], stack=stack, wire=network)
        row.answers()
        if wire is not None:
            hops, rates = zip(*row.ask([LINK_MEGABYTES], limit_secs=600), strict=True)
            links = {"bandwidth": median(rates), "latency_secs": median(hops)}
        for _ in range(rounds):
            for model, design in itertools.product(models, [None, *designs]):
                shapes, sleep_secs = MODELS[model]
                answers = row.ask([shapes, design, sleep_secs, steps], limit_secs=600)
                secs, busy = zip(*answers, strict=True)
                found.setdefault((model, design), []).append((median(secs), sum(busy) / workers))
    return {key: tuple(map(median, zip(*each, strict=True))) for key, each in found.items()}, links


def measured_points(workers, options, gigabits=None):
    """Measure; return a row for each model and design."""
    wire = Link(gigabits * 1e9, options.delay_ms / 1e3) if gigabits else None
    secs, links = measure(workers, options.models, options.designs, options.steps, options.rounds, wire)
    rows = []
    for (model, design), (measured, busy) in secs.items():
        if design is not None:
            link = f"{gigabits:g} Gb/s, {options.delay_ms:g} ms" if gigabits else "loopback"
            point = {"workers": workers, "link": link, "measured_link": links, "model": model, "design": design}
            rows.append(
                {
                    **point,
                    "measured_secs": measured,
                    "alone_secs": secs[model, None][0],
                    "processor_secs": busy,
                    "alone_processor_secs": secs[model, None][1],
                }
            )
            print(f"{workers} {link} {model} {design}: {measured * 1e3:.1f} ms", flush=True)
    return rows


def predicted(row, network):
    """Return a row with the prediction; the computation is what a step without an exchange has taken."""
    workload = workload_of(row["model"])
    # Sleeps last longer than they are asked to, and variables are assigned.
    alone = Workload(workload.gradients, max(0.0, row["alone_secs"] - network.step_secs))
    workers, per_machine = row["workers"], row["workers"]
    if row["measured_link"]:
        # Each has a link of its own, and its part of the cores.
        network, per_machine = replace(network, cores=network.cores / workers, **_hop_of(row, network)), 1
    found = predict(Design.parse(row["design"]), alone, network, workers, per_machine=per_machine)
    return {**row, "predicted_secs": found.step.secs, "limit": found.step.limit}


def _hop_of(row, network):
    """Return the measured link of a row; a message is a part of a hop."""
    link = row["measured_link"]
    return {**link, "latency_secs": max(0.0, link["latency_secs"] - network.message_secs)}


def error_of(row):
    """Return the relative error of a prediction."""
    return row["predicted_secs"] / row["measured_secs"] - 1


def order_of(rows):
    """Return the pairs of designs whose order is predicted, and those that differ clearly, each in its own setting."""
    kept = clear = 0
    for _, group in itertools.groupby(rows, key=lambda row: (row["workers"], row["link"], row["model"])):
        for one, other in itertools.combinations(list(group), 2):
            ratio = one["measured_secs"] / other["measured_secs"]
            if max(ratio, 1 / ratio) >= CLEAR:
                clear += 1
                kept += (ratio - 1) * (one["predicted_secs"] - other["predicted_secs"]) > 0
    return kept, clear


def report(rows, title):
    """Print the errors and the order of some rows."""
    errors = sorted(abs(error_of(row)) for row in rows)
    kept, clear = order_of(rows)
    worst = max(rows, key=lambda row: abs(error_of(row)))
    place = ", ".join(str(worst[name]) for name in ("workers", "link", "model", "design"))
    return (
        title, len(rows), f"{median(errors):.1%}", f"{np.quantile(errors, 0.9):.1%}", f"{errors[-1]:.1%}",
        f"{kept} of {clear}", place,
    )  # fmt: skip


def print_report(rows):
    """Print what was measured and predicted, and the errors by setting."""
    table = [
        (*(row[name] for name in ("workers", "link", "model", "design")), row["measured_secs"] * 1e3,
         row["predicted_secs"] * 1e3, f"{error_of(row):+.0%}", row["limit"])
        for row in rows
    ]  # fmt: skip
    headers = ["workers", "link", "model", "design", "measured, ms", "predicted, ms", "error", "limit"]
    print_table("a step", headers, table)
    by_setting = {}
    for row in rows:
        by_setting.setdefault(f"{row['workers']} workers, {row['link']}", []).append(row)
    summary = [report(group, setting) for setting, group in by_setting.items()]
    held_out = [row for row in rows if row["workers"] > 4 or row["link"] != "loopback"]
    if held_out:
        summary.append(report(held_out, "all that was held out"))
    print_table("errors", ["", "points", "median", "90 %", "largest", "order kept", "where largest"], summary)


def main():
    """Measure what the arguments ask for, or report what was measured before."""
    parser = argument_parser(__doc__)
    parser.add_argument("--fit", nargs="+", required=True, help="what tpack cluster check --json has written")
    parser.add_argument("--report", nargs="+", help="measure nothing: what --out has written before")
    parser.add_argument("--workers", type=int, nargs="+", default=[2, 4, 8])
    parser.add_argument(
        "--gigabits", type=float, nargs="+", help="the links' rates; the loopback interface if not given"
    )
    parser.add_argument("--delay-ms", type=float, default=0.0, help="the links' delay")
    parser.add_argument("--models", nargs="+", default=list(MODELS), choices=list(MODELS))
    parser.add_argument("--designs", nargs="+", default=list(DESIGNS))
    parser.add_argument("--steps", type=int, default=7)
    parser.add_argument("--rounds", type=int, default=1)
    options = parser.parse_args()
    network = merged([NetworkSpeed.read(path) for path in options.fit])
    if options.gigabits and why_not():
        raise SystemExit(f"no links here: {why_not()}")
    rows = []
    for path in options.report or ():
        with open(path, encoding="utf-8") as file:
            rows += json.load(file)["points"]
    if not options.report:
        # Before anything of TensorFlow runs here: forks of a process that has run it number their steps alike.
        for rate, workers in itertools.product(options.gigabits or [None], options.workers):
            rows += measured_points(workers, options, rate)
        write_json(options.out, {"load_after": os.getloadavg()[0], "points": rows})
    designs = [Design.parse(text) for text in dict.fromkeys(row["design"] for row in rows)]
    networks = {model: with_codecs(network, designs, workload_of(model)) for model in {row["model"] for row in rows}}
    print_report([predicted(row, networks[row["model"]]) for row in rows])


if __name__ == "__main__":
    main()
