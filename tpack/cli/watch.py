"""``tpack watch``: show running trainings on the terminal or in a browser, from the files that they write.

On a terminal the page is redrawn every few seconds until ``q`` or Ctrl-C; a file or a pipe gets it once. With
``--serve`` a page for browsers on this machine shows all runs below the directories.
"""

import argparse
import os
import select
import shutil
import signal
import sys
import termios
import time
import tty
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType

import psutil

from tpack.cli.plot import short_labels
from tpack.cli.runs.remote import RunDirectories, run_directories
from tpack.cli.runs.server import RunFolders, served
from tpack.cli.runs.terminal import run_lines
from tpack.errors import ConfigError

_ENTER, _LEAVE = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"
_TOP, _REST_OF_LINE, _REST_OF_SCREEN = "\x1b[H", "\x1b[K", "\x1b[J"
_LOOK_SECS = 0.2
# Each look at remote storage is a request, or several.
_FETCH_SECS = 5.0
_LINES_IF_NO_TERMINAL = 1000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the command, and add its arguments to its parser."""
    parser.description = (
        "Show runs that train or have ended: curves, speed, time left, waits for data. Leave it with q."
    )
    parser.add_argument(
        "directories", nargs="+", metavar="DIR", help="log directories or URLs; they may not be there yet"
    )
    parser.add_argument("--every", type=float, default=2.0, metavar="SECS", help="draw so often (default: %(default)s)")
    parser.add_argument("--once", action="store_true", help="write the page once, also on a terminal")
    parser.add_argument(
        "--serve",
        action="store_true",
        help="show all runs below the directories on a page for a browser on this machine",
    )
    parser.add_argument("--port", type=int, help="of --serve (default: any free one)")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> str:
    """Show the runs until the user quits, or return the page once.

    Raises:
        ConfigError: ``--every`` is not positive, a URL is invalid, or the port of ``--serve`` is taken.
        RemoteError: Remote storage cannot be read.
    """
    if not options.every > 0:
        raise ConfigError(f"--every got {options.every}: expected a positive number of seconds")
    if options.serve and options.once:
        raise ConfigError("--serve got --once: expected one of them")
    if options.port is not None and not (options.serve and 0 <= options.port < 1 << 16):
        raise ConfigError(f"--port got {options.port}: expected a port from 0 to 65535, and --serve")
    with run_directories(options.directories) as runs:
        if options.serve:
            _serve(runs, options.port or 0, options.every)
            return ""
        if options.once or not (sys.stdout.isatty() and sys.stdin.isatty()):
            width = shutil.get_terminal_size((100, 24)).columns
            return "".join(f"{line}\n" for line in page(runs.paths, width, _LINES_IF_NO_TERMINAL))
        with runs.followed(max(options.every, _FETCH_SECS)), _own_screen():
            _show(runs, options.every)
    return ""


def _serve(runs: RunDirectories, port: int, every_secs: float) -> None:
    """Answer browsers until Ctrl-C or SIGTERM."""
    labels = short_labels(runs.paths)
    handler = signal.signal(signal.SIGTERM, _interrupt)
    folders = RunFolders(list(zip(labels, runs.paths, strict=True)))
    try:
        with runs.followed(max(every_secs, _FETCH_SECS)), served(folders, port, every_secs) as server:
            sys.stdout.write(f"http://{server.server_name}:{server.server_port}/ shows the runs; Ctrl-C ends it\n")
            sys.stdout.flush()
            server.serve_forever()
    except KeyboardInterrupt:
        return
    finally:
        signal.signal(signal.SIGTERM, handler)


def page(directories: Sequence[str], width: int, height: int) -> list[str]:
    """Return the lines of the page.

    Args:
        directories: the runs, as absolute paths.
        width: the width of a line.
        height: the most lines.
    """
    lines = [_machine()]
    share = (height - 1) // len(directories)
    for label, directory in zip(short_labels(directories), directories, strict=True):
        lines += ["", *run_lines(label, directory, width, share - 1)]
    return [line[:width] for line in lines[:height]]


def _machine() -> str:
    """Return the load and memory of this machine."""
    memory = psutil.virtual_memory()
    used, total = (memory.total - memory.available) / 1e9, memory.total / 1e9
    load = os.getloadavg()[0]
    return f"this machine: load {load:.1f} on {os.cpu_count()} cores, memory {used:.1f} of {total:.1f} GB"


def _show(runs: RunDirectories, every_secs: float) -> None:
    """Draw until ``q`` is typed."""
    drawn_at, size = -every_secs, os.terminal_size((0, 0))
    while True:
        now, new_size = time.monotonic(), os.get_terminal_size(sys.stdout.fileno())
        if now - drawn_at >= every_secs or new_size != size:
            drawn_at, size = now, new_size
            errors = [error[: size.columns] for error in runs.errors()]
            lines = [*errors, *page(runs.paths, size.columns, size.lines - 1 - len(errors))]
            text = "".join(f"{line}{_REST_OF_LINE}\r\n" for line in lines)
            sys.stdout.write(f"{_TOP}{text}{_REST_OF_SCREEN}")
            sys.stdout.flush()
        typed = select.select([sys.stdin], [], [], _LOOK_SECS)[0]
        if typed and os.read(sys.stdin.fileno(), 64)[:1] in (b"q", b"Q", b""):
            return


@contextmanager
def _own_screen() -> Iterator[None]:
    """Use the terminal for a block and restore it; Ctrl-C and SIGTERM end the block cleanly."""
    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    handler = signal.signal(signal.SIGTERM, _interrupt)
    try:
        tty.setcbreak(descriptor)
        sys.stdout.write(_ENTER)
        yield
    except KeyboardInterrupt:
        return
    finally:
        sys.stdout.write(_LEAVE)
        sys.stdout.flush()
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
        signal.signal(signal.SIGTERM, handler)


def _interrupt(signum: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt
