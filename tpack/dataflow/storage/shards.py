"""Data sets in several files: the names of these, and writing to all of them.

``train-{0000..0009}.tar`` stands for ten files. Points are dealt out to the files of such a name in turn.
"""

import glob
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import IO, Any, TypeAlias

from tpack.errors import ConfigError, InputError, WrongTypeError
from tpack.utils.fs import atomic_write
from tpack.utils.validation import check_local_path, shown

Paths: TypeAlias = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]
_RANGE = re.compile(r"\{(\d+)\.\.(\d+)\}")
_MOST_FILES = 100_000


def shard_names(owner: object, path: Paths) -> list[str]:
    """Return the names of the files of a data set.

    Args:
        owner: who reads them, for messages.
        path: a file; a name with a range of numbers in braces, such as ``train-{0000..0009}.tar``; a pattern with
            ``*``, ``?`` or ``[...]``; or several of them in a list.

    Raises:
        ConfigError: It is something else, nothing fits a pattern, or a file is there twice.
        InputError: There is no such file.
    """
    given = [path] if isinstance(path, (str, os.PathLike)) else path
    if not isinstance(given, Sequence) or not given:
        raise WrongTypeError(f"{type(owner).__name__} got path={shown(path)}: expected a path, or a list of paths")
    names = [name for each in given for name in _names(owner, check_local_path(owner, "path", each))]
    if twice := sorted({name for name in names if names.count(name) > 1} if len(names) < 1000 else ()):
        raise ConfigError(f"{type(owner).__name__} got {twice[0]!r} more than once: expected each file once")
    missing = [name for name in names if not os.path.isfile(name)]
    if missing:
        raise InputError(
            f"{type(owner).__name__} got path={shown(path)}: there is no file {missing[0]!r}"
            + (f", and {len(missing) - 1} more of {len(names)} are missing" if len(missing) > 1 else "")
        )
    return names


def _names(owner: object, path: str) -> list[str]:
    names = names_in_range(owner, path)
    if os.path.isfile(path) or not any(map(glob.has_magic, names)):
        return names
    found = sorted(file for name in names for file in glob.glob(name))
    if not found:
        raise ConfigError(f"{type(owner).__name__} got path={path!r}: no file fits it")
    return found


def names_in_range(owner: object, path: str) -> list[str]:
    """Return what a name with a range of numbers in braces stands for; the name itself if it has none.

    Raises:
        ConfigError: It has several, or one without a number or with too many.
    """
    parts = _RANGE.split(path)
    if len(parts) == 1:
        return [path]
    if len(parts) > 4:
        raise ConfigError(f"{type(owner).__name__} got path={path!r}: expected one range of numbers in braces")
    before, first, last, after = parts
    if not int(first) <= int(last) < int(first) + _MOST_FILES:
        raise ConfigError(
            f"{type(owner).__name__} got path={path!r}: expected a range of 1 to {_MOST_FILES} numbers, such as "
            f"{{0..9}}"
        )
    return [f"{before}{number:0{len(first)}d}{after}" for number in range(int(first), int(last) + 1)]


@contextmanager
def written_shards(owner: object, path: str | os.PathLike[str]) -> Iterator[list[IO[Any]]]:
    """Give files to write to, which take their places together when the block ends well; else nothing is changed.

    Args:
        owner: who writes, for messages.
        path: a file, or a name with a range of numbers in braces.

    Raises:
        ConfigError: The path cannot be.
    """
    names = names_in_range(owner, check_local_path(owner, "path", path))
    with ExitStack() as files:
        yield [files.enter_context(atomic_write(name, "wb")) for name in names]
