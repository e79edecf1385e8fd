"""Runs on remote storage: what the commands that look at runs show of them is fetched to this machine first."""

import os
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from tpack.callbacks.monitors import run_status, stats_file
from tpack.cli.runs.log_parser import LOG_FILE
from tpack.utils.remote.store import Store
from tpack.utils.validation import is_remote

TEXTS = frozenset({stats_file.FILENAME, stats_file.FORMER_FILENAME, run_status.FILENAME, LOG_FILE})
"""What tells of a run, besides its event files."""
_END_SECS = 1.0


def is_text(name: str) -> bool:
    """Tell whether a file of a run is one of those that tell of it in words and numbers."""
    return name in TEXTS


def is_shown(name: str) -> bool:
    """Tell whether a page shows something of a file of a run: images are in its event files."""
    return is_text(name) or name.startswith("events.out.tfevents.")


@dataclass
class _Copy:
    """Files of a remote run, as they are on this machine."""

    store: Store
    path: str
    fetched: dict[str, int] = field(default_factory=dict)

    def refresh(self, is_wanted: Callable[[str], bool]) -> None:
        """Fetch what has another size than it had; a file that grows is fetched anew."""
        sizes = self.store.sizes(max_depth=1)
        for name, size in sizes.items():
            if is_wanted(name) and self.fetched.get(name) != size:
                self.store.get(name, os.path.join(self.path, name), size)
                self.fetched[name] = size


class RunDirectories:
    """Directories of runs, some of which may be URLs, each as a directory of this machine.

    Args:
        given: directories, URLs of them, or files in them.
        folder: where to put what is fetched.
        is_wanted: which files are fetched, by name.

    Attributes:
        paths: of the directories, absolute, in the order of ``given``; their ends are those of the URLs.

    Raises:
        ConfigError: A URL cannot be used.
        DependencyError: fsspec, or the package that serves such URLs, is not installed.
    """

    def __init__(self, given: Sequence[str], folder: str, is_wanted: Callable[[str], bool]) -> None:
        self._is_wanted = is_wanted
        self._copies: list[_Copy] = []
        self._errors: dict[str, str] = {}
        self.paths = [self._place(each, os.path.join(folder, str(number))) for number, each in enumerate(given)]

    def _place(self, given: str, folder: str) -> str:
        if not is_remote(given):
            return os.path.abspath(os.path.dirname(given) if os.path.isfile(given) else given)
        url = given.rstrip("/")
        parent, _, name = url.rpartition("/")
        store = Store(parent if name in TEXTS else url)
        path = os.path.join(folder, *filter(None, store.url.partition("://")[2].split("/")))
        os.makedirs(path)
        self._copies.append(_Copy(store, path))
        return path

    def refresh(self) -> None:
        """Fetch what is new.

        Raises:
            RemoteError: Something cannot be fetched.
        """
        for copy in self._copies:
            copy.refresh(self._is_wanted)

    def errors(self) -> list[str]:
        """Return why what is remote may be out of date, for each run of which something could not be fetched."""
        return list(self._errors.values())

    @contextmanager
    def followed(self, every_secs: float) -> Iterator[None]:
        """Fetch what is new again and again while a block runs, in a thread: storage may take long to answer."""
        ended = threading.Event()

        def work() -> None:
            while self._copies and not ended.wait(every_secs):
                for copy in self._copies:
                    self._try_to_refresh(copy)

        thread = threading.Thread(target=work, name="remote runs", daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            # No longer: an operation that hangs has a limit of minutes.
            thread.join(_END_SECS)

    def _try_to_refresh(self, copy: _Copy) -> None:
        try:
            copy.refresh(self._is_wanted)
            self._errors.pop(copy.store.url, None)
        except OSError as error:
            # A `RemoteError`, or that of a full disk.
            self._errors[copy.store.url] = str(error)


@contextmanager
def run_directories(given: Sequence[str], is_wanted: Callable[[str], bool] = is_text) -> Iterator[RunDirectories]:
    """Have runs on this machine for a block, with what is there when it begins.

    Args:
        given: directories, URLs of them, or files in them.
        is_wanted: which files are fetched of those that are elsewhere.

    Raises:
        ConfigError: A URL cannot be used.
        DependencyError: fsspec, or the package that serves such URLs, is not installed.
        RemoteError: Something cannot be fetched.
    """
    folder = tempfile.mkdtemp(prefix="tpack-runs-")
    try:
        directories = RunDirectories(given, folder, is_wanted)
        directories.refresh()
        yield directories
    finally:
        shutil.rmtree(folder, ignore_errors=True)
