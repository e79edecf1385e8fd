"""Kinds of files in a run's directory, by their names, for sending and fetching."""

import re
from collections.abc import Iterable

from tpack.utils.dir_lock import LOCK_FILE

HEAD = "checkpoint"
"""The file that names the newest checkpoint."""
OWNER = ".tpack.run.json"
"""The object that says which run writes to a remote directory."""

_DATA = re.compile(r"(.+)\.data-\d+-of-\d+")
_DATA_OF_SERIES = re.compile(r"(.*/)?model-\d+\.data-\d+-of-\d+")
_PART = re.compile(r".+\.(data-\d+-of-\d+|train_state\.json|data_state\.msgpack)")
_INDEX_OF_SERIES = re.compile(r"(.*/)?model-\d+\.index")
_INDEX = re.compile(r".+\.index")
_BEST = re.compile(r".+\.best\.json")
_ONLY_THERE = re.compile(r"(.*/)?(.*events\.out\.tfevents.*|graph-[\d-]+\.meta)")
_SUFFIX = re.compile(r"\.(index|meta|data-\d+-of-\d+)$")
_UNFINISHED = re.compile(
    r"(.*/)?(.+\.tmp|.+\.tmp[0-9a-f]{32}|.+\.tempstate\d+|.+\.aside\.(index|data-\d+-of-\d+)|"
    rf"{re.escape(LOCK_FILE)}|{re.escape(OWNER)})|(.*/)?[^/]+_temp/.+"
)


def is_head(name: str) -> bool:
    """Tell whether a file names the newest checkpoint of its directory."""
    return name.rpartition("/")[2] == HEAD


def is_sent(name: str) -> bool:
    """Tell whether a file belongs into the remote directory: what is being written, or locks, does not."""
    return _UNFINISHED.fullmatch(name) is None


def is_of_checkpoint(name: str) -> bool:
    """Tell whether a file is a part of a checkpoint, or says which is the best."""
    return place_of(name) > 0


def place_of(name: str) -> int:
    """Return when a file is sent: what checkpoints consist of after all else, and what tells of it after that.

    A run goes on from those that `ModelSaver` writes: they are there before those that a statistic chose.
    """
    kinds = (_PART, _INDEX_OF_SERIES, _INDEX, _BEST)
    return next((place for place, kind in enumerate(kinds, 1) if kind.fullmatch(name)), 0)


def index_of(name: str) -> str | None:
    """Return the name of the index of what a file has the data of; None for other files."""
    match = _DATA.fullmatch(name)
    return None if match is None else f"{match[1]}.index"


def data_of(stem: str, names: Iterable[str]) -> list[str]:
    """Return which files have the data of a checkpoint, sorted.

    Args:
        stem: what the names of its files begin with.
        names: the files.
    """
    return sorted(name for name in names if index_of(name) == f"{stem}.index")


def is_fetched_first(name: str) -> bool:
    """Tell whether a run that goes on needs a file before it is asked for: not events, graphs and old checkpoints."""
    return is_sent(name) and not _ONLY_THERE.fullmatch(name) and not _DATA_OF_SERIES.fullmatch(name)


def stem_of(name: str) -> str:
    """Return what the names of a checkpoint's files begin with, by this or by one of them."""
    return _SUFFIX.sub("", name)
