"""The remote directories that this process writes and reads, and their copies on this machine.

A run writes into a directory of this machine, below ``$TPACK_REMOTE_CACHE``, which has the files of the remote one and
is sent there. What an earlier run here could not send is moved aside; what is sent is removed at the exit.

Fetched first is what a run that continues needs: all but event files, graphs, and the data of checkpoints, which come
when a checkpoint is read.
"""

import atexit
import functools
import hashlib
import logging
import os
import re
import shutil
import tempfile
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from tpack.errors import ConfigError, RemoteError
from tpack.utils.dir_lock import DirectoryClaim, check_not_claimed
from tpack.utils.remote.contents import HEAD, OWNER, index_of, is_fetched_first, stem_of
from tpack.utils.remote.mirror import Mirror, described_owner, fetch_data
from tpack.utils.remote.store import Store
from tpack.utils.validation import is_remote

Action = Literal["b", "d", "k", "n", "q"]
_logger = logging.getLogger("tpack")


@dataclass
class RemoteDirectory:
    """A remote directory, of a URL, that this process writes to by way of a path on this machine."""

    url: str
    path: str
    _mirror: Mirror
    _claim: DirectoryClaim
    _num_users: int = 0
    has_trained: bool = False

    def use(self) -> "RemoteDirectory":
        """Count one more who writes there, and return the same."""
        self._num_users += 1
        return self

    def check(self) -> None:
        """Raise what ended the sending, if something did; see `Mirror.check`."""
        self._mirror.check()

    def finish(self) -> None:
        """Wait until all is sent, as a training ends; see `Mirror.finish`."""
        self.has_trained = True
        self._mirror.finish()

    def fetch(self, prefix: str) -> None:
        """Fetch the data of a checkpoint; see `Mirror.fetch`."""
        self._mirror.fetch(prefix)

    def close(self) -> None:
        """End one use of the directory; with the last one, send what is left, or raise RemoteError."""
        self._num_users -= 1
        if self._num_users <= 0:
            self.end()

    def end(self) -> None:
        """Send what is left, whoever writes there; raise RemoteError if something cannot be sent."""
        _known.writing.pop(self.url, None)
        try:
            self._mirror.close()
            shutil.rmtree(self.path, ignore_errors=True)
        finally:
            self._claim.release()


@dataclass
class _Copy:
    """The fetched part of a remote directory that is read."""

    store: Store
    sizes: Mapping[str, int]
    path: str

    def fetch(self, prefix: str) -> None:
        fetch_data(self.store, self.sizes, self.path, prefix)


class _Known:
    """The remote directories of this process; one for the process, as the logger is."""

    def __init__(self) -> None:
        self.guard = threading.RLock()
        self.writing: dict[str, RemoteDirectory] = {}
        self.reading: list[_Copy] = []

    def forget_in_child(self) -> None:
        """Forget all: what a fork has copied is the parent's."""
        self.guard, self.writing, self.reading = threading.RLock(), {}, []

    def close(self) -> None:
        """Send what is left, and remove what is on this machine."""
        for directory in list(self.writing.values()):
            try:
                directory.end()
            except OSError as error:
                _logger.error(f"At the end of the process: {error}")
        for copy in self.reading:
            shutil.rmtree(copy.path, ignore_errors=True)
        self.reading.clear()


_known = _Known()


def open_directory(url: str, action: Action = "k") -> RemoteDirectory:
    """Begin to write to a remote directory; ``close`` of what is returned ends it.

    Args:
        url: where it is.
        action: what to do with one that has content, as ``logger.set_logger_dir`` says it in one letter.

    Raises:
        ConfigError: It has content and the action is to refuse, or fsspec cannot use the URL, or another process of
            this machine writes there.
        DependencyError: fsspec, or the package that serves such URLs, is not installed.
        RemoteError: It cannot be read or written.
    """
    _end_with_process()
    with _known.guard:
        store = Store(url)
        if store.url in _known.writing:
            return _known.writing[store.url].use()
        sizes = store.sizes()
        if sizes:
            store, sizes = _make_room(store, sizes, action)
        claim = _claim_empty(store.url)
        try:
            fetched = _fetch_first(store, sizes, claim.directory)
            mirror = Mirror(store, claim.directory, sizes, fetched)
        except BaseException:
            shutil.rmtree(claim.directory, ignore_errors=True)
            claim.release()
            raise
        directory = RemoteDirectory(store.url, claim.directory, mirror, claim)
        _known.writing[store.url] = directory
        return directory.use()


def check_directories() -> None:
    """Raise the RemoteError that ended the sending to any remote directory: another run writes there."""
    for directory in list(_known.writing.values()):
        directory.check()


def finish_directories() -> None:
    """Wait until all that was written is sent; raise RemoteError that names what is missing."""
    for directory in list(_known.writing.values()):
        directory.finish()
        _logger.info(f"All that was written so far is in {directory.url}.")


def fetch_checkpoint(prefix: str) -> None:
    """Fetch the data of a checkpoint of a remote directory, if they are not here yet; raise RemoteError if not."""
    path = os.path.dirname(os.path.abspath(prefix))
    known: list[RemoteDirectory | _Copy] = [*_known.writing.values(), *_known.reading]
    for directory in known:
        if path == directory.path or path.startswith(directory.path + os.sep):
            directory.fetch(os.path.abspath(prefix))


def local_path(path: str) -> str:
    """Return where a file, directory or checkpoint can be read on this machine, also that of a URL.

    Raises:
        ConfigError: As for `open_directory`, like DependencyError.
        RemoteError: It cannot be read, or there is nothing.
    """
    if not is_remote(path):
        return path
    url = path.rstrip("/")
    parent, _, name = url.rpartition("/")
    if name == HEAD:
        return local_path(parent)
    for directory in _known.writing.values():
        if url == directory.url or url.startswith(directory.url + "/"):
            return os.path.join(directory.path, url[len(directory.url) + 1 :])
    return _read(url, parent, name)


def _read(url: str, parent: str, name: str) -> str:
    _end_with_process()
    store, inside = Store(url), ""
    sizes = store.sizes(max_depth=1)
    if not sizes:
        store, inside, stem = Store(parent), name, stem_of(name)
        there = store.sizes(max_depth=1)
        sizes = {
            each: size for each, size in there.items() if each == stem or each.startswith((f"{stem}.", f"{stem}-"))
        }
    if not sizes:
        raise RemoteError(f"there is nothing at {url}")
    copy = _Copy(store, sizes, tempfile.mkdtemp(prefix="read-", dir=_cache()))
    _known.reading.append(copy)
    _fetch_first(store, sizes, copy.path)
    return os.path.join(copy.path, inside) if inside else copy.path


def _make_room(store: Store, sizes: dict[str, int], action: Action) -> tuple[Store, dict[str, int]]:
    """Carry out the action on a directory that has content; return the one to use, and what it has."""
    owner = store.read_bytes(OWNER) if OWNER in sizes else None
    if owner is not None and action in ("b", "d", "k"):
        _logger.warning(
            f"{described_owner(owner)} wrote to {store.url} and has not said that it ended: if it runs, it will end "
            "with an error, since this run writes there from now on."
        )
    if action == "q":
        raise ConfigError(f"the log directory {store.url} exists and is not empty, and action='q' forbids using it")
    if action == "n":
        return _free(store.url), {}
    if action == "b":
        aside = _free(store.url)
        _logger.info(f"Moving what is in {store.url} to {aside.url}.")
        store.move_to(aside, sizes)
        return store, {}
    # The data of a checkpoint whose index is gone, or never came, are of no use.
    unwanted = sizes if action == "d" else {name for name in sizes if (index_of(name) or name) not in sizes}
    for name in sorted(unwanted):
        store.remove(name)
    return store, {name: size for name, size in sizes.items() if name not in unwanted}


def _free(url: str) -> Store:
    """Return a directory without content, whose name begins with a URL and has the time in it."""
    stem = f"{url}-{time.strftime('%Y%m%d-%H%M%S')}"
    store, count = Store(stem), 1
    while store.sizes():
        store, count = Store(f"{stem}-{count}"), count + 1
    return store


def _fetch_first(store: Store, sizes: Mapping[str, int], directory: str) -> list[str]:
    """Fetch what is needed first, and return its names.

    All get the same time, so that the number in its name says which checkpoint is newer.
    """
    names = [name for name in sorted(sizes) if is_fetched_first(name)]
    now = time.time()
    for name in names:
        path = os.path.join(directory, name)
        store.get(name, path, sizes[name])
        os.utime(path, (now, now))
    return names


def _claim_empty(url: str) -> DirectoryClaim:
    """Claim the directory of this machine that stands for a remote one, without anything in it."""
    readable = re.sub(r"[^A-Za-z0-9.-]+", "-", url)[-60:].strip("-.")
    path = os.path.join(_cache(), f"{readable}-{hashlib.sha256(url.encode()).hexdigest()[:12]}")
    if os.path.isdir(path) and os.listdir(path):
        check_not_claimed(path)
        aside = f"{path}.unsent"
        shutil.rmtree(aside, ignore_errors=True)
        os.rename(path, aside)
        _logger.warning(
            f"An earlier run on this machine ended before all that it wrote was sent to {url}. This run begins with "
            f"what is there; what that run had is in {aside}, until that happens again."
        )
    return DirectoryClaim(path)


def _cache() -> str:
    """Return the directory of this machine below which remote ones are."""
    home = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    path = os.path.abspath(os.environ.get("TPACK_REMOTE_CACHE") or os.path.join(home, "tpack", "remote"))
    os.makedirs(path, exist_ok=True)
    return path


@functools.cache
def _end_with_process() -> None:
    os.register_at_fork(after_in_child=_known.forget_in_child)
    atexit.register(_known.close)
