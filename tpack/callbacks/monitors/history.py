"""What a training has reported, as a list of rows that shows itself as a table in a notebook."""

import html
from collections.abc import Iterable
from typing import Any

from tpack.callbacks.monitors.stats_file import Entry
from tpack.utils.optional import import_optional

MOST_ROWS_SHOWN = 60
"""A longer history is shown by its first and its last rows."""

_POSITION = ("epoch_num", "global_step")


class History(list[Entry]):
    """A list of dictionaries, each with ``epoch_num``, ``global_step`` and the statistics of a step by name.

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
        """The columns of the table: the position, and then the statistics in the order in which they first came."""
        return list(dict.fromkeys([*_POSITION, *(name for row in self for name in row)]))

    def to_pandas(self) -> Any:
        """Return a ``pandas.DataFrame``; what was not reported at a step is NaN.

        Raises:
            DependencyError: pandas is not installed.
        """
        return import_optional("pandas", "notebook").DataFrame(list(self), columns=self.names)

    def _repr_html_(self) -> str:
        """Return the table, as notebooks show it."""
        head, tail = list(self), []
        if len(self) > MOST_ROWS_SHOWN:
            half = MOST_ROWS_SHOWN // 2
            head, tail = self[:half], self[-half:]
        names = self.names
        rows = [_cells("th", names), *(_cells("td", _told(row, names)) for row in head)]
        if tail:
            rows += [_cells("td", ["…"] * len(names)), *(_cells("td", _told(row, names)) for row in tail)]
        return f"<table>{''.join(rows)}</table><p>{len(self)} rows</p>"


def _told(row: Entry, names: Iterable[str]) -> list[str]:
    """Return the cells of a row as text; empty where nothing was reported."""
    values = [row.get(name, "") for name in names]
    return [f"{value:.5g}" if isinstance(value, float) else str(value) for value in values]


def _cells(kind: str, texts: Iterable[str]) -> str:
    return f"<tr>{''.join(f'<{kind}>{html.escape(text)}</{kind}>' for text in texts)}</tr>"
