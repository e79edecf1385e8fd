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
import math
import os
import socket
from collections.abc import Mapping
from typing import Any

import psutil

from tpack.callbacks.monitors.stats_file import MOST_BYTES, is_number
from tpack.errors import CallbackError, InputError
from tpack.utils.fs import atomic_write, read_regular
from tpack.utils.validation import mismatch

FILENAME = "run.json"

NO_END = 99_999
"""The number of epochs that means no limit; then there is no ``secs_left``."""

_GROUPS = ("versions", "config", "progress")
_TEXTS = ("state", "reason", "began", "updated", "command", "directory", "host")


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
        status = json.loads(read_regular(path, MOST_BYTES).decode())
    except FileNotFoundError:
        return {}
    except InputError as error:
        raise CallbackError(str(error)) from error
    except (ValueError, RecursionError) as error:
        raise CallbackError(f"{path} is not valid JSON: {error}") from error
    _check(path, status)
    if status.get("state") == "running" and status.get("host") == socket.gethostname():
        pid = status.get("pid")
        if not isinstance(pid, int) or not 0 < pid < 1 << 31 or not psutil.pid_exists(pid):
            status["state"] = "ended without a word"
    return dict(status)


def _check(path: str, status: Any) -> None:
    """Refuse content whose parts are of other kinds than readers expect."""
    if not isinstance(status, dict) or any(not isinstance(status.get(group), dict) for group in _GROUPS):
        raise CallbackError(f"{path} should hold a dictionary with {', '.join(_GROUPS)}, got {str(status)[:100]}")
    for name in _TEXTS:
        if not isinstance(status.get(name, ""), str):
            raise CallbackError(mismatch(path, name, status[name], "text"))
    for name, value in status["progress"].items():
        if not is_number(value) or not math.isfinite(value):
            raise CallbackError(mismatch(path, f"progress.{name}", value, "a finite number"))
