"""``run.json``, the state and the progress of a run, for readers and writers without TensorFlow.

It is one dictionary:

- ``state``: ``"running"``, ``"finished"``, ``"interrupted"`` or ``"failed"``;
- ``reason``: of an end before the last epoch;
- ``began`` and ``updated``: ISO 8601 times;
- ``command``, ``directory``, ``host`` and ``pid``: of the process;
- ``versions``: by package;
- ``config``: the configuration, such as ``global_batch``;
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
"""The number of epochs that means no limit; then there is no ``secs_left``."""

_GROUPS = ("versions", "config", "progress")


def write_run(directory: str, status: Mapping[str, Any]) -> None:
    """Write the file atomically.

    Args:
        directory: the log directory.
        status: the content.

    Raises:
        OSError: It cannot be written.
    """
    with atomic_write(os.path.join(directory, FILENAME)) as file:
        json.dump(status, file, indent=1)
        file.write("\n")


def read_run(directory: str) -> dict[str, Any]:
    """Return the content of a directory's file; empty if there is none.

    The state of a run whose process has disappeared is ``"ended without a word"``, if this machine can tell.

    Args:
        directory: the log directory.

    Raises:
        CallbackError: The file is of another kind.
    """
    path = os.path.join(directory, FILENAME)
    try:
        with open(path, encoding="utf-8") as file:
            status = json.load(file)
    except FileNotFoundError:
        return {}
    except (ValueError, RecursionError) as error:
        raise CallbackError(f"{path} is not valid JSON: {error}") from error
    if not isinstance(status, dict) or any(not isinstance(status.get(group), dict) for group in _GROUPS):
        raise CallbackError(f"{path} should hold a dictionary with {', '.join(_GROUPS)}, got {str(status)[:100]}")
    if status.get("state") == "running" and status.get("host") == socket.gethostname():
        pid = status.get("pid")
        if not isinstance(pid, int) or not psutil.pid_exists(pid):
            status["state"] = "ended without a word"
    return status
