"""Files and directories: made when missing, found, downloaded, and written so that a reader never sees half a file."""

import os
from collections.abc import Iterator

from tpack.utils.atomic import atomic_write
from tpack.utils.download import download

__all__ = ["atomic_write", "download", "get_dataset_path", "mkdir_p", "normpath", "recursive_walk"]


def mkdir_p(dirname: str | os.PathLike[str]) -> None:
    """Make a directory and its parents; do nothing if it is there. The empty name is the working directory."""
    if os.fspath(dirname):
        os.makedirs(dirname, exist_ok=True)


def get_dataset_path(*parts: str) -> str:
    """Return a path below the directory where data sets are kept: ``$TPACK_DATASET``, or ``~/tpack_data``.

    Nothing is made; the environment variable is read on each call.
    """
    root = os.environ.get("TPACK_DATASET") or os.path.join(os.path.expanduser("~"), "tpack_data")
    return os.path.join(os.path.abspath(root), *parts)


def normpath(path: str) -> str:
    """Return a path without needless parts such as ``./``; a URL, such as of cloud storage, stays as it is."""
    return path if "://" in path else os.path.normpath(path)


def recursive_walk(rootdir: str | os.PathLike[str]) -> Iterator[str]:
    """Yield the path of each file below a directory, sorted within each directory, its own files first."""
    for directory, names, files in os.walk(rootdir):
        names.sort()
        for name in sorted(files):
            yield os.path.join(directory, name)
