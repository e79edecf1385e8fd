"""Statistics as stats.json in the logger's directory: a list of dictionaries that any tool can read.

The file is written anew as a whole and then renamed, so that it is valid JSON whenever the process dies. A run that
resumes continues the file from where it resumes, and drops what a former run reported later than that.

JSON has no NaN and no infinity: both are written as null, and read as NaN.
"""

from __future__ import annotations

import json
import os
import time
from typing import Any

from tpack.callbacks.monitors import stats_file
from tpack.callbacks.monitors.base import MonitorBase
from tpack.callbacks.monitors.stats_file import Entry
from tpack.errors import CallbackError
from tpack.types import Trainer
from tpack.utils import logger
from tpack.utils.dir_lock import DirectoryClaim
from tpack.utils.fs import atomic_write, remove_leftovers, why_not_written


class JSONWriter(MonitorBase):
    """Write scalars to stats.json after each epoch.

    There is one dictionary for each step at which something was reported, which is usually the last one of an epoch,
    with `epoch_num`, `global_step` and the statistics by name; what is not finite is null. A file of the former name,
    ``stat.json``, is gone on from where there is no other. Without a logger directory nothing is written. No other
    process may write to it until training ends.
    """

    FILENAME = stats_file.FILENAME
    FORMER_FILENAME = stats_file.FORMER_FILENAME

    def __init__(self) -> None:
        self._path: str | None = None
        self._claim: DirectoryClaim | None = None
        self._entries: list[Entry] = []

    @classmethod
    def load_existing_json(cls, dir: str | None = None) -> list[Entry] | None:
        """Return the entries of an existing file, or None when there is none.

        Args:
            dir: the directory; the logger's unless given.

        Raises:
            CallbackError: the file does not hold a list of dictionaries, or there is no directory.
        """
        return stats_file.read_entries(cls._directory(dir))

    @classmethod
    def load_existing_epoch_number(cls, dir: str | None = None) -> int | None:
        """Return the epoch of the last entry of an existing file, or None when there is none.

        Args:
            dir: the directory; the logger's unless given.

        Raises:
            CallbackError: the file is damaged, or there is no directory.
        """
        entries = cls.load_existing_json(dir)
        return int(entries[-1]["epoch_num"]) if entries and "epoch_num" in entries[-1] else None

    @staticmethod
    def _directory(directory: str | None) -> str:
        directory = directory or logger.get_logger_dir()
        if directory is None:
            raise CallbackError("stats.json is looked for in the logger's directory, and none is set")
        return directory

    def _setup_graph(self) -> None:
        if logger.get_logger_dir() is None:
            logger.warning("JSONWriter writes nothing: the logger's directory is not set")
            return
        self._path = os.path.join(self._directory(None), self.FILENAME)
        self._claim = DirectoryClaim(os.path.dirname(self._path))
        remove_leftovers(self._path)

    def _before_train(self) -> None:
        if self._path is None:
            return
        reported = self._entries
        self._entries = self._entries_before(self._load_or_begin_anew())
        for entry in reported:
            self._entry(entry["epoch_num"], entry["global_step"]).update(entry)

    def _load_or_begin_anew(self) -> list[Entry]:
        path = stats_file.path_in(self._directory(None))
        try:
            return self.load_existing_json() or []
        except CallbackError as error:
            moved = f"{path}.damaged-{time.strftime('%Y%m%d-%H%M%S')}"
            os.replace(path, moved)
            logger.warning(f"{error}. It was moved to {moved}, and a new one is begun.")
            return []

    def _entries_before(self, entries: list[Entry]) -> list[Entry]:
        """Return the entries that are no later than where this run starts."""
        starting_epoch, step = self.trainer.starting_epoch, self.global_step
        kept = [entry for entry in entries if is_before_this_run(entry, self.trainer)]
        if len(kept) < len(entries):
            logger.warning(
                f"{self._path} has {len(entries) - len(kept)} entries later than epoch {starting_epoch}, step {step}, "
                "where this run starts: they are dropped"
            )
        return kept

    def process_scalar(self, name: str, val: float) -> None:
        """Put the value into the entry of the current step."""
        if self._path is not None:
            self._entry(self.epoch_num, self.global_step)[name] = val

    def _entry(self, epoch_num: int, global_step: int) -> Entry:
        position = {"epoch_num": epoch_num, "global_step": global_step}
        if not self._entries or any(self._entries[-1].get(key) != value for key, value in position.items()):
            self._entries.append(dict[str, Any](position))
        return self._entries[-1]

    def _trigger(self) -> None:
        if self._path is not None and self._entries:
            entries = [stats_file.as_json(entry) for entry in self._entries]
            try:
                with atomic_write(self._path) as file:
                    json.dump(entries, file, allow_nan=False)
            except OSError as error:
                raise CallbackError(
                    f"cannot write statistics to {self._path}: {why_not_written(self._path, error)}"
                ) from error

    def _after_train(self) -> None:
        self._trigger()
        if self._claim is not None:
            self._claim.release()


def is_before_this_run(entry: Entry, trainer: Trainer) -> bool:
    """Tell whether an entry of stats.json is no later than where a trainer's run starts.

    Args:
        entry: the entry.
        trainer: the trainer, before its first step.
    """
    epoch, starting_epoch = entry.get("epoch_num", 0), trainer.starting_epoch
    return epoch < starting_epoch or (epoch == starting_epoch and entry.get("global_step", 0) <= trainer.global_step)
