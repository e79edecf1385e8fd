"""Exclusive claims on directories, since two runs in one would mix checkpoints and statistics; readers need none.

The lock is the kernel's, on a file in the directory, and ends with the process. A process may claim a directory several
times; the last release removes the file. A forked child closes its copies of the locks, so a worker that outlives the
run does not keep the directory.
"""

import contextlib
import fcntl
import functools
import json
import logging
import os
import shlex
import socket
import sys
import threading
import time
import weakref
from dataclasses import dataclass

from tpack.errors import ConfigError

__all__ = ["DirectoryClaim", "check_not_claimed", "forget_claims", "had_claim", "was_claimed"]

LOCK_FILE = ".tpack.lock"
_MAX_DESCRIPTION_BYTES = 1 << 16


class DirectoryClaim:
    """A directory that this process writes to, until the claim is released or garbage collected.

    Args:
        directory: made if missing; on a filesystem without locks there is only a warning.

    Attributes:
        directory: its path, as given.

    Raises:
        ConfigError: Another process writes to it, named with host and start. Or it cannot be written.
    """

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        self.directory = os.fspath(directory)
        path = os.path.realpath(directory)
        _close_in_children()
        with _locks.guard:
            held = _locks.find(path)
            if held is None:
                held = _Held(path, _lock(path))
                _locks.held.append(held)
            held.num_claims += 1
        self._release = weakref.finalize(self, _release, held)

    def release(self) -> None:
        """Release the claim; a second call does nothing."""
        self._release()

    def __enter__(self) -> "DirectoryClaim":
        return self

    def __exit__(self, *error: object) -> None:
        self.release()


def check_not_claimed(directory: str | os.PathLike[str]) -> None:
    """Refuse a directory that another process writes to, before it is moved or deleted.

    Raises:
        ConfigError: As for `DirectoryClaim`.
    """
    path = os.path.realpath(directory)
    if _locks.find(path) is not None:
        return
    with contextlib.suppress(FileNotFoundError):
        handle = os.open(os.path.join(path, LOCK_FILE), os.O_RDONLY)
        try:
            _flock(path, handle, fcntl.LOCK_SH)
        finally:
            os.close(handle)


def was_claimed(directory: str | os.PathLike[str]) -> bool:
    """Tell whether this process has claimed and released a directory."""
    path = os.path.realpath(directory)
    return path in _locks.ended and _locks.find(path) is None


def had_claim(directory: str | os.PathLike[str]) -> bool:
    """Tell whether this process has claimed and released a directory, also if it has claimed it again."""
    return os.path.realpath(directory) in _locks.ended


def forget_claims(directory: str | os.PathLike[str]) -> None:
    """Forget that this process has claimed a directory before."""
    _locks.ended.discard(os.path.realpath(directory))


@dataclass
class _Held:
    """A lock of this process: its path, its open file, and the number of claims."""

    path: str
    handle: int
    num_claims: int = 0

    @property
    def file(self) -> str:
        """The lock's file, unless the directory was moved."""
        return os.path.join(self.path, LOCK_FILE)


class _Locks:
    """The process's locks."""

    def __init__(self) -> None:
        # Reentrant: the garbage collector may release a claim while another is made.
        self.guard = threading.RLock()
        self.held: list[_Held] = []
        self.ended: set[str] = set()

    def find(self, path: str) -> _Held | None:
        """Return this process's lock of a directory, if other processes would find it."""
        return next((held for held in self.held if held.path == path and _is_at(held.handle, held.file)), None)

    def close_in_child(self) -> None:
        """Close the copies in a forked child; the parent's locks stay."""
        for held in self.held:
            os.close(held.handle)
            held.handle = -1
        # A thread missing in the child may have held the guard.
        self.guard, self.held = threading.RLock(), []


_locks = _Locks()


@functools.cache
def _close_in_children() -> None:
    os.register_at_fork(after_in_child=_locks.close_in_child)


def _lock(path: str) -> int:
    """Lock a directory and describe the owner in it; return the open file."""
    file = os.path.join(path, LOCK_FILE)
    description = {"process": os.getpid(), "host": socket.gethostname(), "since": time.strftime("%Y-%m-%d %H:%M:%S %Z")}
    description["command"] = shlex.join([sys.executable, *sys.argv])[:1000]
    try:
        os.makedirs(path, exist_ok=True)
        while True:
            with contextlib.ExitStack() as stack:
                handle = os.open(file, os.O_RDWR | os.O_CREAT, 0o666)
                stack.callback(os.close, handle)
                _flock(path, handle, fcntl.LOCK_EX)
                # The former owner may have removed the file since it was opened here.
                if _is_at(handle, file):
                    os.ftruncate(handle, 0)
                    os.pwrite(handle, json.dumps(description).encode(), 0)
                    stack.pop_all()
                    return handle
    except OSError as error:
        raise ConfigError(f"the directory {path} cannot be written to: {error}") from error


def _flock(path: str, handle: int, kind: int) -> None:
    """Lock an open file if it is free and the filesystem supports it."""
    try:
        fcntl.flock(handle, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        raise ConfigError(
            f"the directory {path} is in use: {_owner(handle)}. Two runs would mix their checkpoints and statistics: "
            "wait until that one has ended, or give this one another directory"
        ) from None
    except OSError as error:
        logging.getLogger("tpack").warning(
            f"The directory {path} cannot be locked ({error}): see to it that only one run writes to it."
        )


def _release(held: _Held) -> None:
    """Release one claim; the last one unlocks and removes the file."""
    with _locks.guard:
        held.num_claims -= 1
        if held.num_claims or held.handle < 0:
            return
        _locks.ended.add(held.path)
        # A file that cannot be removed stays, without its lock.
        with contextlib.suppress(OSError):
            if _is_at(held.handle, held.file):
                os.unlink(held.file)
        _locks.held.remove(held)
        os.close(held.handle)
        held.handle = -1


def _is_at(handle: int, file: str) -> bool:
    """Tell whether an open file has this path."""
    try:
        return os.path.samestat(os.fstat(handle), os.stat(file))
    except OSError:
        # The directory is gone or replaced.
        return False


def _owner(handle: int) -> str:
    """Describe the owner of a lock."""
    try:
        found = json.loads(os.pread(handle, _MAX_DESCRIPTION_BYTES, 0))
        return "process {process} on {host} writes to it since {since} ({command})".format(**found)
    except (ValueError, LookupError, TypeError):
        # It may not have written its description yet.
        return "another process writes to it"
