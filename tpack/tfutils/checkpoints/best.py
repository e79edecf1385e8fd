"""The checkpoints that a statistic chose: which they are, and how one takes the place of another.

Beside the checkpoints ``min-cost``, or ``min-cost-100`` and ``min-cost-200``, lies ``min-cost.best.json``, which says
of which values and steps they are. A checkpoint is several files, which cannot be replaced at one instant: the index
goes first and comes last, so that whoever looks in between finds none rather than half of each.
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
    """One of the best.

    Attributes:
        value: that of the statistic.
        global_step: the step that the checkpoint is of.
    """

    value: float
    global_step: int


def write_kept(path: str, statistic: str, kept: Sequence[Kept], *, is_single: bool) -> None:
    """Write down which checkpoints are the best.

    Args:
        path: what their names begin with.
        statistic: what chose them.
        kept: they, the best first.
        is_single: there is one, whose name is the path itself.
    """
    content: dict[str, Any] = {"name": statistic, **kept[0]._asdict()}
    if not is_single:
        content["kept"] = kept
    with atomic_write(path + BEST_SUFFIX) as file:
        file.write(seal_json(content))


def read_kept(path: str) -> list[Kept]:
    """Return which checkpoints are the best, the best first; none where nothing was written down.

    Raises:
        InputError: The file is damaged.
    """
    try:
        with open(path + BEST_SUFFIX, encoding="utf-8") as file:
            content = unseal_json(file.read())
        kept = content["kept"] if "kept" in content else [(content["value"], content["global_step"])]
        return [Kept(float(value), int(step)) for value, step in kept]
    except FileNotFoundError:
        return []
    except (OSError, InputError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{type(error).__name__}: {error}") from error


def best_prefix(path: str) -> str | None:
    """Return the best of several checkpoints that are called ``path`` and their step; None if there are none.

    Raises:
        InputError: The file that says which it is is damaged.
    """
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
    """Bring to its end what a killed process was doing to a checkpoint, or remove what it left of it."""
    aside = f"{path}.aside"
    if is_single and os.path.exists(f"{aside}.index"):
        # The index is written last: all was there, and some of it may have been moved.
        move_checkpoint(aside, path)
    for left in glob.glob(f"{glob.escape(aside)}.*"):
        os.remove(left)


def remove_others(path: str, steps: set[int]) -> None:
    """Remove the checkpoints that are called ``path`` and their step, but for those of some steps."""
    directory, stem = os.path.split(path)
    # The index goes first: what is left of one that is killed here is no checkpoint any more.
    for name in sorted(os.listdir(directory), key=lambda name: not name.endswith(".index")):
        match = _CHECKPOINT_FILE.fullmatch(name)
        if match is None or match[1] != stem or int(match[2]) in steps:
            continue
        # One whose name ends with a number is that of another saver.
        if not os.path.exists(f"{path}-{match[2]}{BEST_SUFFIX}"):
            os.remove(os.path.join(directory, name))
