"""A training's statistics as a list of rows that notebooks show as a table, and as curves while it trains."""

import html
import importlib
import math
import time
from collections.abc import Iterable, Sequence
from typing import Any

from tpack.callbacks.monitors.base import MonitorBase
from tpack.callbacks.monitors.stats_file import Entry, entry_at
from tpack.utils.lazy import import_optional

MOST_ROWS_SHOWN = 60
"""Longer histories are shown by their first and last rows."""

_POSITION = ("epoch_num", "global_step")
_MOST_CURVES, _MOST_POINTS = 9, 300
_WIDTH, _HEIGHT = 240, 90
_SHORTEST_SECS = 0.5


class History(list[Entry]):
    """A list of dictionaries: ``epoch_num``, ``global_step`` and the statistics of a step.

    Args:
        rows: the dictionaries, oldest first.

    Example:
        history = trainer.history
        history.to_pandas().plot(x="epoch_num", y=["cost", "validation_cost"])
    """

    def __init__(self, rows: Iterable[Entry] = ()) -> None:
        super().__init__(rows)

    @property
    def names(self) -> list[str]:
        """The table's columns: the position, then the statistics in the order of their first appearance."""
        return list(dict.fromkeys([*_POSITION, *(name for row in self for name in row)]))

    def to_pandas(self) -> Any:
        """Return a ``pandas.DataFrame``, with NaN for missing statistics.

        Raises:
            DependencyError: pandas is not installed.
        """
        return import_optional("pandas", "notebook").DataFrame(list(self), columns=self.names)

    def _repr_html_(self) -> str:
        head, tail = list(self), []
        if len(self) > MOST_ROWS_SHOWN:
            half = MOST_ROWS_SHOWN // 2
            head, tail = self[:half], self[-half:]
        names = self.names

        def cells(values: Iterable[object], kind: str = "td") -> str:
            texts = [f"{value:.5g}" if isinstance(value, float) else str(value) for value in values]
            return f"<tr>{''.join(f'<{kind}>{html.escape(text)}</{kind}>' for text in texts)}</tr>"

        rows = [cells(names, "th"), *(cells(row.get(name, "") for name in names) for row in head)]
        if tail:
            rows += [cells(["…"] * len(names)), *(cells(row.get(name, "") for name in names) for row in tail)]
        return f"<table>{''.join(rows)}</table><p>{len(self)} rows</p>"


class NotebookPlot(MonitorBase):
    """Show one plot and one table below a notebook's cell, replaced in place after epochs, at most twice a second."""

    def __init__(self) -> None:
        self._rows = History()
        self._handle: Any = None
        self._due_at = 0.0

    def process_scalar(self, name: str, val: float) -> None:
        """Keep the value until it is shown."""
        entry_at(self._rows, self.epoch_num, self.global_step)[name] = val

    def _trigger(self) -> None:
        if time.monotonic() >= self._due_at:
            self._show()
            self._due_at = time.monotonic() + _SHORTEST_SECS

    def _after_train(self) -> None:
        self._show()

    def _show(self) -> None:
        if not self._rows:
            return
        display = importlib.import_module("IPython.display")
        shown = display.HTML(plot_and_table(self._rows))
        if self._handle is None:
            self._handle = display.display(shown, display_id=True)
        else:
            self._handle.update(shown)


def plot_and_table(rows: History) -> str:
    """Return the curves of the first nine statistics over steps, and the table of all, as HTML."""
    # Statistics of parts, such as an input source's queue, come after those of the model.
    names = sorted(set(rows.names) - set(_POSITION), key=lambda name: ("/" in name, name.lower()))[:_MOST_CURVES]
    curves = "".join(_curve(name, [(row["global_step"], row[name]) for row in rows if name in row]) for name in names)
    plot = f'<div style="display:flex;flex-wrap:wrap;gap:16px">{curves}</div>'
    return f'{plot}<div style="max-height:20em;overflow:auto">{rows._repr_html_()}</div>'


def _curve(name: str, points: Sequence[tuple[int, float]]) -> str:
    """Return a curve as SVG, with gaps at values that are not finite."""
    stride = -(-len(points) // _MOST_POINTS)
    points = [*points[:-1:stride], points[-1]]
    finite = [value for _, value in points if math.isfinite(value)]
    low, high = (min(finite), max(finite)) if finite else (0.0, 0.0)
    first, last = points[0][0], points[-1][0]
    path, is_down = "", False
    for step, value in points:
        if math.isfinite(value):
            x = _WIDTH * (step - first) / ((last - first) or 1)
            # By halves: the difference of two large numbers may be infinite.
            y = _HEIGHT * ((high / 2 - value / 2) / (high / 2 - low / 2) if high > low else 0.5)
            path += f"{'L' if is_down else 'M'}{x:.1f} {y:.1f}"
        is_down = math.isfinite(value)
    drawn = f'<path d="{path}" fill="none" stroke="#0072B2" stroke-width="1.5" stroke-linecap="round"/>'
    box = f'viewBox="-3 -3 {_WIDTH + 6} {_HEIGHT + 6}" width="{_WIDTH + 6}" height="{_HEIGHT + 6}"'
    told = f"{html.escape(name)}: {points[-1][1]:.5g}, of {low:.5g} to {high:.5g}"
    return f'<div><small>{told}</small><br><svg {box} style="border:1px solid #ddd">{drawn}</svg></div>'
