"""Statistics as stats.json in the logger's directory, for any tool; NaN and infinity are null, and read as NaN."""

from __future__ import annotations

import json
from typing import IO

from tpack.callbacks.monitors import stats_file
from tpack.callbacks.monitors.stats_file import Entry
from tpack.callbacks.monitors.table_writer import TableWriter
from tpack.errors import CallbackError
from tpack.utils import logger


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
