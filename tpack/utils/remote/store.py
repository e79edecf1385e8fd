"""A directory on remote storage, as fsspec reaches it: objects by name, each put and fetched as a whole.

Each operation has a limit of time, which grows with its size, and is tried several times. After a time-out nothing else
is begun before that operation has ended, so that objects arrive in the order in which they were sent.
"""

import os
import posixpath
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

from tpack.errors import ConfigError, DependencyError, InputError, RemoteError
from tpack.utils.fs import check_inner_name
from tpack.utils.lazy import import_optional
from tpack.utils.validation import check_path, shown

Result = TypeVar("Result")

WAITS_SECS = (1.0, 2.0, 4.0, 8.0)
"""How long is waited after each attempt that failed; after one more, the operation has."""
LIMIT_SECS = 120.0
BYTES_PER_SEC = 500_000
"""An operation may take so long, and as much more as its bytes take at this rate."""
# Directories are no more than parts of names there, and making one may make a bucket.
_OBJECT_STORES = frozenset({"s3", "s3a", "gs", "gcs", "abfs", "abfss", "az", "adl", "oss", "oci"})
_HTTP = frozenset({"http", "https"})
# What trying again does not mend.
_FINAL = (PermissionError, IsADirectoryError, NotImplementedError)


class Store:
    """The objects below a URL.

    Args:
        url: such as ``"s3://bucket/run"``; anything that fsspec knows.

    Attributes:
        url: the same, without a slash at its end.

    Raises:
        ConfigError: fsspec does not know such URLs, or cannot use this one.
        DependencyError: fsspec, or the package that serves such URLs, is not installed.
    """

    def __init__(self, url: str) -> None:
        self.url = check_path("remote storage", "url", url).rstrip("/")
        self._fs, root = _filesystem(self.url)
        self._root = root.rstrip("/")
        self._hanging: threading.Thread | None = None

    def sizes(self, max_depth: int | None = None) -> dict[str, int]:
        """Return the size of each object below the URL by its relative name, -1 where the storage does not tell it.

        Raises:
            RemoteError: They cannot be listed, or a name leads elsewhere.
        """
        return self._tried("list", "", lambda: self._list(max_depth))

    def put_file(self, path: str, name: str) -> None:
        """Put a file of this machine there.

        Raises:
            FileNotFoundError: There is no such file.
            RemoteError: It cannot be put, or another number of bytes than it has arrived.
        """
        size = os.stat(path).st_size
        self._put(name, size, lambda there: self._fs.put_file(path, there))

    def put_bytes(self, content: bytes, name: str) -> None:
        """Put an object of this content there; raise RemoteError as `put_file` does."""
        self._put(name, len(content), lambda there: self._fs.pipe_file(there, content))

    def read_bytes(self, name: str) -> bytes | None:
        """Return the first 64 KiB of an object, or None without one; raise RemoteError if it cannot be read."""
        try:
            return self._tried("read", name, lambda: bytes(self._fs.cat_file(self._at(name), start=0, end=1 << 16)))
        except FileNotFoundError:
            return None

    def get(self, name: str, path: str, size: int) -> None:
        """Fetch an object of a size, if known, into a whole file of this machine, with its directories.

        Raises:
            RemoteError: It cannot be fetched, or another number of bytes comes.
        """
        os.makedirs(os.path.dirname(path), exist_ok=True)
        aside = f"{path}.fetched.tmp"

        def fetch() -> None:
            self._fs.get_file(self._at(name), aside)
            if size not in (-1, os.stat(aside).st_size):
                raise OSError(f"{os.stat(aside).st_size:,} of {size:,} bytes came")

        try:
            self._tried("fetch", name, fetch, size_bytes=size)
            os.replace(aside, path)
        except FileNotFoundError as error:
            raise RemoteError(f"{self._named(name)} cannot be fetched: it is not there any more") from error
        finally:
            with suppress(FileNotFoundError):
                os.remove(aside)

    def remove(self, name: str) -> None:
        """Remove an object, if there is one; raise RemoteError if it cannot be removed."""
        with suppress(FileNotFoundError):
            self._tried("remove", name, lambda: self._fs.rm_file(self._at(name)))

    def move_to(self, other: "Store", names: Iterable[str]) -> None:
        """Move objects below another URL of the same storage, copies first; raise RemoteError if one cannot be."""
        names = list(names)
        for name in names:
            self._tried("copy", name, partial(self._copy, name, other._at(name)))
        for name in names:
            self.remove(name)

    def _copy(self, name: str, there: str) -> None:
        self._make_room_for(there)
        self._fs.cp_file(self._at(name), there)

    def _put(self, name: str, size: int, put: Callable[[str], object]) -> None:
        there = self._at(name)

        def put_and_check() -> None:
            self._make_room_for(there)
            put(there)
            self._fs.invalidate_cache()
            arrived = self._fs.info(there)["size"]
            if arrived != size:
                raise OSError(f"{arrived:,} of {size:,} bytes arrived")

        try:
            self._tried("write", name, put_and_check, size_bytes=size)
        except FileNotFoundError as error:
            raise RemoteError(f"cannot write {self._named(name)}: {_reason(error)}") from error

    def _make_room_for(self, there: str) -> None:
        if not _OBJECT_STORES.intersection(_protocols(self._fs)):
            self._fs.makedirs(posixpath.dirname(there), exist_ok=True)

    def _list(self, max_depth: int | None) -> dict[str, int]:
        self._fs.invalidate_cache()
        try:
            found = self._fs.find(self._root, maxdepth=max_depth, detail=True)
        except FileNotFoundError:
            return {}
        sizes = {}
        for path, info in found.items():
            name = path.removeprefix(f"{self._root}/")
            if path == self._root or (_HTTP.intersection(_protocols(self._fs)) and "?" in name):
                # The object itself, or a link that sorts the index of a web server.
                continue
            if name == path:
                raise RemoteError(f"{self.url} has the object {path}: expected one below {self._root}")
            try:
                size = info.get("size")
                sizes[check_inner_name(self.url, name)] = -1 if size is None else int(size)
            except InputError as error:
                raise RemoteError(str(error)) from error
        return sizes

    def _at(self, name: str) -> str:
        return f"{self._root}/{name}"

    def _named(self, name: str) -> str:
        return f"{self.url}/{name}" if name else self.url

    def _tried(self, verb: str, name: str, operation: Callable[[], Result], *, size_bytes: int = 0) -> Result:
        """Return what an operation returns, tried until it works or has failed too often."""
        limit_secs = LIMIT_SECS + size_bytes / BYTES_PER_SEC
        waits = iter(WAITS_SECS)
        while True:
            try:
                return self._limited(operation, limit_secs)
            except (FileNotFoundError, RemoteError):
                raise
            except Exception as error:
                wait_secs = None if isinstance(error, _FINAL) else next(waits, None)
                if wait_secs is None:
                    raise RemoteError(f"cannot {verb} {self._named(name)}: {_reason(error)}") from error
            time.sleep(wait_secs)

    def _limited(self, operation: Callable[[], Result], limit_secs: float) -> Result:
        """Return or raise what an operation does; raise TimeoutError if it, or an earlier one, does not end in time."""
        if self._hanging is not None:
            self._hanging.join(limit_secs)
            if self._hanging.is_alive():
                raise TimeoutError("an operation before it has not ended yet")
            self._hanging = None
        results: list[Result] = []
        errors: list[BaseException] = []

        def work() -> None:
            try:
                results.append(operation())
            except BaseException as error:
                errors.append(error)

        thread = threading.Thread(target=work, name="remote storage", daemon=True)
        thread.start()
        thread.join(limit_secs)
        if thread.is_alive():
            self._hanging = thread
            raise TimeoutError(f"it did not end within {limit_secs:.0f} seconds")
        if errors:
            raise errors[0]
        return results[0]


def _filesystem(url: str) -> tuple[Any, str]:
    """Return the filesystem of a URL, and its path there."""
    fsspec = import_optional("fsspec", "remote")
    scheme = url.partition("://")[0]
    try:
        filesystem, root = fsspec.core.url_to_fs(url)
    except ImportError as error:
        raise DependencyError(f"{url} needs a package that is not installed: {error}") from error
    except ValueError as error:
        raise ConfigError(f"{shown(url)} cannot be used: {error}; expected a URL that fsspec knows") from error
    except Exception as error:
        raise ConfigError(f"{shown(url)} cannot be used: fsspec's {scheme!r} says {_reason(error)}") from error
    return filesystem, str(root)


def _protocols(filesystem: Any) -> tuple[str, ...]:
    protocol = filesystem.protocol
    return (protocol,) if isinstance(protocol, str) else tuple(protocol)


def _reason(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
