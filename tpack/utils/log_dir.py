"""What happens to a log directory that is there already, when a run wants to write into it.

The choice is an argument and never a question on standard input: a run that waits for an answer in a batch queue is a
run that hangs. The default loses nothing: the old directory is moved aside.
"""

import os
import shutil
import time

from tpack.errors import ConfigError

ACTIONS = {None: "b", "b": "b", "d": "d", "k": "k", "n": "n", "q": "q", "raise": "q"}


def prepare_log_dir(dirname: str, action: str | None = None) -> str:
    """Make ``dirname`` an existing directory to log into.

    Args:
        dirname: an absolute path. A directory that does not exist or is empty is used whatever the action.
        action: what to do with a directory that has content: ``"b"`` or None moves it aside under a name with the
            time in it, ``"d"`` deletes it, ``"k"`` keeps it and its content, ``"n"`` leaves it alone and makes a new
            one with the time in its name, ``"q"`` or ``"raise"`` refuses.

    Returns:
        The directory to log into; another one than ``dirname`` only for ``"n"``.

    Raises:
        ConfigError: The action is none of these; the path is a file; the directory has content and the action is to
            refuse; or it would be moved or deleted while the process works in it.
    """
    check_action(action)
    if os.path.exists(dirname) and not os.path.isdir(dirname):
        raise ConfigError(f"the log directory {dirname!r} is a file: wanted a directory, or a path that is free")
    if os.path.isdir(dirname) and os.listdir(dirname):
        dirname = _make_room(dirname, ACTIONS[action])
    os.makedirs(dirname, exist_ok=True)
    return dirname


def check_action(action: str | None) -> None:
    """Refuse an action that is unknown."""
    if action not in ACTIONS:
        known = ", ".join(map(repr, ACTIONS))
        raise ConfigError(f"action={action!r} for an existing log directory is unknown: wanted one of {known}")


def _make_room(dirname: str, action: str) -> str:
    """Carry out the action on a directory that has content, and return the directory to use."""
    if action == "q":
        raise ConfigError(f"the log directory {dirname!r} exists and is not empty, and action='q' forbids using it")
    if action == "n":
        return _timestamped(dirname)
    if action in ("b", "d") and _holds_working_directory(dirname):
        raise ConfigError(f"the process works inside {dirname!r}, so it is not moved or deleted: use action='k' or 'n'")
    if action == "d":
        shutil.rmtree(dirname)
    elif action == "b":
        os.rename(dirname, _timestamped(dirname))
    return dirname


def _holds_working_directory(dirname: str) -> bool:
    """Tell whether the process's working directory is ``dirname`` or below it."""
    path = os.path.realpath(dirname)
    return os.path.commonpath([path, os.path.realpath(os.getcwd())]) == path


def _timestamped(dirname: str) -> str:
    """Return a free path that begins with ``dirname`` and has the time in it."""
    stem = f"{dirname}-{time.strftime('%Y%m%d-%H%M%S')}"
    path, count = stem, 1
    while os.path.exists(path):
        path, count = f"{stem}-{count}", count + 1
    return path
