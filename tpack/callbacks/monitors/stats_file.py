"""``stats.json`` for readers, without TensorFlow.

A list of dictionaries, one for each step with statistics: ``epoch_num``, ``global_step`` and the statistics by name.
NaN and infinity are written as null, and read as NaN.
"""

import json
import math
import os
from typing import Any

from tpack.errors import CallbackError, InputError
from tpack.utils.fs import read_regular

FILENAME = "stats.json"
FORMER_FILENAME = "stat.json"

MOST_BYTES = 1 << 28
"""The limit of a file that readers of runs parse as a whole."""

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
        CallbackError: The file is not a list of dictionaries of numbers, or too large.
    """
    path = path_in(directory)
    try:
        content = json.loads(read_regular(path, MOST_BYTES).decode())
    except FileNotFoundError:
        return None
    except InputError as error:
        raise CallbackError(str(error)) from error
    except (ValueError, RecursionError) as error:
        raise CallbackError(f"{path} is not valid JSON: {error}") from error

    def is_entry(entry: object) -> bool:
        position = ("epoch_num", "global_step")
        if not isinstance(entry, dict) or not all(isinstance(entry.get(key, 0), int) for key in position):
            return False
        return all(value is None or isinstance(value, str) or is_number(value) for value in entry.values())

    if not isinstance(content, list) or not all(map(is_entry, content)):
        raise CallbackError(f"{path} should hold a list of dictionaries of numbers, got {_start_of(content)}")
    return [{name: math.nan if value is None else value for name, value in entry.items()} for entry in content]


def is_number(value: object) -> bool:
    """Tell whether a value of JSON is a number that fits into 64 bits."""
    return isinstance(value, float) or (isinstance(value, int) and abs(value) < 1 << 63)


def _start_of(content: object) -> str:
    """Return the first characters of what a file holds."""
    try:
        return str(content)[:100]
    except ValueError:
        # Python refuses to write an integer of thousands of digits.
        return f"{type(content).__name__} with a number of too many digits"


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
