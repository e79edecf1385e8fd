"""Directories that one run at a time writes to: two would mix their checkpoints and statistics.

The lock is one of the kernel, on a file in the directory: it ends with the process, however that dies. Who only
reads needs none. Inside a process a directory may be claimed several times, by each part that writes to it; the lock
ends with the last claim, and its file goes.

A forked child shares the open files of its parent, and with them the lock, which would last as long as either of them.
So a child closes them right after the fork: a worker that outlives the run does not keep the directory.
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

__all__ = ["DirectoryClaim", "check_not_claimed", "forget_claims", "was_claimed"]

LOCK_FILE = ".tpack.lock"
_MAX_DESCRIPTION_BYTES = 1 << 16


class DirectoryClaim:
    """A directory that this process writes to, until the claim is released or nobody refers to it any more.

    On a filesystem that has no locks a warning says so, and the claim is made without one.

    Args:
        directory: made if it is not there.

    Attributes:
        directory: its path, as it was given.

    Raises:
        ConfigError: Another process writes to it; the message names process, host and start. Or it cannot be written.
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
        """Say that this part of the process does not write to the directory any more; a second time does nothing."""
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
    """Tell whether this process has claimed a directory, and writes to it no more."""
    path = os.path.realpath(directory)
    return path in _locks.ended and _locks.find(path) is None


def forget_claims(directory: str | os.PathLike[str]) -> None:
    """Let a directory be one that this process has not claimed: what it is used for begins now."""
    _locks.ended.discard(os.path.realpath(directory))


@dataclass
class _Held:
    """A lock that this process has, by its open file, and by how many claims."""

    path: str
    handle: int
    num_claims: int = 0

    @property
    def file(self) -> str:
        """Where the lock's file is, unless the directory was moved."""
        return os.path.join(self.path, LOCK_FILE)


class _Locks:
    """What this process has locked; one for the process, as the kernel's locks are."""

    def __init__(self) -> None:
        # Reentrant, since the garbage collector may release one claim while another is made.
        self.guard = threading.RLock()
        self.held: list[_Held] = []
        self.ended: set[str] = set()

    def find(self, path: str) -> _Held | None:
        """Return the lock of a directory, if this process has it and other processes would find it."""
        return next((held for held in self.held if held.path == path and _is_at(held.handle, held.file)), None)

    def close_in_child(self) -> None:
        """Close what a fork has copied; the parent's locks stay."""
        for held in self.held:
            os.close(held.handle)
            held.handle = -1
        # A thread that the child does not have may have held the guard.
        self.guard, self.held = threading.RLock(), []


_locks = _Locks()


@functools.cache
def _close_in_children() -> None:
    os.register_at_fork(after_in_child=_locks.close_in_child)


def _lock(path: str) -> int:
    """Lock a directory and write down who did; return the open file."""
    file = os.path.join(path, LOCK_FILE)
    try:
        os.makedirs(path, exist_ok=True)
        while True:
            with contextlib.ExitStack() as stack:
                handle = os.open(file, os.O_RDWR | os.O_CREAT, 0o666)
                stack.callback(os.close, handle)
                _flock(path, handle, fcntl.LOCK_EX)
                # Whoever had it may have removed the file since it was opened here.
                if _is_at(handle, file):
                    os.ftruncate(handle, 0)
                    os.pwrite(handle, _description(), 0)
                    stack.pop_all()
                    return handle
    except OSError as error:
        raise ConfigError(f"the directory {path} cannot be written to: {error}") from error


def _flock(path: str, handle: int, kind: int) -> None:
    """Lock an open file if nobody else has, and the filesystem can."""
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
    """Take back one claim; with the last one the lock ends and its file goes."""
    with _locks.guard:
        held.num_claims -= 1
        if held.num_claims or held.handle < 0:
            return
        _locks.ended.add(held.path)
        # Where the file cannot be removed it stays, and is no lock any more.
        with contextlib.suppress(OSError):
            if _is_at(held.handle, held.file):
                os.unlink(held.file)
        _locks.held.remove(held)
        os.close(held.handle)
        held.handle = -1


def _is_at(handle: int, file: str) -> bool:
    """Tell whether an open file is the one of this name."""
    try:
        return os.path.samestat(os.fstat(handle), os.stat(file))
    except OSError:
        # The directory is gone, or something else is in its place.
        return False


def _description() -> bytes:
    """Return who this process is."""
    started = time.strftime("%Y-%m-%d %H:%M:%S %Z")
    command = shlex.join([sys.executable, *sys.argv])[:1000]
    return json.dumps(
        {"process": os.getpid(), "host": socket.gethostname(), "since": started, "command": command}
    ).encode()


def _owner(handle: int) -> str:
    """Return who locked an open file."""
    try:
        found = json.loads(os.pread(handle, _MAX_DESCRIPTION_BYTES, 0))
        return "process {process} on {host} writes to it since {since} ({command})".format(**found)
    except (ValueError, LookupError, TypeError):
        # It may be just about to write down who it is.
        return "another process writes to it"
