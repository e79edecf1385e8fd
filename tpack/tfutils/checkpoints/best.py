"""The checkpoints with the best values of a statistic, and the replacement of one by another.

``min-cost.best.json`` beside ``min-cost``, or ``min-cost-100`` and ``min-cost-200``, has their values and steps. The
files of a checkpoint cannot be replaced at one instant: the index is removed first and written last, so that readers in
between find no checkpoint rather than half of each.
"""

import glob
import os
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from tpack.errors import InputError
from tpack.utils.fs import atomic_write
from tpack.utils.serialize import seal_json, unseal_json

BEST_SUFFIX = ".best.json"
_CHECKPOINT_FILE = re.compile(r"(.+)-(\d+)\.(index|data-\d+-of-\d+)")


class Kept(NamedTuple):
    """One of the best checkpoints: the value of the statistic, and the step."""

    value: float
    global_step: int


def write_kept(path: str, statistic: str, kept: Sequence[Kept], *, is_single: bool) -> None:
    """Write the list of the best checkpoints.

    Args:
        path: the first part of their names.
        statistic: the statistic that chose them.
        kept: the checkpoints, the best first.
        is_single: there is one, whose name is the path itself.
    """
    content: dict[str, Any] = {"name": statistic, **kept[0]._asdict()}
    if not is_single:
        content["kept"] = kept
    with atomic_write(path + BEST_SUFFIX) as file:
        file.write(seal_json(content))


def read_kept(path: str) -> list[Kept]:
    """Return the best checkpoints, the best first; raise an InputError if the file is damaged."""
    try:
        with open(path + BEST_SUFFIX, encoding="utf-8") as file:
            content = unseal_json(file.read())
        kept = content["kept"] if "kept" in content else [(content["value"], content["global_step"])]
        return [Kept(float(value), int(step)) for value, step in kept]
    except FileNotFoundError:
        return []
    except (OSError, InputError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise InputError(f"{type(error).__name__}: {error}") from error


def best_prefix(path: str) -> str | None:
    """Return the best of the checkpoints ``PATH-STEP``, or None; raise an InputError if their list is damaged."""
    kept = read_kept(path)
    prefix = f"{path}-{kept[0].global_step}" if kept else ""
    return prefix if os.path.exists(f"{prefix}.index") else None


def move_checkpoint(source: str, target: str) -> None:
    """Replace checkpoint ``target`` by ``source``."""
    index = f"{target}.index"
    if os.path.exists(index):
        os.remove(index)
    for path in glob.glob(f"{glob.escape(source)}.data-*"):
        os.replace(path, target + path[len(source) :])
    os.replace(f"{source}.index", index)


def finish_or_remove(path: str, *, is_single: bool) -> None:
    """Complete the replacement of a checkpoint that a kill interrupted, or remove its files."""
    aside = f"{path}.aside"
    if is_single and os.path.exists(f"{aside}.index"):
        # The index is written last: all was there, and some of it may have been moved.
        move_checkpoint(aside, path)
    for left in glob.glob(f"{glob.escape(aside)}.*"):
        os.remove(left)


def remove_others(path: str, steps: set[int]) -> None:
    """Remove the checkpoints ``PATH-STEP`` except those of some steps."""
    directory, stem = os.path.split(path)
    # The index goes first: what is left of one that is killed here is no checkpoint any more.
    for name in sorted(os.listdir(directory), key=lambda name: not name.endswith(".index")):
        match = _CHECKPOINT_FILE.fullmatch(name)
        if match is None or match[1] != stem or int(match[2]) in steps:
            continue
        # One whose name ends with a number is that of another saver.
        if not os.path.exists(f"{path}-{match[2]}{BEST_SUFFIX}"):
            os.remove(os.path.join(directory, name))
