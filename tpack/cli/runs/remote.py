"""Local copies of runs on remote storage, for the commands that show runs."""

import os
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from tpack.callbacks.monitors import run_status, stats_file
from tpack.cli.runs.terminal import LOG_FILE
from tpack.utils.remote.store import Store
from tpack.utils.validation import is_remote

TEXTS = frozenset({stats_file.FILENAME, stats_file.FORMER_FILENAME, run_status.FILENAME, LOG_FILE})
"""The files of a run that are shown, besides its event files."""
_END_SECS = 1.0


def is_text(name: str) -> bool:
    """Tell whether a file of a run has texts or statistics."""
    return name in TEXTS


def is_shown(name: str) -> bool:
    """Tell whether a page shows a file of a run; images are in its event files."""
    return is_text(name) or name.startswith("events.out.tfevents.")


@dataclass
class _Copy:
    """The local copies of the files of a remote run."""

    store: Store
    path: str
    fetched: dict[str, int] = field(default_factory=dict)

    def refresh(self, is_wanted: Callable[[str], bool]) -> None:
        """Fetch files whose size has changed, as a whole."""
        sizes = self.store.sizes(max_depth=1)
        for name, size in sizes.items():
            if is_wanted(name) and (size < 0 or self.fetched.get(name) != size):
                self.store.get(name, os.path.join(self.path, name), size)
                self.fetched[name] = size


class RunDirectories:
    """Directories of runs, which may be URLs, each as a local directory.

    Args:
        given: directories, URLs of them, or files in them.
        folder: the place of fetched files.
        is_wanted: selects the files to fetch, by name.

    Attributes:
        paths: the directories, absolute, in the order of ``given``; they end like the URLs.

    Raises:
        ConfigError: A URL is invalid.
        DependencyError: fsspec, or the package for such URLs, is not installed.
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
        """Return the reasons why remote runs may be out of date, one for each run that could not be fetched."""
        return list(self._errors.values())

    @contextmanager
    def followed(self, every_secs: float) -> Iterator[None]:
        """Fetch what is new repeatedly while a block runs, in a thread, since storage may be slow."""
        ended = threading.Event()

        def work() -> None:
            while self._copies and not ended.wait(every_secs):
                for copy in self._copies:
                    try:
                        copy.refresh(self._is_wanted)
                        self._errors.pop(copy.store.url, None)
                    except OSError as error:
                        # A `RemoteError`, or that of a full disk.
                        self._errors[copy.store.url] = str(error)

        thread = threading.Thread(target=work, name="remote runs", daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            # Not longer, since a hanging operation has a timeout of minutes.
            thread.join(_END_SECS)


@contextmanager
def run_directories(given: Sequence[str], is_wanted: Callable[[str], bool] = is_text) -> Iterator[RunDirectories]:
    """Provide runs as local directories for a block, as `RunDirectories` with their present content.

    Raises:
        ConfigError: A URL is invalid.
        DependencyError: fsspec, or the package for such URLs, is not installed.
        RemoteError: Something cannot be fetched.
    """
    folder = tempfile.mkdtemp(prefix="tpack-runs-")
    try:
        directories = RunDirectories(given, folder, is_wanted)
        directories.refresh()
        yield directories
    finally:
        shutil.rmtree(folder, ignore_errors=True)
