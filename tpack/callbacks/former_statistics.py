"""What a statistic was in the runs that this one resumes, for callbacks that decide by its course."""

from __future__ import annotations

from typing import Any

from tpack.callbacks.monitors.json_writer import JSONWriter, is_before_this_run
from tpack.errors import CallbackError
from tpack.utils import logger


def former_values(trainer: Any, name: str, *, from_epoch: int = 0) -> list[float]:
    """Return the values of a statistic from before the point where this run starts, oldest first.

    They are read from ``stat.json`` in the logger's directory. Without one there are none.

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
    counting = [entry for entry in entries if entry.get("epoch_num", 0) >= from_epoch]
    return [entry[name] for entry in counting if name in entry and is_before_this_run(entry, trainer)]
