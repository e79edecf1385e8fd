"""Tables of statistics, ``stats.json`` and ``stats.csv`` in the logger's directory, with an entry for each step.

A file is replaced as a whole, so that it is always complete. A resumed run continues it without later entries. In
JSON, for any tool, NaN and infinity are null, and read as NaN; CSV is for spreadsheets and pandas.
"""

from __future__ import annotations

import csv
import json
import os
import re
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import IO

from tpack.callbacks.monitors import stats_file
from tpack.callbacks.monitors.base import MonitorBase
from tpack.callbacks.monitors.stats_file import Entry, entry_at
from tpack.errors import CallbackError
from tpack.types import Trainer
from tpack.utils import logger
from tpack.utils.dir_lock import DirectoryClaim
from tpack.utils.fs import atomic_write, remove_leftovers, why_not_written

_POSITION = ("epoch_num", "global_step")

_INTEGER = re.compile(r"-?\d+")


class TableWriter(MonitorBase, ABC):
    """Write scalars to a file in the logger's directory after each epoch; subclasses choose the format.

    Without a logger directory nothing is written. No other process may write to it until training ends.
    """

    FILENAME: str

    def __init__(self) -> None:
        self._path: str | None = None
        self._claim: DirectoryClaim | None = None
        self._entries: list[Entry] = []

    @abstractmethod
    def _read_entries(self, directory: str) -> list[Entry] | None:
        """Return the entries of a directory's file; None without one, `CallbackError` with its path if damaged."""

    @abstractmethod
    def _write_entries(self, file: IO[str], entries: list[Entry]) -> None:
        """Write all entries."""

    def _path_to_read(self, directory: str) -> str:
        """Return the path of the file to continue."""
        return os.path.join(directory, self.FILENAME)

    def _setup_graph(self) -> None:
        directory = logger.get_logger_dir()
        if directory is None:
            logger.warning(
                f"{self} writes nothing: the logger's directory is not set; use logger.set_logger_dir(path), or "
                "log_dir of TrainConfig or fit"
            )
            return
        self._path = os.path.join(directory, self.FILENAME)
        self._claim = DirectoryClaim(directory)
        remove_leftovers(self._path)

    def _before_train(self) -> None:
        if self._path is None:
            return
        reported, entries = self._entries, self._load_or_begin_anew(os.path.dirname(self._path))
        self._entries = [entry for entry in entries if is_before_this_run(entry, self.trainer)]
        if num_later := len(entries) - len(self._entries):
            logger.warning(
                f"{self._path} has {num_later} entries later than epoch {self.trainer.starting_epoch}, step "
                f"{self.global_step}, where this run starts: they are dropped"
            )
        for entry in reported:
            entry_at(self._entries, entry["epoch_num"], entry["global_step"]).update(entry)

    def _load_or_begin_anew(self, directory: str) -> list[Entry]:
        path = self._path_to_read(directory)
        try:
            return self._read_entries(directory) or []
        except CallbackError as error:
            moved = f"{path}.damaged-{time.strftime('%Y%m%d-%H%M%S')}"
            os.replace(path, moved)
            logger.warning(f"{error}. It was moved to {moved}, and a new one is begun.")
            return []

    def process_scalar(self, name: str, val: float) -> None:
        """Put the value into the entry of the present step."""
        if self._path is not None:
            entry_at(self._entries, self.epoch_num, self.global_step)[name] = val

    def _trigger(self) -> None:
        if self._path is not None and self._entries:
            try:
                with atomic_write(self._path) as file:
                    self._write_entries(file, self._entries)
            except OSError as error:
                reason = why_not_written(self._path, error)
                raise CallbackError(f"cannot write statistics to {self._path}: {reason}") from error

    def _after_train(self) -> None:
        self._trigger()
        if self._claim is not None:
            self._claim.release()


def is_before_this_run(entry: Entry, trainer: Trainer) -> bool:
    """Tell whether an entry is not later than the start of a trainer's run.

    Args:
        entry: the entry.
        trainer: the trainer, before its first step.
    """
    epoch, starting_epoch = entry.get("epoch_num", 0), trainer.starting_epoch
    return epoch < starting_epoch or (epoch == starting_epoch and entry.get("global_step", 0) <= trainer.global_step)


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


class JSONWriter(TableWriter):
    """Write scalars to stats.json after each epoch.

    It has one dictionary for each step with statistics, usually the last of an epoch: `epoch_num`, `global_step` and
    the statistics by name, null if not finite. A file ``stat.json``, the former name, is continued if there is no
    other. Without a logger directory nothing is written. No other process may write to it until training ends.
    """

    FILENAME = stats_file.FILENAME
    FORMER_FILENAME = stats_file.FORMER_FILENAME

    @classmethod
    def load_existing_json(cls, dir: str | None = None) -> list[Entry] | None:
        """Return the entries of an existing file, or None if there is none.

        Args:
            dir: the directory; the logger's unless given.

        Raises:
            CallbackError: the file is not a list of dictionaries, or there is no directory.
        """
        directory = dir or logger.get_logger_dir()
        if directory is None:
            raise CallbackError("JSONWriter got dir=None: expected a directory, or one of the logger")
        return stats_file.read_entries(directory)

    @classmethod
    def load_existing_epoch_number(cls, dir: str | None = None) -> int | None:
        """Return the epoch of an existing file's last entry, or None if there is none.

        Args:
            dir: the directory; the logger's unless given.

        Raises:
            CallbackError: the file is damaged, or there is no directory.
        """
        entries = cls.load_existing_json(dir)
        return int(entries[-1]["epoch_num"]) if entries and "epoch_num" in entries[-1] else None

    def _path_to_read(self, directory: str) -> str:
        return stats_file.path_in(directory)

    def _read_entries(self, directory: str) -> list[Entry] | None:
        return self.load_existing_json(directory)

    def _write_entries(self, file: IO[str], entries: list[Entry]) -> None:
        json.dump([stats_file.as_json(entry) for entry in entries], file, allow_nan=False)
