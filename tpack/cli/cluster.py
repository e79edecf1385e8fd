"""``tpack cluster check``: the speed of the links between the processes of a job, as a table and a heat map.

All processes of a job run it, on the machines and by the launcher of the training: ``tpack launch -n 4 -m tpack cluster
check``, or ``srun tpack cluster check``. TensorFlow is imported when the command runs.
"""

import argparse
import importlib
from collections.abc import Callable, Sequence
from statistics import median
from typing import Any

from tabulate import tabulate

from tpack.cli.plot import FAINT, INK, check_format, save_figure
from tpack.utils.lazy import import_optional

_GIGA, _MICRO = 1e9, 1e-6
_CELL_INCHES, _MIN_INCHES, _MAX_INCHES = 0.62, 2.6, 9.0
_MAX_CELLS_WITH_NUMBERS = 16


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the command, and add its arguments to its parser."""
    parser.description = "Look at a cluster."
    kind = argparse.ArgumentParser
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION", parser_class=kind)
    check = actions.add_parser("check", help="measure how fast its processes reach each other")
    check.description = (
        "Measure latency, bandwidth and all-reduce speed of each pair of workers. Run it in each process "
        "of a job, as in: tpack launch -n 4 -m tpack cluster check"
    )
    check.add_argument("--megabytes", type=float, default=8.0, help="sent and reduced at a time (default: %(default)s)")
    check.add_argument("--runs", type=int, default=5, help="of each; the median counts (default: %(default)s)")
    check.add_argument(
        "--timeout", type=float, default=60.0, help="seconds that workers wait for each other (default: %(default)s)"
    )
    check.add_argument("--out", metavar="FILE", help="also draw a heat map: .png, .svg or .pdf")
    check.add_argument(
        "--json", metavar="FILE", help="also measure the processors' time of messages, and write all for tpack scale"
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> str:
    """Measure the cluster of this process; return the table in worker 0, nothing in the others.

    Raises:
        ConfigError: A number is out of range, the file's format is unknown, or the process is not a worker.
        ClusterError: The process is alone, or the others did not connect or answer in time.
        DependencyError: A heat map is requested and matplotlib is not installed.
    """
    if options.out is not None:
        check_format(options.out)
        import_optional("matplotlib.figure", "plot")
    pairs = importlib.import_module("tpack.multi_worker.scaling.link_benchmark")
    how = pairs.LinkOptions(options.megabytes, options.runs, options.timeout, options.json is not None)
    member = importlib.import_module("tpack.multi_worker.cluster.resolver").resolve_cluster(
        timeout_secs=options.timeout
    )
    connect_peers = importlib.import_module("tpack.multi_worker.cluster.peers").connect_peers
    with connect_peers(member, heartbeat_secs=min(10.0, options.timeout), timeout_secs=options.timeout) as peers:
        speed = pairs.measure_links(member, peers, how)
    if peers.rank:
        return ""
    text = describe(speed, member.workers)
    if options.json is not None:
        network = importlib.import_module("tpack.multi_worker.scaling.network").network_of(speed)
        network.write(options.json)
        text += f"\n{network.describe()}\n{options.json}: the same for tpack scale\n"
    if options.out is not None:
        save_figure(draw(speed, len(member.workers)), options.out)
        text += f"\n{options.out}: the same as a heat map\n"
    return text


def describe(speed: Any, addresses: Sequence[str]) -> str:
    """Return the table of a `ClusterSpeed`, and the outliers; ``addresses`` are the workers', by rank."""
    rows = []
    for pair in speed.pairs:
        ends = f"{pair.first} - {pair.second}", f"{addresses[pair.first]} - {addresses[pair.second]}"
        rates = (rate / _GIGA for rate in (pair.there, pair.back, pair.all_reduce))
        rows.append((*ends, pair.latency_secs / _MICRO, *rates))
    headers = ("workers", "addresses", "latency, us", "there, GB/s", "back, GB/s", "all-reduce, GB/s")
    table = tabulate(rows, headers=headers, floatfmt=("", "", ".0f", ".2f", ".2f", ".2f"))
    slowest = min(speed.pairs, key=lambda pair: pair.all_reduce)
    usual = median(pair.all_reduce for pair in speed.pairs)
    return (
        f"{table}\n\nall-reduce of all {len(addresses)} workers: {speed.all_reduce / _GIGA:.2f} GB/s of gradients\n"
        f"slowest pair: {slowest.first} and {slowest.second}, {slowest.all_reduce / usual:.2f} of the median pair\n"
    )


def draw(speed: Any, size: int) -> Any:
    """Return a ``matplotlib.figure.Figure`` with the bandwidth and the latency of each pair of ``size`` workers.

    Raises:
        DependencyError: matplotlib is not installed.
    """
    figure_class = import_optional("matplotlib.figure", "plot").Figure
    inches = min(_MAX_INCHES, max(_MIN_INCHES, size * _CELL_INCHES))
    figure = figure_class(figsize=(2 * inches + 1.2, inches + 1.1), layout="constrained", facecolor="white")
    there = {(pair.first, pair.second): pair.there / _GIGA for pair in speed.pairs}
    back = {(pair.second, pair.first): pair.back / _GIGA for pair in speed.pairs}
    latency = {(pair.first, pair.second): pair.latency_secs / _MICRO for pair in speed.pairs}
    both_ways = {**latency, **{(second, first): value for (first, second), value in latency.items()}}
    left, right = figure.subplots(1, 2)
    _draw_panel(left, _matrix({**there, **back}, size), "bandwidth, GB/s", lambda value: f"{value:.2f}")
    _draw_panel(right, _matrix(both_ways, size), "latency, us", lambda value: f"{value:.0f}", is_high_slow=True)
    left.set_ylabel("from worker", color=INK, fontsize=9)
    figure.supxlabel("to worker; darker is slower", color=INK, fontsize=9)
    return figure


def _matrix(values: dict[tuple[int, int], float], size: int) -> list[list[float]]:
    nothing = float("nan")
    return [[values.get((row, column), nothing) for column in range(size)] for row in range(size)]


def _draw_panel(
    panel: Any, matrix: list[list[float]], title: str, shown: Callable[[float], str], *, is_high_slow: bool = False
) -> None:
    values = [value for row in matrix for value in row if value == value]
    # The scale begins at zero and is light for usual pairs, so that nearly equal ones look equal.
    highest = max(*values, 3 * median(values)) if is_high_slow else max(values)
    image = panel.imshow(matrix, cmap="Blues" if is_high_slow else "Blues_r", vmin=0, vmax=highest)
    panel.set_facecolor(FAINT)
    panel.set_title(title, loc="left", fontsize=10, color=INK, fontweight="bold")
    ticks = range(0, len(matrix), max(1, len(matrix) // _MAX_CELLS_WITH_NUMBERS))
    panel.set_xticks(ticks)
    panel.set_yticks(ticks)
    panel.tick_params(labelsize=8, colors=INK, length=0)
    panel.spines[:].set_visible(False)
    if len(matrix) > _MAX_CELLS_WITH_NUMBERS:
        panel.figure.colorbar(image, ax=panel, shrink=0.8)
        return
    for row, cells in enumerate(matrix):
        for column, value in enumerate(cells):
            if value == value:
                red, green, blue, _ = image.cmap(image.norm(value))
                is_dark = 0.299 * red + 0.587 * green + 0.114 * blue < 0.55
                colour = "white" if is_dark else INK
                panel.text(column, row, shown(value), ha="center", va="center", fontsize=8, color=colour)
