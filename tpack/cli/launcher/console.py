"""Output of the processes of a job: on the terminal with the rank before each line, and in a file for each rank.

A thread of its own writes to the terminal, which may be stopped or read through a pager. Waiting output is limited:
beyond that the launcher reads none, and the processes wait too. A terminal has one progress bar for the whole
job, below all lines; the bars of the processes go to their files.
"""

import os
import queue
import sys
import threading
from collections import defaultdict, deque
from collections.abc import Mapping
from typing import IO, Any, TextIO

from tpack.cli.launcher.plan import Process
from tpack.utils.progress import job_bar

LAST_LINES = 20
_MOST_WAITING = 2000
_CLOSE_SECS = 5.0
# A process that is further behind than what it does in that time is named.
_BEHIND_SECS = 2.0


class Console:
    """Output of a job.

    Args:
        directory: that of the ranks' files; it exists.
        streams: in place of standard output and error.

    Attributes:
        directory: that of the files.
        shows_progress: whether there is a progress bar, which needs a terminal.
    """

    def __init__(self, directory: str, streams: tuple[TextIO, TextIO] | None = None) -> None:
        self.directory = directory
        output, errors = streams or (sys.stdout, sys.stderr)
        self.shows_progress = errors.isatty()
        self._screen = _Screen(output, errors)
        self._files: dict[int, IO[bytes]] = {}
        self._last: dict[int, deque[str]] = defaultdict(lambda: deque(maxlen=LAST_LINES))
        self._progress: dict[int, dict[str, Any]] = {}
        self._waiting: queue.Queue[tuple[int, Any] | None] = queue.Queue()
        self._writer = threading.Thread(target=self._write, name="console", daemon=True)
        self._writer.start()

    @property
    def is_full(self) -> bool:
        """Whether too much output waits for the terminal."""
        return self._waiting.qsize() > _MOST_WAITING

    def put(self, process: Process, stream: int, text: str) -> None:
        """Show a line of a process on stream 1 (output) or 2 (error), and write it to the file of the process."""
        line = text.encode("utf-8", "surrogateescape")
        self._file_of(process).write(line + b"\n")
        shown = line.decode("utf-8", "replace")
        self._last[process.rank].append(shown)
        self._waiting.put((stream, f"[{process.label}] {shown}\n"))

    def take_progress(self, process: Process, message: Mapping[str, Any]) -> None:
        """Show the progress of the job, and write the bar of a process to its file."""
        if "bar" in message:
            self._file_of(process).write(message["bar"].encode() + b"\n")
        elif process.is_worker:
            self._progress[process.rank] = message["progress"]
            self._waiting.put((_BAR, _job_progress(self._progress)))

    def say(self, text: str) -> None:
        """Show a message of the launcher itself."""
        self._waiting.put((2, f"tpack launch: {text}\n"))

    def begin(self, attempt: int) -> None:
        """Mark the beginning of another attempt in the files, and clear the last lines."""
        self._last.clear()
        self._progress.clear()
        for file in self._files.values():
            file.write(f"--- restart {attempt} ---\n".encode())

    def last_lines(self, process: Process) -> list[str]:
        """Return the last lines of a process."""
        return list(self._last[process.rank])

    def close(self) -> None:
        """Write the rest, with a short timeout for the terminal."""
        for file in self._files.values():
            file.close()
        self._waiting.put(None)
        self._writer.join(_CLOSE_SECS)

    def _file_of(self, process: Process) -> IO[bytes]:
        if process.rank not in self._files:
            name = f"rank{process.rank}.log"
            # Unbuffered, so that a reader of the file sees each line at once.
            self._files[process.rank] = open(os.path.join(self.directory, name), "ab", buffering=0)  # noqa: SIM115
        return self._files[process.rank]

    def _write(self) -> None:
        while (told := self._waiting.get()) is not None:
            number, what = told
            try:
                if number == _BAR:
                    self._screen.show_progress(*what)
                else:
                    self._screen.print(number, what)
                if self._waiting.empty():
                    self._screen.draw()
            except (OSError, ValueError):
                # The terminal is gone, or the pipe closed; the files have it all.
                continue
        self._screen.close()


# Beside the numbers of the two streams.
_BAR = 0


class _Screen:
    """Two streams that may be one terminal, with a bar below the lines."""

    def __init__(self, output: TextIO, errors: TextIO) -> None:
        self._streams = output, errors
        self._progress: tuple[dict[str, Any], str] | None = None
        self._drawn = ""

    def print(self, number: int, text: str) -> None:
        """Write a line above the bar."""
        self._wipe()
        stream: Any = self._streams[number - 1]
        stream.write(text.encode(stream.encoding or "utf-8", "replace").decode(stream.encoding or "utf-8"))
        stream.flush()

    def show_progress(self, progress: dict[str, Any], label: str) -> None:
        """Set the progress for the next drawing; the bar of a finished epoch stays."""
        if self._progress is not None and self._progress[0]["epoch"] != progress["epoch"]:
            self._keep()
        self._progress = progress, label

    def draw(self) -> None:
        """Draw the bar, if there is one."""
        if self._progress is None:
            return
        errors = self._streams[1]
        bar = job_bar(self._progress[0], _num_columns(errors), self._progress[1])
        bar = bar.encode(errors.encoding or "utf-8", "replace").decode(errors.encoding or "utf-8")
        errors.write("\r" + bar + " " * (len(self._drawn) - len(bar)))
        errors.flush()
        self._drawn = bar

    def close(self) -> None:
        """Leave the bar on the terminal."""
        try:
            self._keep()
        except (OSError, ValueError):
            # The terminal is gone.
            return

    def _keep(self) -> None:
        self.draw()
        if self._drawn:
            self._streams[1].write("\n")
            self._streams[1].flush()
        self._progress, self._drawn = None, ""

    def _wipe(self) -> None:
        if self._drawn:
            self._streams[1].write("\r" + " " * len(self._drawn) + "\r")
            self._streams[1].flush()
            self._drawn = ""


def _num_columns(terminal: TextIO) -> int:
    """Return the length of a line that does not wrap; some terminals report no size, or 0."""
    try:
        columns = os.get_terminal_size(terminal.fileno()).columns
    except (OSError, ValueError):
        columns = 0
    return (columns or 80) - 1


def _job_progress(told: dict[int, dict[str, Any]]) -> tuple[dict[str, Any], str]:
    """Return the progress of the job, that of its last worker, and a label that names a straggler."""

    def steps(rank: int) -> float:
        return float((told[rank]["epoch"] - 1) * told[rank]["steps"] + told[rank]["step"])

    last, first = min(told, key=steps), max(told, key=steps)
    progress = {**told[last], "values": told[min(told)]["values"]}
    is_behind = steps(first) - steps(last) > max(1.0, _BEHIND_SECS * told[first]["speed"])
    return progress, f", rank {last} is behind" if is_behind else ""
