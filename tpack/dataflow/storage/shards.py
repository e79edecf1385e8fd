"""Data sets in several files: their names, and writing to all of them.

``train-{0000..0009}.tar`` stands for ten files, to which points are dealt out in turn.
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
        owner: the reader, for messages.
        path: a file; a name with a range of numbers in braces, such as ``train-{0000..0009}.tar``; a pattern with
            ``*``, ``?`` or ``[...]``; or several of them in a list.

    Raises:
        ConfigError: It is something else, nothing fits a pattern, or a file is there twice.
        InputError: There is no such file.
    """
    name = type(owner).__name__
    given = [path] if isinstance(path, (str, os.PathLike)) else path
    if not isinstance(given, Sequence) or not given:
        raise WrongTypeError(f"{name} got path={shown(path)}: expected a path, or a list of paths")
    names: list[str] = []
    for each in given:
        path_text = check_local_path(owner, "path", each)
        found = names_in_range(owner, path_text)
        if not os.path.isfile(path_text) and any(map(glob.has_magic, found)):
            found = sorted(file for pattern in found for file in glob.glob(pattern))
            if not found:
                raise ConfigError(f"{name} got path={path_text!r}: expected a pattern that fits a file")
        names += found
    if twice := sorted({each for each in names if names.count(each) > 1} if len(names) < 1000 else ()):
        raise ConfigError(f"{name} got {twice[0]!r} more than once: expected each file once")
    if missing := [each for each in names if not os.path.isfile(each)]:
        more = f", and {len(missing) - 1} more of {len(names)} are missing" if len(missing) > 1 else ""
        raise InputError(f"{name} got path={shown(path)}: there is no file {missing[0]!r}{more}")
    return names


def names_in_range(owner: object, path: str) -> list[str]:
    """Return the names for a range of numbers in braces, or the name itself; raise a ConfigError for several ranges."""
    parts = _RANGE.split(path)
    if len(parts) == 1:
        return [path]
    name = type(owner).__name__
    if len(parts) > 4:
        raise ConfigError(f"{name} got path={path!r}: expected one range of numbers in braces")
    before, first, last, after = parts
    if not int(first) <= int(last) < int(first) + _MOST_FILES:
        raise ConfigError(f"{name} got path={path!r}: expected a range of 1 to {_MOST_FILES} numbers, such as {{0..9}}")
    return [f"{before}{number:0{len(first)}d}{after}" for number in range(int(first), int(last) + 1)]


@contextmanager
def written_shards(owner: object, path: str | os.PathLike[str]) -> Iterator[list[IO[Any]]]:
    """Open files of a name, maybe with a range, for writing; all take their places at a regular end of the block."""
    names = names_in_range(owner, check_local_path(owner, "path", path))
    with ExitStack() as files:
        yield [files.enter_context(atomic_write(name, "wb")) for name in names]
