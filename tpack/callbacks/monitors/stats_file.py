"""``stats.json`` for readers, without TensorFlow.

A list of dictionaries, one for each step with statistics: ``epoch_num``, ``global_step`` and the statistics by name.
NaN and infinity are written as null, and read as NaN.
"""

import json
import math
import os
from typing import Any

from tpack.errors import CallbackError

FILENAME = "stats.json"
FORMER_FILENAME = "stat.json"

Entry = dict[str, Any]


def path_in(directory: str) -> str:
    """Return the path of the statistics in a directory; of the former name only if there is no other."""
    path, former = os.path.join(directory, FILENAME), os.path.join(directory, FORMER_FILENAME)
    return former if os.path.exists(former) and not os.path.exists(path) else path


def read_entries(directory: str) -> list[Entry] | None:
    """Return the entries of the file in a directory, or None if there is none.

    Args:
        directory: the directory.

    Raises:
        CallbackError: The file is not a list of dictionaries.
    """
    path = path_in(directory)
    try:
        with open(path, encoding="utf-8") as file:
            content = json.load(file)
    except FileNotFoundError:
        return None
    except (ValueError, RecursionError) as error:
        raise CallbackError(f"{path} is not valid JSON: {error}") from error

    def is_entry(entry: object) -> bool:
        position = ("epoch_num", "global_step")
        return isinstance(entry, dict) and all(isinstance(entry.get(key, 0), int) for key in position)

    if not isinstance(content, list) or not all(map(is_entry, content)):
        raise CallbackError(f"{path} should hold a list of dictionaries, got {str(content)[:100]}")
    return [{name: math.nan if value is None else value for name, value in entry.items()} for entry in content]


def entry_at(entries: list[Entry], epoch_num: int, global_step: int) -> Entry:
    """Return the entry of a position, the last of the list; it is added if missing.

    Args:
        entries: a run's entries, oldest first.
        epoch_num: the epoch.
        global_step: the step.
    """
    position = {"epoch_num": epoch_num, "global_step": global_step}
    if not entries or any(entries[-1].get(key) != value for key, value in position.items()):
        entries.append(dict[str, Any](position))
    return entries[-1]


def as_json(entry: Entry) -> Entry:
    """Return an entry with null for values that are not finite."""
    return {name: value if math.isfinite(value) else None for name, value in entry.items()}
