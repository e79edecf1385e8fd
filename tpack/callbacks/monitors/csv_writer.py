"""Statistics as stats.csv in the logger's directory, for spreadsheets and pandas."""

from __future__ import annotations

import csv
import os
import re
from collections.abc import Mapping
from typing import IO

from tpack.callbacks.monitors.stats_file import Entry
from tpack.callbacks.monitors.table_writer import TableWriter
from tpack.errors import CallbackError

_POSITION = ("epoch_num", "global_step")
_INTEGER = re.compile(r"-?\d+")


class CSVWriter(TableWriter):
    """Write scalars to stats.csv after each epoch: a row for each step with statistics.

    The columns are ``epoch_num``, ``global_step`` and the statistics in the order of their first appearance; a later
    one adds a column, and missing values are empty. Values that are not finite are ``nan``, ``inf`` or ``-inf``. A
    resumed run continues the file. Without a logger directory nothing is written. No other process may write to it
    until training ends.
    """

    FILENAME = "stats.csv"

    def _read_entries(self, directory: str) -> list[Entry] | None:
        path = os.path.join(directory, self.FILENAME)
        try:
            with open(path, encoding="utf-8", newline="") as file:
                return [_entry_of(row) for row in csv.DictReader(file, strict=True)]
        except FileNotFoundError:
            return None
        except (ValueError, csv.Error) as error:
            raise CallbackError(f"{path} is not a table of statistics: {error}") from error

    def _write_entries(self, file: IO[str], entries: list[Entry]) -> None:
        names = dict.fromkeys([*_POSITION, *(name for entry in entries for name in entry)])
        table = csv.DictWriter(file, list(names), lineterminator="\n")
        table.writeheader()
        table.writerows(entries)


def _entry_of(row: Mapping[str | None, str | None]) -> Entry:
    """Return the values of a row, without empty cells; ``ValueError`` without numbers or a position."""
    entry: Entry = {}
    for name, text in row.items():
        if name is None or text is None:
            raise ValueError("a row does not have as many cells as the table has columns")
        if text:
            entry[name] = int(text) if _INTEGER.fullmatch(text) else float(text)
    if lacking := [name for name in _POSITION if not isinstance(entry.get(name), int)]:
        raise ValueError(f"a row has no whole number for {' and '.join(lacking)}")
    return entry
