"""A directory of this machine and a remote one that has the same files: changes here are sent there.

A thread looks at the directory every few seconds, and a run that ends waits until everything is there. A reader never
finds half a checkpoint: its data are sent first, its index after that, and last the ``checkpoint`` file that names it.
Where a file changes while it is sent, the order begins again; what is replaced loses its index first.

Files that grow, such as logs, are sent whole, the less often the longer that takes. Deleted files of checkpoints are
removed there, others stay. Of runs that write to the same place the last one that began has it; the one before ends.
"""

import json
import logging
import os
import secrets
import shlex
import shutil
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from tpack.errors import RemoteError
from tpack.utils.remote.contents import OWNER, data_of, index_of, is_head, is_of_checkpoint, is_sent, place_of
from tpack.utils.remote.store import Store

PERIOD_SECS = 10.0
"""How often the thread looks at the directory."""
_TIMES_BETWEEN = 20
"""What grows is sent again after so many times as long as sending it took."""
_MOST_TRIES = 20
_MOST_LISTED = 20
_logger = logging.getLogger("tpack")


class Signature(NamedTuple):
    """Identity of a file's content: its size, time of change, and inode."""

    size: int
    changed: int
    number: int


_UNKNOWN = Signature(-1, 0, 0)


class _ChangedError(Exception):
    """A file of a checkpoint changed while it was sent."""


class _TakenError(RemoteError):
    """Another run writes to the same place."""


class Mirror:
    """Sends what is written into a claimed directory to a remote one, in a thread; raise RemoteError if it cannot."""

    def __init__(self, store: Store, directory: str, sizes: Mapping[str, int], fetched: Iterable[str]) -> None:
        self.store = store
        self.directory = directory
        self._number = os.stat(directory).st_ino
        self._sizes = sizes
        self._there = set(sizes)
        self._heads: dict[str, bytes] = {}
        self._sent: dict[str, Signature] = {}
        for name in fetched:
            self._note_fetched(name)
        self._due: dict[str, float] = {}
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._is_failing = False
        self._failure: _TakenError | None = None
        self._owner = _description()
        store.put_bytes(self._owner, OWNER)
        self._thread = threading.Thread(target=self._work, name=f"sends to {store.url}", daemon=True)
        self._thread.start()

    def check(self) -> None:
        """Raise the RemoteError that ended the sending, if any: another run writes to the same place."""
        if self._failure is not None:
            raise self._failure

    def finish(self) -> None:
        """Wait until all that is in the directory is sent; raise RemoteError that names what is missing."""
        with self._lock:
            self.check()
            try:
                self._send(everything=True)
            except _TakenError as error:
                self._failure = error
                raise
            except OSError as error:
                raise RemoteError(f"{self._missing()}: {error}. It is in {self.directory}") from error

    def close(self) -> None:
        """Send what is left, or raise RemoteError, and end the thread."""
        self._stopped.set()
        self.finish()
        if self.store.read_bytes(OWNER) == self._owner:
            self.store.remove(OWNER)

    def fetch(self, prefix: str) -> None:
        """Fetch the data of a checkpoint, by its path here, that are there and not here; raise RemoteError if not."""
        with self._lock:
            for name in fetch_data(self.store, self._sizes, self.directory, prefix):
                self._note_fetched(name)

    def _note_fetched(self, name: str) -> None:
        """Remember that a file is there as it is here."""
        if is_head(name):
            self._heads[name] = _content(os.path.join(self.directory, name))
        elif (signature := self._signature(name)) is not None:
            self._sent[name] = signature

    def _work(self) -> None:
        while not self._stopped.wait(PERIOD_SECS):
            with self._lock:
                try:
                    self._send(everything=False)
                except _TakenError as error:
                    self._failure = error
                    _logger.error(str(error))
                    return
                except OSError as error:
                    self._say(f"{error}. It is tried again")
                else:
                    self._say("")

    def _say(self, failure: str) -> None:
        """Say once that nothing can be sent, and once that it can again."""
        if failure and not self._is_failing:
            _logger.warning(f"What this run writes does not reach {self.store.url}: {failure}.")
        elif self._is_failing and not failure:
            _logger.info(f"What this run writes reaches {self.store.url} again.")
        self._is_failing = bool(failure)

    def _send(self, *, everything: bool) -> None:
        """Send changes, with ``everything`` also recent growth, and remove what belonged to deleted checkpoints."""
        for _ in range(_MOST_TRIES):
            try:
                return self._send_in_order(everything=everything)
            except _ChangedError:
                continue
        raise RemoteError(f"the checkpoints in {self.directory} change faster than they can be sent")

    def _send_in_order(self, *, everything: bool) -> None:
        heads, found = self._look()
        new_heads = [name for name in heads if self._heads.get(name) != heads[name]]
        changed = self._changed(found)
        if not (everything or new_heads):
            now = time.monotonic()
            changed = {name for name in changed if is_of_checkpoint(name) or self._due.get(name, now) <= now}
        replaced = {index for name in changed if (index := index_of(name)) in found and index is not None}
        for name in sorted(changed | replaced, key=lambda name: (place_of(name), name)):
            self._send_file(name, found[name])
        for name in new_heads:
            self._check_owner()
            self.store.put_bytes(heads[name], name)
            self._heads[name] = heads[name]
        self._remove_vanished(found)

    def _look(self) -> tuple[dict[str, bytes], dict[str, Signature]]:
        """Return what names the newest checkpoints, and then what else there is."""
        if not (os.path.isdir(self.directory) and os.stat(self.directory).st_ino == self._number):
            raise RemoteError(f"the directory {self.directory}, in which this run writes, is gone")
        heads = {name: _content(os.path.join(self.directory, name)) for name in self._names() if is_head(name)}
        signatures = {name: self._signature(name) for name in self._names() if not is_head(name)}
        return heads, {name: signature for name, signature in signatures.items() if signature is not None}

    def _names(self) -> list[str]:
        found = []
        for folder, _, files in os.walk(self.directory):
            inside = os.path.relpath(folder, self.directory)
            found += [name if inside == os.curdir else f"{inside}/{name}" for name in files]
        return [name for name in found if is_sent(name)]

    def _changed(self, found: Mapping[str, Signature]) -> set[str]:
        return {name for name, signature in found.items() if self._sent.get(name) != signature}

    def _signature(self, name: str) -> Signature | None:
        """Return by what a file is known; None if there is none."""
        try:
            status = os.stat(os.path.join(self.directory, name))
        except FileNotFoundError:
            return None
        return Signature(status.st_size, status.st_mtime_ns, status.st_ino)

    def _send_file(self, name: str, signature: Signature) -> None:
        index, start = index_of(name), time.monotonic()
        if index is not None:
            self._remove(index)
        # Whatever comes of it may be there from here on.
        self._there.add(name)
        self._sent[name] = _UNKNOWN
        try:
            if is_of_checkpoint(name):
                self._send_as_it_was(name, signature)
            else:
                # It may grow meanwhile.
                with tempfile.TemporaryDirectory() as aside:
                    copy = os.path.join(aside, "copy")
                    shutil.copyfile(os.path.join(self.directory, name), copy)
                    self.store.put_file(copy, name)
        except FileNotFoundError:
            # Unless it is of a checkpoint, it is simply gone.
            return
        self._sent[name] = signature
        now = time.monotonic()
        self._due[name] = now + _TIMES_BETWEEN * (now - start)

    def _send_as_it_was(self, name: str, signature: Signature) -> None:
        """Send a file of a checkpoint, which must stay as it was found."""
        try:
            self.store.put_file(os.path.join(self.directory, name), name)
        except OSError as error:
            if self._signature(name) != signature:
                raise _ChangedError from error
            raise
        if self._signature(name) != signature:
            raise _ChangedError

    def _remove_vanished(self, found: Mapping[str, Signature]) -> None:
        gone = {name for name in self._sent.keys() - found.keys() if is_of_checkpoint(name)}
        # The data of old checkpoints may never have been here.
        stems = [name.removesuffix(".index") for name in gone if name.endswith(".index")]
        gone |= {name for stem in stems for name in data_of(stem, self._there - found.keys())}
        for name in sorted(gone, key=lambda name: (-place_of(name), name)):
            self._remove(name)

    def _remove(self, name: str) -> None:
        if name in self._there:
            self.store.remove(name)
            self._there.discard(name)
        self._sent.pop(name, None)

    def _check_owner(self) -> None:
        """Refuse to name a checkpoint as the newest where another run writes by now."""
        owner = self.store.read_bytes(OWNER)
        if owner is None:
            self.store.put_bytes(self._owner, OWNER)
        elif owner != self._owner:
            raise _TakenError(
                f"{described_owner(owner)} writes to {self.store.url} since this run began: two runs would mix their "
                f"checkpoints and statistics. What this run wrote is in {self.directory}"
            )

    def _missing(self) -> str:
        """Return in words what is not there."""
        heads, found = self._look()
        names = sorted(self._changed(found) | {name for name in heads if self._heads.get(name) != heads[name]})
        listed = ", ".join(names[:_MOST_LISTED]) + (", ..." if len(names) > _MOST_LISTED else "")
        return f"{len(names)} file(s) of this run could not be written to {self.store.url} ({listed})"


def fetch_data(store: Store, sizes: Mapping[str, int], directory: str, prefix: str) -> list[str]:
    """Fetch the data of a checkpoint, by its path here, that are only there; return names or raise RemoteError."""
    stem = os.path.relpath(prefix, directory)
    missing = [name for name in data_of(stem, sizes) if not os.path.exists(os.path.join(directory, name))]
    for name in missing:
        store.get(name, os.path.join(directory, name), sizes[name])
    return missing


def described_owner(content: bytes) -> str:
    """Return in words which run an owner's object tells of."""
    try:
        return "process {process} on {host}, started {since} ({command})".format(**json.loads(content))
    except (ValueError, LookupError, TypeError):
        return "another run"


def _description() -> bytes:
    """Return who this run is, in a way in which no other is."""
    return json.dumps(
        {
            "process": os.getpid(),
            "host": socket.gethostname(),
            "since": time.strftime("%Y-%m-%d %H:%M:%S %Z"),
            "command": shlex.join([sys.executable, *sys.argv])[:1000],
            "id": secrets.token_hex(8),
        }
    ).encode()


def _content(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()
