"""Progress bars with settings for training runs.

On a terminal and in a notebook a bar is redrawn twice a second; in a file or pipe each drawing is a line, once a
minute. A launcher with one bar for all processes of a job passes each a pipe, a `LauncherLine`, in the variable
`LINE_VARIABLE`, for its progress and its own bars. Data that the launcher does not read in time are dropped.
"""

import functools
import importlib
import importlib.util
import json
import os
import re
import stat
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tpack.errors import ConfigError
from tpack.utils.logger import in_notebook

if TYPE_CHECKING:
    from tqdm import tqdm

__all__ = ["get_tqdm", "get_tqdm_kwargs"]

LINE_VARIABLE = "TPACK_LAUNCH_PROGRESS"
"""The descriptor of the line to the launcher, and the number of its pipe: descriptors of that number may be others.

``:quiet`` after them means that the launcher shows no bar.
"""

FIRST_STEP = "first step"
"""The last phase of the start of a process."""

_QUIET = ":quiet"

JOB_REFRESH_SECS = 0.5
"""How often a process tells its launcher how far it is."""

# What a pipe takes in one piece or not at all is 4,096 bytes; a letter is up to six.
_LONGEST_BAR = 600

# As tqdm's own, but always with steps a second, also below one.
_BAR = "{l_bar}{bar}| {n_fmt}/{total_fmt} [{elapsed}<{remaining}, {rate_noinv_fmt}{postfix}]"


def get_tqdm_kwargs(**kwargs: Any) -> dict[str, Any]:
    """Return arguments for ``tqdm.tqdm``, the given ones over the defaults.

    ``TPACK_PROGRESS_REFRESH``, read on each call, sets the seconds between drawings.

    Raises:
        ConfigError: The environment variable is not a positive number.
    """
    line = launcher_line()
    shown_in = sys.stdout if in_notebook() else None
    stream = kwargs.get("file") or line or shown_in or sys.stderr
    is_redrawn = stream is not None and (stream is shown_in or stream.isatty())
    interval = _refresh_secs(0.5 if is_redrawn else 60.0)
    defaults = {
        "dynamic_ncols": True,
        "bar_format": _BAR,
        "mininterval": interval,
        "maxinterval": max(10.0, interval),
        **({} if (line or shown_in) is None else {"file": line or shown_in}),
    }
    return {**defaults, **kwargs}


def get_tqdm(*args: Any, **kwargs: Any) -> "tqdm":
    """Make a progress bar of ``tqdm``, or of notebooks, with the settings of ``get_tqdm_kwargs``."""
    settings = get_tqdm_kwargs(**kwargs)
    # Without ipywidgets tqdm would warn, and draw on standard error.
    has_widgets = settings.get("file") is sys.stdout and in_notebook() and importlib.util.find_spec("ipywidgets")
    # Slow to import, and many processes never draw a bar.
    bar: tqdm = importlib.import_module("tqdm.notebook" if has_widgets else "tqdm").tqdm(*args, **settings)
    return bar


class LauncherLine:
    """A pipe to a launcher with one bar for all processes; for ``tqdm``, a file.

    Args:
        descriptor: of the pipe, which does not block.
    """

    encoding = "utf-8"

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def tell(self, progress: Mapping[str, Any]) -> None:
        """Send the progress of this process.

        Args:
            progress: ``epoch`` of ``epochs``, ``step`` of ``steps``, the epoch's ``secs``, the ``speed`` in steps per
                second, and ``values``: {name: text}.
        """
        self._send({"progress": dict(progress)})

    def report_phase(self, name: str) -> None:
        """Send the end of a phase of the start of this process, such as ``graph``."""
        self._send({"phase": name})

    def report_position(self, epoch_num: int, global_step: int) -> None:
        """Send the epoch of this process, and its finished steps in all."""
        self._send({"at": [epoch_num, global_step]})

    def write(self, text: str) -> None:
        """Send a drawing of a bar, without line ends and clearing."""
        if drawn := text.strip():
            self._send({"bar": drawn[:_LONGEST_BAR]})

    def flush(self) -> None:
        """Do nothing: drawings are sent at once."""

    def isatty(self) -> bool:
        """Return False: each drawing is a line."""
        return False

    def _send(self, message: Mapping[str, Any]) -> None:
        try:
            os.write(self._descriptor, json.dumps(message).encode() + b"\n")
        except (BlockingIOError, BrokenPipeError):
            # The launcher is busy, or gone.
            return


def launcher_line() -> LauncherLine | None:
    """Return the pipe to a launcher with one bar for all processes, if any."""
    return None if os.environ.get(LINE_VARIABLE, "").endswith(_QUIET) else any_launcher_line()


def report_phase(name: str) -> None:
    """Report the end of a phase of the start of this process, such as ``graph``, to its launcher, if any."""
    line = any_launcher_line()
    if line is not None:
        line.report_phase(name)


def any_launcher_line() -> LauncherLine | None:
    """Return the pipe to a launcher, if any, whether it shows a bar or not."""
    found = re.fullmatch(rf"(\d+):(\d+)({_QUIET})?", os.environ.get(LINE_VARIABLE, ""), re.ASCII)
    return None if found is None else _line(int(found[1]), int(found[2]))


@functools.lru_cache(maxsize=1)
def _line(descriptor: int, inode: int) -> LauncherLine | None:
    try:
        status = os.fstat(descriptor)
    except OSError:
        return None
    # Other programs may inherit the variable without the pipe.
    return LauncherLine(descriptor) if stat.S_ISFIFO(status.st_mode) and status.st_ino == inode else None


def open_launcher_line() -> tuple[int, int]:
    """Make a pipe in the launcher, that does not block: its read end, and its write end for the process."""
    read_end, write_end = os.pipe()
    os.set_blocking(read_end, False)
    os.set_blocking(write_end, False)
    return read_end, write_end


def line_of(descriptor: int, *, shows_bar: bool) -> dict[str, str]:
    """Return {`LINE_VARIABLE`: value} for a process that has the write end of a line as this descriptor."""
    return {LINE_VARIABLE: f"{descriptor}:{os.fstat(descriptor).st_ino}{'' if shows_bar else _QUIET}"}


def job_bar(progress: Mapping[str, Any], num_columns: int, label: str = "") -> str:
    """Return the bar of a job from the progress of `LauncherLine.tell`.

    Args:
        progress: the progress.
        num_columns: the largest length.
        label: text after the epoch.
    """
    values = [f"{name}={value}" for name, value in progress["values"].items()]
    text: str = importlib.import_module("tqdm").tqdm.format_meter(
        n=progress["step"],
        total=progress["steps"],
        elapsed=progress["secs"],
        rate=progress["speed"] or None,
        ncols=num_columns,
        prefix=f"epoch {progress['epoch']}/{progress['epochs']}{label}",
        postfix=", ".join(values),
        bar_format=_BAR,
    )
    return text[:num_columns]


def _refresh_secs(default: float) -> float:
    """Return the seconds between drawings."""
    text = os.environ.get("TPACK_PROGRESS_REFRESH")
    if text is None:
        return default
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not seconds > 0:
        raise ConfigError(f"TPACK_PROGRESS_REFRESH={text!r}: expected a positive number of seconds")
    return seconds
