"""A training's statistics as a list of rows that notebooks show as a table."""

import html
from collections.abc import Iterable
from typing import Any

from tpack.callbacks.monitors.stats_file import Entry
from tpack.utils.lazy import import_optional

MOST_ROWS_SHOWN = 60
"""Longer histories are shown by their first and last rows."""

_POSITION = ("epoch_num", "global_step")


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
