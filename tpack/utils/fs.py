"""Files and directories: made, found, downloaded, and written atomically."""

import importlib
import os
import re
import shutil
import stat
import time
import urllib.parse
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import IO, Any

from tpack.errors import ConfigError, InputError
from tpack.utils import logger
from tpack.utils.validation import check_local_path, mismatch

__all__ = ["atomic_path", "atomic_write", "download", "get_dataset_path", "mkdir_p", "normpath", "recursive_walk"]

_DOWNLOAD_TIMEOUT_SECS = 60.0
_DRIVE = re.compile("[A-Za-z]:")
_OLD_SECS = 86_400.0
_TEMPORARY = re.compile(r"\.(.+)\.[0-9a-f]{8}\.tmp")


def mkdir_p(dirname: str | os.PathLike[str]) -> None:
    """Make a directory and its parents, if missing. The empty name is the working directory."""
    if os.fspath(dirname):
        os.makedirs(check_local_path("mkdir_p", "dirname", dirname), exist_ok=True)


def get_dataset_path(*parts: str) -> str:
    """Return a path below ``$TPACK_DATASET``, read on each call, or ``~/tpack_data``; nothing is made."""
    root = os.environ.get("TPACK_DATASET") or os.path.join(os.path.expanduser("~"), "tpack_data")
    return os.path.join(os.path.abspath(root), *parts)


def normpath(path: str) -> str:
    """Return a path without parts such as ``./``; a URL stays as it is."""
    return path if "://" in path else os.path.normpath(path)


def recursive_walk(rootdir: str | os.PathLike[str]) -> Iterator[str]:
    """Yield the path of each file below a directory, sorted within each directory, its own files first."""
    for directory, names, files in os.walk(rootdir):
        names.sort()
        for name in sorted(files):
            yield os.path.join(directory, name)


@contextmanager
def atomic_write(path: str | os.PathLike[str], mode: str = "w") -> Iterator[IO[Any]]:
    """Open a file that replaces ``path`` at the end of the ``with`` block; see `atomic_path`.

    Args:
        path: the file; its directory must exist.
        mode: ``"w"`` for text in UTF-8, ``"wb"`` for bytes.

    Raises:
        ConfigError: The mode is another one, or the path is not on this machine.
    """
    if mode not in ("w", "wb"):
        raise ConfigError(mismatch("atomic_write", "mode", mode, "'w' or 'wb', since the file is written as a whole"))
    encoding = None if "b" in mode else "utf-8"
    with atomic_path(path) as temporary, open(temporary, mode.replace("w", "x"), encoding=encoding) as file:
        yield file


@contextmanager
def atomic_path(path: str | os.PathLike[str]) -> Iterator[str]:
    """Yield a temporary path in the same directory that replaces ``path`` at the end of the ``with`` block.

    For libraries that need a path, and for directories; otherwise use `atomic_write`. The content is synced to the
    disk, then renamed. If the block raises, or the process is killed at any instant, ``path`` is unchanged. A file
    keeps the permissions of its predecessor.

    Args:
        path: a file, or a directory that is empty or missing; its parent must exist.

    Raises:
        ConfigError: The path is not on this machine.
    """
    path = os.path.abspath(check_local_path("writing a file", "path", path))
    directory, name = os.path.split(path)
    temporary = os.path.join(directory, f".{name}.{os.urandom(4).hex()}.tmp")
    try:
        yield temporary
        _bring_to_disk(temporary)
        if os.path.isfile(path):
            shutil.copymode(path, temporary)
        os.replace(temporary, path)
        _bring_to_disk(directory)
    finally:
        if os.path.lexists(temporary):
            _remove(temporary)


def check_inner_name(owner: str, name: str) -> str:
    """Return a relative name that comes from outside, such as that of an object or of an archive's member.

    Args:
        owner: the origin, for the error.
        name: the name, with ``/`` between its parts.

    Raises:
        InputError: A file of this name below a directory could be outside of it, on any system.
    """
    parts = name.split("/")
    leads_elsewhere = ".." in parts or _DRIVE.match(name) or "\\" in name or "\0" in name
    if leads_elsewhere or "" in parts or parts[-1] == ".":
        expected = "a relative name below it, without '..', empty parts, drives, backslashes and NUL"
        raise InputError(mismatch(owner, "name", name, expected))
    return name


def check_size(owner: str, size_bytes: int, max_bytes: int) -> None:
    """Refuse content that would be read whole; raise an InputError that names the argument ``max_bytes``."""
    if size_bytes > max_bytes:
        raise InputError(f"{owner} has {size_bytes} bytes: expected at most {max_bytes}; use max_bytes={size_bytes}")


@contextmanager
def open_regular(path: str) -> Iterator[IO[bytes]]:
    """Open a file of bytes to read; a pipe or device in its place is refused, which could give nothing or all too much.

    Raises:
        InputError: It is no regular file, nor a link to one.
        OSError: It cannot be opened.
    """
    # Opening a pipe to read waits for a writer otherwise.
    with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise InputError(f"{path} is a pipe, a device or the like: expected a regular file")
        yield file


def read_regular(path: str, max_bytes: int) -> bytes:
    """Return the content of a regular file.

    Raises:
        InputError: It is something else, or larger.
        OSError: It cannot be read.
    """
    with open_regular(path) as file:
        content = file.read(max_bytes + 1)
        if len(content) > max_bytes:
            size = os.fstat(file.fileno()).st_size
            raise InputError(f"{path} has {size} bytes: expected at most {max_bytes}")
    return content


def remove_leftovers(path: str) -> None:
    """Remove temporary files of killed processes: those of a file, and all in its directory that are a day old.

    Args:
        path: the file, whose only writer calls this.
    """
    directory, name = os.path.split(os.path.abspath(path))
    for found in os.listdir(directory):
        written = leftover_of(found)
        if written is None:
            continue
        with suppress(FileNotFoundError):
            temporary = os.path.join(directory, found)
            if written == name or os.lstat(temporary).st_mtime < time.time() - _OLD_SECS:
                _remove(temporary)


def _remove(temporary: str) -> None:
    if os.path.isdir(temporary) and not os.path.islink(temporary):
        shutil.rmtree(temporary, ignore_errors=True)
    else:
        os.unlink(temporary)


def why_not_written(path: str, error: OSError) -> str:
    """Return the reason why a file could not be written.

    Args:
        path: the file.
        error: the error.
    """
    directory = os.path.dirname(os.path.abspath(path))
    return error.strerror or str(error) if os.path.isdir(directory) else f"the directory {directory} is gone"


def leftover_of(name: str) -> str | None:
    """Return the file behind a temporary name of `atomic_path`; None for other names."""
    match = _TEMPORARY.fullmatch(name)
    return None if match is None else match[1]


def _bring_to_disk(path: str) -> None:
    """Sync a file, or the names in a directory, to the disk."""
    is_directory = os.path.isdir(path)
    if is_directory and os.name != "posix":
        # Such a system cannot open a directory, and syncs it itself.
        return
    handle = os.open(path, os.O_RDONLY if is_directory else os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def download(url: str, dir: str | os.PathLike[str], filename: str | None = None, expect_size: int | None = None) -> str:
    """Download a file into a directory, unless it is there with the expected size, if any; return its path.

    Args:
        url: with ``http``, ``https``, ``ftp`` or ``file``.
        dir: the directory; made if missing.
        filename: the file's name; the last part of the URL's path unless given.
        expect_size: its size in bytes.

    Raises:
        ConfigError: The URL is of another kind, or has no file name, or the directory is not on this machine.
        InputError: The file cannot be downloaded, is incomplete, or of another size; then nothing is left behind. Or a
            file of another size exists, which is kept. Or the name in the URL is that of no file, such as ``..``.
    """
    parts = urllib.parse.urlsplit(url)
    if parts.scheme not in ("http", "https", "ftp", "file"):
        raise ConfigError(mismatch("download", "url", url, "a URL with http, https, ftp or file"))
    name = filename or os.path.basename(urllib.parse.unquote(parts.path))
    if filename is None and name:
        check_inner_name(url, name)
    if not name:
        raise ConfigError(mismatch("download", "url", url, "a file name at its end", "filename"))
    dir = check_local_path("download", "dir", dir)
    path = os.path.join(dir, name)
    if os.path.exists(path):
        _check_size(path, expect_size, "is there already")
        logger.info(f"Not downloading {url}: {path} is there already")
        return path
    os.makedirs(dir, exist_ok=True)
    logger.info(f"Downloading {url} to {path}")
    try:
        _fetch(url, path, expect_size)
    except OSError as error:
        raise InputError(f"{url} cannot be downloaded: {error}") from error
    logger.info(f"Downloaded {path}, {os.path.getsize(path):,} bytes")
    return path


def _fetch(url: str, path: str, expect_size: int | None) -> None:
    # HTTP and TLS take longer to import than everything else in a data worker.
    urlopen = importlib.import_module("urllib.request").urlopen
    with urlopen(url, timeout=_DOWNLOAD_TIMEOUT_SECS) as response, atomic_write(path, "wb") as file:
        shutil.copyfileobj(response, file)
        file.flush()
        announced = response.headers.get("Content-Length")
        _check_size(file.name, None if announced is None else int(announced), f"was downloaded incompletely from {url}")
        _check_size(file.name, expect_size, f"was downloaded from {url}")


def _check_size(path: str, expected: int | None, what: str) -> None:
    size = os.path.getsize(path)
    if expected is not None and size != expected:
        raise InputError(f"{path} {what}: expected {expected:,} bytes, and it has {size:,}")
