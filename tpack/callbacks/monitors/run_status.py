"""``run.json``: what a run is and how far it is, as the run itself tells it; for readers without TensorFlow.

It is one dictionary:

- ``state``: ``"running"``, ``"finished"``, ``"interrupted"`` or ``"failed"``;
- ``reason``: why training ended before its last epoch, where it did;
- ``began`` and ``updated``: times, as ISO 8601 writes them;
- ``command``, ``directory``, ``host`` and ``pid``: of the process;
- ``versions``: by package;
- ``config``: what is trained and how, by what it is called, such as ``global_batch``;
- ``progress``: ``epoch`` of ``max_epoch``, ``step`` of ``steps_per_epoch`` in it, ``global_step``, and, once known,
  ``epoch_secs`` of the last epoch, ``steps_per_sec`` and ``secs_left``.
"""

import json
import os
import socket
from collections.abc import Mapping
from typing import Any

import psutil

from tpack.errors import CallbackError
from tpack.utils.fs import atomic_write

FILENAME = "run.json"

NO_END = 99_999
"""The number of epochs that means "until somebody stops it": the time that is left is not told then."""

_GROUPS = ("versions", "config", "progress")


def write_run(directory: str, told: Mapping[str, Any]) -> None:
    """Write the file, which is whole at any time.

    Args:
        directory: the log directory.
        told: what it says.

    Raises:
        OSError: It cannot be written.
    """
    with atomic_write(os.path.join(directory, FILENAME)) as file:
        json.dump(told, file, indent=1)
        file.write("\n")


def read_run(directory: str) -> dict[str, Any]:
    """Return what the file in a directory says; an empty dictionary where there is none.

    The state of a run whose process is gone without a word is ``"ended without a word"``, where that can be seen.

    Args:
        directory: the log directory.

    Raises:
        CallbackError: The file is none of this kind.
    """
    path = os.path.join(directory, FILENAME)
    try:
        with open(path, encoding="utf-8") as file:
            told = json.load(file)
    except FileNotFoundError:
        return {}
    except ValueError as error:
        raise CallbackError(f"{path} is not valid JSON: {error}") from error
    if not isinstance(told, dict) or any(not isinstance(told.get(group), dict) for group in _GROUPS):
        raise CallbackError(f"{path} should hold a dictionary with {', '.join(_GROUPS)}, got {str(told)[:100]}")
    if told.get("state") == "running" and told.get("host") == socket.gethostname() and not _is_alive(told.get("pid")):
        told["state"] = "ended without a word"
    return told


def _is_alive(pid: object) -> bool:
    return isinstance(pid, int) and psutil.pid_exists(pid)
