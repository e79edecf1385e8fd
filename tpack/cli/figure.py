"""Draw curves: one panel for each statistic, one colour for each run.

The figure is made without ``pyplot``, so that no backend is chosen for the process and no window can open.
"""

from collections.abc import Sequence
from typing import Any

from tpack.cli.curves import Run
from tpack.utils.optional import import_optional

# Of Okabe and Ito: told apart by colour-blind readers, and dark enough on white.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
# Runs beyond the colours are told apart by how their lines are drawn.
_STYLES = ("-", "--", ":", "-.")
_INK, _FAINT = "#333333", "#D9D9D9"
_PANEL_INCHES = (4.2, 2.7)
_MAX_COLUMNS = 3
_MAX_MARKED_POINTS = 40


def draw(runs: Sequence[Run], stats: Sequence[str], axis: str) -> Any:
    """Return a ``matplotlib.figure.Figure``.

    Args:
        runs: whose curves.
        stats: one panel each.
        axis: ``"epoch"`` or ``"step"``.

    Raises:
        DependencyError: matplotlib is not installed.
    """
    figure_class = import_optional("matplotlib.figure", "plot").Figure
    columns = min(len(stats), _MAX_COLUMNS)
    rows = -(-len(stats) // columns)
    legend_inches = 0.45 if len(runs) > 1 else 0.0
    size = (columns * _PANEL_INCHES[0], rows * _PANEL_INCHES[1] + legend_inches)
    figure = figure_class(figsize=size, layout="constrained", facecolor="white")
    figure.get_layout_engine().set(w_pad=0.09, h_pad=0.07)
    panels = list(figure.subplots(rows, columns, squeeze=False).flat)
    for position, (panel, stat) in enumerate(zip(panels, stats, strict=False)):
        _draw_panel(panel, runs, stat, axis)
        if position + columns >= len(stats):
            panel.set_xlabel(axis, color=_INK, fontsize=9)
    for panel in panels[len(stats) :]:
        panel.set_axis_off()
    _name_runs(figure, runs)
    return figure


def _draw_panel(panel: Any, runs: Sequence[Run], stat: str, axis: str) -> None:
    ticker = import_optional("matplotlib.ticker", "plot")
    for index, run in enumerate(runs):
        x, y = run.curve(stat, axis)
        panel.plot(
            x,
            y,
            color=_COLOURS[index % len(_COLOURS)],
            linestyle=_STYLES[index // len(_COLOURS) % len(_STYLES)],
            linewidth=1.6,
            marker="o" if len(x) <= _MAX_MARKED_POINTS else None,
            markersize=2.8,
            label=run.label,
        )
    panel.set_title(stat, loc="left", fontsize=10, color=_INK, fontweight="bold")
    panel.grid(color=_FAINT, linewidth=0.6)
    panel.set_axisbelow(True)
    panel.margins(x=0.02, y=0.08)
    panel.xaxis.set_major_locator(ticker.MaxNLocator(nbins=6, integer=True))
    panel.yaxis.set_major_locator(ticker.MaxNLocator(nbins=5))
    panel.tick_params(labelsize=8, colors=_INK, length=0)
    for side, spine in panel.spines.items():
        spine.set_visible(side in ("left", "bottom"))
        spine.set_color(_FAINT)


def _name_runs(figure: Any, runs: Sequence[Run]) -> None:
    """Say whose curves these are: a title for one run, a legend above the panels for several."""
    if len(runs) == 1:
        figure.suptitle(runs[0].label, fontsize=11, color=_INK, x=0.01, ha="left")
        return
    # With an underscore in front, matplotlib would leave a run out.
    handles, names = figure.axes[0].get_lines(), [f" {run.label}" for run in runs]
    columns = min(len(runs), 4)
    figure.legend(handles, names, loc="outside upper left", ncols=columns, frameon=False, fontsize=9, labelcolor=_INK)
