"""What a statistic got since it was read last, and what it was in the runs that this one resumes.

It is for callbacks that decide by the course of a statistic, and are triggered more or less often than it is reported.
"""

from __future__ import annotations

from typing import Any

from tpack.callbacks.base import Callback
from tpack.callbacks.monitors.json_writer import JSONWriter, is_before_this_run
from tpack.errors import CallbackError
from tpack.types import Trainer
from tpack.utils import logger


class StatisticReader:
    """Tells what a statistic got since it was asked last.

    Args:
        reader: the callback that reads, which is set up before it reads.
        name: the statistic.
    """

    def __init__(self, reader: Callback, name: str) -> None:
        self._reader = reader
        self._name = name
        self._num_seen = 0
        self._has_warned = False

    def new_values(self) -> list[float]:
        """Return the values since the last call, oldest first; a statistic that was never reported is told once."""
        try:
            history = self._reader.trainer.monitors.get_history(self._name)
        except CallbackError as error:
            if not self._has_warned:
                logger.warning(f"{self._reader} has nothing to go by yet: {error}")
                self._has_warned = True
            return []
        new, self._num_seen = history[self._num_seen :], len(history)
        return new


def former_values(trainer: Trainer, name: str, *, from_epoch: int = 0) -> list[float]:
    """Return the values of a statistic from before the point where this run starts, oldest first.

    Where this run starts with the end of an epoch, what was reported there is reported again and does not count.

    They are read from ``stats.json`` in the logger's directory. Without one there are none.

    Args:
        trainer: whose run it is, before its first step.
        name: the statistic.
        from_epoch: leave out what was reported in earlier epochs.
    """
    if logger.get_logger_dir() is None:
        return []
    try:
        entries = JSONWriter.load_existing_json() or []
    except CallbackError as error:
        logger.warning(f"The former values of '{name}' are not known: {error}")
        return []
    counting = [entry for entry in entries if name in entry and entry.get("epoch_num", 0) >= from_epoch]
    return [
        entry[name] for entry in counting if is_before_this_run(entry, trainer) and not _comes_again(entry, trainer)
    ]


def _comes_again(entry: dict[str, Any], trainer: Trainer) -> bool:
    """Tell whether an entry of stats.json is of the very end of an epoch with which a trainer's run starts."""
    is_at_end = trainer.starting_step >= trainer.steps_per_epoch
    return is_at_end and entry.get("global_step") == trainer.global_step
