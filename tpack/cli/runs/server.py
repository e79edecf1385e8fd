"""The page of ``tpack watch --serve``: all runs below folders, in a browser, while they train.

The server answers this machine alone, reads only, and takes no path from a request: runs have numbers. The list needs
``run.json`` and the end of ``stats.json`` of each run; statistics are parsed as a whole when their run is chosen, and
kept while size and time of the file stay. Curves are sent thinned out, with the extremes of each part.

- ``/``: the page, with the list of runs;
- ``/runs``: the list;
- ``/names?runs=0,2``: the names of their statistics;
- ``/curves?runs=0,2&stat=cost&stat=accuracy&axis=step&from=10&to=90``: points ``[epoch, step, value]``;
- ``/settings?runs=0,2``: settings, versions and warnings.
"""

import itertools
import json
import math
import os
import secrets
import socketserver
import threading
import urllib.parse
from array import array
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tpack.callbacks.monitors import run_status, stats_file
from tpack.cli.runs.html_report import filled, settings_of
from tpack.cli.runs.terminal import state_of
from tpack.errors import CallbackError, ConfigError, InputError
from tpack.utils.fs import open_regular
from tpack.version import __version__

ADDRESS = "127.0.0.1"
_HOSTS = (ADDRESS, "localhost")
"""Names of this machine in the address of a page. Any other is that of another site whose name leads here."""

_RUN_FILES = (run_status.FILENAME, stats_file.FILENAME, stats_file.FORMER_FILENAME)
_MOST_VALUES_KEPT = 1 << 25
_MOST_POINTS, _FEWEST_POINTS, _POINTS_IN_ALL = 360, 60, 150_000
_WHOLE = (-math.inf, math.inf)
_END_BYTES = 1 << 16
_IDLE_SECS = 30.0
_POSITION = ("epoch_num", "global_step")
_HEADERS = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
}

Signature = tuple[int, int]
"""The size and the time of the last change of a file."""


class Table:
    """The statistics of a run by name.

    Args:
        entries: those of its file.

    Attributes:
        names: of the statistics, in the order of their first appearance.
    """

    def __init__(self, entries: Sequence[stats_file.Entry]) -> None:
        self._epochs, self._steps = (array("d", [entry.get(key, math.nan) for entry in entries]) for key in _POSITION)
        self._curves: dict[str, tuple[array[int], array[float]]] = {}
        for name in dict.fromkeys(itertools.chain.from_iterable(entries)):
            if name not in _POSITION:
                column: list[Any] = [entry.get(name) for entry in entries]
                # Programs of users write texts, too.
                rows = array("q", [row for row, value in enumerate(column) if isinstance(value, (int, float))])
                self._curves[name] = rows, array("d", [column[row] for row in rows])
        self.names = [name for name, (rows, _) in self._curves.items() if rows]

    @property
    def num_values(self) -> int:
        """The number of values of all statistics."""
        return sum(len(values) for _, values in self._curves.values())

    def points(self, name: str, most: int, axis: str, between: tuple[float, float]) -> list[list[float | None]]:
        """Return at most about ``most`` points of a statistic: epoch, step and value, None where not finite.

        Args:
            name: the statistic.
            most: the number of points.
            axis: ``"epoch"`` or ``"step"``.
            between: the ends of the shown part of the axis.
        """
        rows, values = self._curves.get(name, (array("q"), array("d")))
        places = range(len(rows))
        if between != _WHOLE:
            over = self._epochs if axis == "epoch" else self._steps
            inside = [place for place in places if between[0] <= over[rows[place]] <= between[1]]
            # A curve goes on to the edges of the shown part.
            places = range(max(0, inside[0] - 1), min(len(rows), inside[-1] + 2)) if inside else range(0)
        kept = [places.start + place for place in thinned(values[places.start : places.stop], most)]
        return [
            [_finite(self._epochs[rows[place]]), _finite(self._steps[rows[place]]), _finite(values[place])]
            for place in kept
        ]


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def thinned(values: Sequence[float], most: int) -> list[int]:
    """Return the positions to draw of a long curve: of each part the smallest, the largest, and one that is not finite.

    Args:
        values: the curve.
        most: the number of positions, at least 6; shorter curves are drawn as they are.
    """
    if len(values) <= most:
        return list(range(len(values)))
    num_parts = (most - 2) // 3
    kept = {0, len(values) - 1}
    for part in range(num_parts):
        begin, end = (len(values) * edge // num_parts for edge in (part, part + 1))
        inside = values[begin:end]
        finite = [value for value in inside if math.isfinite(value)]
        if finite:
            kept |= {begin + inside.index(min(finite)), begin + inside.index(max(finite))}
        if len(finite) < len(inside):
            kept.add(begin + next(place for place, value in enumerate(inside) if not math.isfinite(value)))
    return sorted(kept)


class RunFolders:
    """The runs below folders, by number; a number stays that of its run.

    Args:
        folders: as absolute paths, with a label for each.
    """

    def __init__(self, folders: Sequence[tuple[str, str]]) -> None:
        self._folders = folders
        self._lock = threading.Lock()
        self._numbers: dict[str, int] = {}
        self._labels: list[str] = []
        self._directories: list[str] = []
        self._ends: dict[int, tuple[Signature, dict[str, float | None]]] = {}
        self._tables: OrderedDict[int, tuple[Signature, Table]] = OrderedDict()

    def find(self) -> list[dict[str, Any]]:
        """Return the list of runs, the last changed first."""
        with self._lock:
            found = [self._summary(*each) for each in self._walk()]
        return sorted(found, key=lambda run: (-run["changed"], run["label"]))

    def _walk(self) -> Iterator[tuple[int, str, str]]:
        """Yield the number, label and directory of each run."""
        for label, folder in self._folders:
            for directory, inner, files in os.walk(folder):
                inner[:] = sorted(name for name in inner if not name.startswith("."))
                if not any(name in files for name in _RUN_FILES):
                    continue
                if directory not in self._numbers:
                    below = os.path.relpath(directory, folder)
                    inside = below if len(self._folders) == 1 else f"{label}/{below}"
                    self._numbers[directory] = len(self._directories)
                    self._directories.append(directory)
                    self._labels.append(label if below == "." else inside)
                number = self._numbers[directory]
                yield number, self._labels[number], directory

    def _summary(self, number: int, label: str, directory: str) -> dict[str, Any]:
        signature = _signature(stats_file.path_in(directory))
        told_at = _signature(os.path.join(directory, run_status.FILENAME))
        summary = {
            "id": number,
            "label": label,
            "version": f"{signature}",
            "changed": max(signature[1], told_at[1]) / 1e9,
        }
        try:
            told, last = run_status.read_run(directory), self._last_values(number, directory, signature)
        except (CallbackError, InputError, OSError) as error:
            return {**summary, "state": "unreadable", "error": str(error), "last": {}, "progress": {}}
        return {**summary, "state": state_of(told), "last": last, "progress": told.get("progress", {})}

    def _last_values(self, number: int, directory: str, signature: Signature) -> dict[str, float | None]:
        """Return the last entry of the statistics, from the end of the file; empty if that cannot be told."""
        known = self._ends.get(number)
        if known is None or known[0] != signature:
            known = signature, _last_entry(stats_file.path_in(directory))
            self._ends[number] = known
        return known[1]

    def directory(self, number: int) -> str:
        """Return the directory of a run.

        Raises:
            ConfigError: No run has this number.
        """
        if not 0 <= number < len(self._directories):
            raise ConfigError(f"runs got {number}: expected numbers of runs, which /runs lists")
        return self._directories[number]

    def label(self, number: int) -> str:
        """Return the label of a run, which `directory` has found."""
        return self._labels[number]

    def table(self, number: int) -> Table:
        """Return the statistics of a run, parsed if the file has changed.

        Raises:
            CallbackError: The file is damaged.
            OSError: It cannot be read.
        """
        directory = self.directory(number)
        with self._lock:
            signature = _signature(stats_file.path_in(directory))
            if number not in self._tables or self._tables[number][0] != signature:
                self._tables[number] = signature, Table(stats_file.read_entries(directory) or [])
            self._tables.move_to_end(number)
            in_all = sum(table.num_values for _, table in self._tables.values())
            while in_all > _MOST_VALUES_KEPT and len(self._tables) > 1:
                in_all -= self._tables.popitem(last=False)[1][1].num_values
            return self._tables[number][1]


def _signature(path: str) -> Signature:
    try:
        status = os.stat(path)
    except OSError:
        return 0, 0
    return status.st_size, status.st_mtime_ns


def _last_entry(path: str) -> dict[str, float | None]:
    with suppress(FileNotFoundError, ValueError, RecursionError), open_regular(path) as file:
        file.seek(max(0, os.fstat(file.fileno()).st_size - _END_BYTES))
        end = file.read(_END_BYTES).decode(errors="replace")
        entry, _ = json.JSONDecoder().raw_decode(end, end.rindex("{"))
        numbers = {name: value for name, value in entry.items() if stats_file.is_number(value)}
        return {name: _finite(float(value)) for name, value in numbers.items() if name not in _POSITION}
    return {}


def _answer(folders: RunFolders, path: str, query: dict[str, list[str]]) -> dict[str, Any] | None:
    """Return the content of an answer; None if there is no such page."""
    if path == "/runs":
        return {"runs": folders.find()}
    if path not in ("/names", "/curves", "/settings"):
        return None
    numbers = _numbers(query)
    directories = [folders.directory(number) for number in numbers]
    if path == "/settings":
        return _of_each(numbers, lambda number: settings_of(directories[numbers.index(number)]))
    if path == "/names":
        return _of_each(numbers, lambda number: {"names": folders.table(number).names})
    stats = query.get("stat", [])
    axis, low, high = _range(query)
    most = max(_FEWEST_POINTS, min(_MOST_POINTS, _POINTS_IN_ALL // max(1, len(stats) * len(numbers))))

    def curves(number: int) -> dict[str, Any]:
        table = folders.table(number)
        return {"curves": {stat: table.points(stat, most, axis, (low, high)) for stat in stats}}

    return _of_each(numbers, curves)


def _of_each(numbers: Sequence[int], get: Callable[[int], dict[str, Any]]) -> dict[str, Any]:
    """Return {number: what is got for it, or the error of its files}."""
    found = {}
    for number in numbers:
        try:
            found[str(number)] = get(number)
        except (CallbackError, InputError, OSError) as error:
            found[str(number)] = {"error": str(error)}
    return found


def _numbers(query: dict[str, list[str]]) -> list[int]:
    text = query.get("runs", [""])[-1]
    parts = text.split(",")
    if not all(part.isascii() and part.isdecimal() and len(part) < 10 for part in parts):
        raise ConfigError(f"runs got {text[:100]!r}: expected numbers of runs with commas between, such as 0,2")
    return list(dict.fromkeys(map(int, parts)))


def _range(query: dict[str, list[str]]) -> tuple[str, float, float]:
    axis = query.get("axis", ["epoch"])[-1]
    if axis not in ("epoch", "step"):
        raise ConfigError(f"axis got {axis[:100]!r}: expected epoch or step")
    ends = []
    for name, default in (("from", "-inf"), ("to", "inf")):
        text = query.get(name, [default])[-1]
        try:
            ends.append(float(text))
        except ValueError as error:
            raise ConfigError(f"{name} got {text[:100]!r}: expected a number") from error
    return axis, ends[0], ends[1]


class _Server(ThreadingHTTPServer):
    """The server.

    Args:
        port: its port.
        folders: the runs.
        every_secs: how often the page asks for news.
    """

    daemon_threads = True

    def __init__(self, port: int, folders: RunFolders, every_secs: float) -> None:
        self.folders = folders
        self.every_secs = every_secs
        # A page that was open before a restart has other numbers.
        self.instance = secrets.token_hex(8)
        super().__init__((ADDRESS, port), _Handler)

    def server_bind(self) -> None:
        """Bind, without the look-up of a name that the base class makes."""
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = ADDRESS, self.server_address[1]


class _Handler(BaseHTTPRequestHandler):
    """Answers of the server; there is no method that writes."""

    server: _Server
    protocol_version = "HTTP/1.1"
    server_version = f"tpack/{__version__}"
    sys_version = ""
    timeout = _IDLE_SECS

    def do_GET(self) -> None:
        """Answer a request."""
        try:
            name = urllib.parse.urlsplit(f"//{self.headers.get('Host', '')}").hostname
            parts = urllib.parse.urlsplit(self.path)
            if name not in _HOSTS:
                self._send(421, "text/plain", f"Host got {name}: expected {' or '.join(_HOSTS)}")
                return
            if parts.path == "/":
                self._send_page()
                return
            query = urllib.parse.parse_qs(parts.query, keep_blank_values=True, max_num_fields=1000)
            content = _answer(self.server.folders, parts.path, query)
        except ValueError as error:
            # A `ConfigError`, or that of an invalid address or of too many fields.
            self._send(400, "text/plain", str(error))
            return
        if content is None:
            self._send(404, "text/plain", "expected /, /runs, /names, /curves or /settings")
            return
        content["instance"] = self.server.instance
        self._send(200, "application/json", json.dumps(content, allow_nan=False))

    def _send_page(self) -> None:
        nonce = secrets.token_urlsafe(16)
        told = {"version": __version__, "every_secs": self.server.every_secs, "instance": self.server.instance}
        text = filled("served.html", {**told, "runs": self.server.folders.find()}, nonce)
        kinds = {"script": f"'nonce-{nonce}'", "style": f"'nonce-{nonce}'", "connect": "'self'", "img": "data:"}
        policy = "; ".join(["default-src 'none'", *(f"{kind}-src {source}" for kind, source in kinds.items())])
        self._send(200, "text/html", text, policy)

    def _send(self, status: int, kind: str, text: str, policy: str = "default-src 'none'") -> None:
        content = text.encode()
        self.send_response(status)
        for name, value in {**_HEADERS, "Content-Security-Policy": policy}.items():
            self.send_header(name, value)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        with suppress(ConnectionError):
            self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        """Do nothing: the terminal shows the address alone."""


@contextmanager
def served(folders: RunFolders, port: int, every_secs: float) -> Iterator[_Server]:
    """Make a server that a block runs with ``serve_forever``.

    Args:
        folders: the runs.
        port: on this machine; 0 for any free one.
        every_secs: how often an open page asks for news.

    Raises:
        ConfigError: The port is taken.
    """
    try:
        server = _Server(port, folders, every_secs)
    except OSError as error:
        raise ConfigError(
            f"--port got {port}: expected a free port ({error.strerror}); use --port 0 for any"
        ) from error
    with server:
        yield server
