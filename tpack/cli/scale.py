"""``tpack scale``: the time of a step on many workers, simulated for several designs, and the best of them.

The schedule is that of the exchange itself; see docs/scaling.md. TensorFlow is imported when the command runs.
"""

import argparse
import importlib
import json
import os
from collections.abc import Sequence
from typing import Any

from tabulate import tabulate

from tpack.cli.plot import COLOURS, FAINT, INK, STYLES, check_format, save_figure
from tpack.cli.runs.html_report import SCALING_PICTURE
from tpack.errors import ConfigError
from tpack.utils.fs import atomic_write
from tpack.utils.lazy import LazyModule, import_optional

_reduce = LazyModule("tpack.cli.reduce")

_WORKERS = (2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096)
_DESIGNS = (
    "levels=1", "levels=2", "levels=2+bucket=1", "levels=2+bucket=16", "sharded", "ps=1", "accumulate=4", "sync=8",
    "bfloat16+levels=2", "int8", "one_bit", "top_k:0.01", "power_sgd:4",
)  # fmt: skip
_OUT_HELP = f"also draw curves: .png, .svg or .pdf; {SCALING_PICTURE} beside a run is in the page of tpack plot --html"
_MEGA, _GIGA = 1e6, 1e9
_PANEL_INCHES = (5.2, 3.9)
STANDARD = (100e-6, 1.25e9, 100e-6, 300e-6, 0.5e-9, 0.13e-9)
"""Latency, bandwidth, and the processor's time of a message, a peer, and a byte sent and added: for 10 Gb/s."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the command, and add its arguments to its parser."""
    parser.description = (
        "Simulate a training step on many workers for several designs of the exchange, and say which is the best. "
        "The schedule is that of tpack's own exchange."
    )
    model = parser.add_mutually_exclusive_group()
    model.add_argument("--trace", metavar="FILE", help="gradients.json that Profile, or tpack profile, has written")
    model.add_argument("--model", choices=sorted(_reduce.MODELS), help="a model without a trace (default: resnet50)")
    model.add_argument(
        "--shapes", type=_reduce.parse_shapes, help="shapes of gradients without a trace, such as 784x10,10"
    )
    parser.add_argument("--step-secs", type=float, help="the computation of a step; by default what the trace says")
    parser.add_argument("--jitter-secs", type=float, help="its standard deviation (default: the trace's, or 0)")
    parser.add_argument(
        "--network", nargs="+", metavar="FILE", help="what tpack cluster check --json has written, of 2 and 4 workers"
    )
    parser.add_argument("--gigabits", type=float, help="a link's rate, in place of the measured one")
    parser.add_argument("--delay-ms", type=float, help="the links' delay, added to the measured one")
    parser.add_argument("--per-machine", type=int, default=1, help="workers of a machine (default: %(default)s)")
    parser.add_argument("--cores", type=float, help="cores of a machine, in place of the measured number")
    parser.add_argument("--workers", type=int, nargs="+", default=list(_WORKERS), help="how many")
    parser.add_argument(
        "--designs",
        nargs="+",
        default=list(_DESIGNS),
        metavar="TEXT",
        help="parts joined by +: replicated, sharded or ps=2 (servers); levels=1, 2 or machines; bucket=16 (MiB); "
        "accumulate=4; sync=8 (steps); bfloat16, int8, one_bit, top_k:0.01, power_sgd:4 or adasum",
    )
    parser.add_argument("--out", metavar="FILE", help=_OUT_HELP)
    parser.add_argument("--json", metavar="FILE", help="also write all figures")
    parser.set_defaults(run=run, loads_tensorflow=True)


def run(options: argparse.Namespace) -> str:
    """Simulate; return the tables.

    Raises:
        ConfigError: A file, a design or a number is invalid, or the computation of a step is not known.
        DependencyError: Curves are requested and matplotlib is not installed.
    """
    if options.out is not None:
        check_format(options.out)
        import_optional("matplotlib.figure", "plot")
    study = importlib.import_module("tpack.multi_worker.scaling.study")
    designs = [study.Design.parse(text) for text in options.designs]
    workload = _workload(options, study)
    network = study.with_codecs(_network(options), designs, workload)
    workers = sorted(set(options.workers))
    found = list(study.predictions(designs, workload, network, workers, per_machine=options.per_machine))
    if not found:
        raise ConfigError(f"--designs got {options.designs}: expected one that {workers} workers can run")
    best = study.best_designs(found)
    text = f"{_assumptions(options, workload, network)}\n\n{table(found, workers)}\n\n{table_of_best(best)}\n"
    if options.json is not None:
        with atomic_write(options.json) as file:
            json.dump([each.figures() for each in found], file, indent=2)
            file.write("\n")
        text += f"{options.json}: all figures\n"
    if options.out is not None:
        save_figure(draw(found), options.out)
        text += f"{options.out}: the same as curves\n"
    return text


def _workload(options: argparse.Namespace, study: Any) -> Any:
    if options.trace is not None:
        traced = study.Workload.read(options.trace)
        step_secs = traced.step_secs if options.step_secs is None else options.step_secs
        jitter_secs = traced.jitter_secs if options.jitter_secs is None else options.jitter_secs
        return study.Workload(traced.gradients, step_secs, jitter_secs)
    if options.step_secs is None:
        raise ConfigError("--step-secs got nothing: expected the seconds of a step's computation; use it or --trace")
    shapes = options.shapes or _reduce.MODELS[options.model or "resnet50"]()
    return study.Workload.of_shapes(shapes, options.step_secs, options.jitter_secs or 0.0)


def _network(options: argparse.Namespace) -> Any:
    speeds = importlib.import_module("tpack.multi_worker.scaling.network")
    if options.network:
        network = speeds.merged([speeds.NetworkSpeed.read(path) for path in options.network])
    else:
        network = speeds.NetworkSpeed(*STANDARD, cores=os.cpu_count() or 1)
    bandwidth = network.bandwidth if options.gigabits is None else options.gigabits * _GIGA / 8
    network = network.over(bandwidth, (options.delay_ms or 0.0) / 1e3)
    return network if options.cores is None else network.with_cores(options.cores)


def _assumptions(options: argparse.Namespace, workload: Any, network: Any) -> str:
    """Return the lines that say what was measured and what was assumed."""
    size = f"{len(workload.gradients)} gradients, {workload.size_bytes / _MEGA:.1f} MB"
    source = f"as {options.trace} has them" if options.trace else "ready at equal distances in the last two thirds"
    step = f"a step {workload.step_secs * 1e3:.1f} ms, deviation {workload.jitter_secs * 1e3:.1f} ms"
    where = f"as {', '.join(options.network)} says" if options.network else "assumed: use tpack cluster check --json"
    machine = f"{options.per_machine} worker(s) share a machine of {network.cores:g} cores"
    return f"{size}, {source}; {step}\n{network.describe()} ({where})\n{machine}; codecs are measured on this one"


def table(found: Sequence[Any], workers: Sequence[int]) -> str:
    """Return the milliseconds of a step, the share of linear scaling and the limit of each design."""
    cells = {(each.design, each.workers): each for each in found}
    rows = []
    for design in dict.fromkeys(each.design for each in found):
        row = [design]
        for count in workers:
            each = cells.get((design, count))
            row.append("" if each is None else f"{each.step.secs * 1e3:.0f} {each.share:.2f} {each.step.limit[:5]}")
        rows.append(row)
    note = "milliseconds of a step, share of linear scaling, and what limits, by the number of workers"
    return f"{note}\n{tabulate(rows, headers=['design', *map(str, workers)], disable_numparse=True)}"


def table_of_best(best: Any) -> str:
    """Return the best design for each number of workers, with its bytes and causes."""
    rows = [
        (
            count,
            each.design,
            f"{each.step.secs * 1e3:.1f}",
            f"{each.share:.2f}",
            f"{each.sent_bytes / _MEGA:.1f}",
            f"{each.messages:.0f}",
            ", ".join(f"{cause} {secs * 1e3:.0f}" for cause, secs in _largest(each.step.causes)),
        )
        for count, each in best.items()
    ]
    headers = ["workers", "best design", "ms", "share", "MB sent", "messages", "of the time, ms"]
    return tabulate(rows, headers=headers, disable_numparse=True)


def _largest(causes: dict[str, float]) -> list[tuple[str, float]]:
    ordered = sorted(causes.items(), key=lambda item: -item[1])
    return [(cause, secs) for cause, secs in ordered[:4] if secs >= 0.5e-3]


def draw(found: Sequence[Any]) -> Any:
    """Return a ``matplotlib.figure.Figure`` with the step time and the share of linear scaling over the workers.

    Raises:
        DependencyError: matplotlib is not installed.
    """
    figure_class = import_optional("matplotlib.figure", "plot").Figure
    width, height = _PANEL_INCHES
    figure = figure_class(figsize=(2 * width, height + 0.9), layout="constrained", facecolor="white")
    panels = figure.subplots(1, 2)
    for number, design in enumerate(dict.fromkeys(each.design for each in found)):
        points = [each for each in found if each.design == design]
        counts = [each.workers for each in points]
        colour, style = COLOURS[number % len(COLOURS)], STYLES[number // len(COLOURS) % len(STYLES)]
        line: dict[str, Any] = {"color": colour, "linestyle": style, "linewidth": 1.6, "marker": "o", "markersize": 2.8}
        panels[0].plot(counts, [each.step.secs * 1e3 for each in points], label=f" {design}", **line)
        panels[1].plot(counts, [each.share for each in points], **line)
    for panel, title in zip(panels, ("a step, ms", "share of linear scaling"), strict=True):
        panel.set_xscale("log", base=2)
        panel.set_title(title, loc="left", fontsize=10, color=INK, fontweight="bold")
        panel.set_xlabel("workers", color=INK, fontsize=9)
        panel.grid(color=FAINT, linewidth=0.6)
        panel.tick_params(labelsize=8, colors=INK, length=0)
        panel.spines[["top", "right"]].set_visible(False)
    panels[0].set_yscale("log")
    panels[1].set_ylim(0, 1.05)
    place: dict[str, Any] = {"loc": "outside upper left", "ncols": 4}
    figure.legend(**place, frameon=False, fontsize=9, labelcolor=INK)
    return figure
