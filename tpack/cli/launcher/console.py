"""Output of the processes of a job: on the terminal with the rank before each line, and in a file for each rank.

The terminal is written to by a thread of its own. Somebody may have stopped it, or read it through a pager; the
launcher must hear signals and ends of processes all the same. What waits to be shown is limited: beyond that the
launcher reads no output, and the processes wait too.

A terminal has one progress bar for the whole job, below all lines. The bars of the processes go into their files.
"""

import json
import os
import queue
import sys
import threading
from collections import defaultdict, deque
from typing import IO, Any, TextIO

from tpack.cli.launcher.plan import Process
from tpack.utils.progress import job_bar

LAST_LINES = 20
_MOST_WAITING = 2000
_CLOSE_SECS = 5.0
# A process that is further behind than what it does in that time is named.
_BEHIND_SECS = 2.0


class Console:
    """Writes down what processes print.

    Args:
        directory: where the files of the ranks are; it exists.
        streams: what stands for standard output and error.

    Attributes:
        directory: where the files are.
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
        """Whether the terminal does not take what is there already."""
        return self._waiting.qsize() > _MOST_WAITING

    def put(self, process: Process, stream: int, text: str) -> None:
        """Show a line of a process, and write it into its file.

        Args:
            process: whose it is.
            stream: 1 for its standard output, 2 for its standard error.
            text: the line; bytes that are no text are as `surrogateescape` has them.
        """
        line = text.encode("utf-8", "surrogateescape")
        self._file_of(process).write(line + b"\n")
        shown = line.decode("utf-8", "replace")
        self._last[process.rank].append(shown)
        self._waiting.put((stream, f"[{process.label}] {shown}\n"))

    def take_progress(self, process: Process, text: str) -> None:
        """Show how far a job is, and write a bar of a process into its file.

        Args:
            process: whose word it is.
            text: what it sent by its `tpack.utils.progress.LauncherLine`.
        """
        told = json.loads(text)
        if "bar" in told:
            self._file_of(process).write(told["bar"].encode() + b"\n")
        elif process.is_worker:
            self._progress[process.rank] = told["progress"]
            self._waiting.put((_BAR, _job_progress(self._progress)))

    def say(self, text: str) -> None:
        """Show something that the launcher itself says."""
        self._waiting.put((2, f"tpack launch: {text}\n"))

    def begin(self, attempt: int) -> None:
        """Mark the beginning of another attempt in the files, and forget the last lines of the one before."""
        self._last.clear()
        self._progress.clear()
        for file in self._files.values():
            file.write(f"--- restart {attempt} ---\n".encode())

    def last_lines(self, process: Process) -> list[str]:
        """Return what a process printed last."""
        return list(self._last[process.rank])

    def close(self) -> None:
        """Write what is left, without waiting long for a terminal that takes nothing."""
        for file in self._files.values():
            file.close()
        self._waiting.put(None)
        self._writer.join(_CLOSE_SECS)

    def _file_of(self, process: Process) -> IO[bytes]:
        if process.rank not in self._files:
            name = f"rank{process.rank}.log"
            # Line by line would be slow; what a reader sees late is on the terminal at once.
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
    """Two streams that may be one terminal, with a bar below the lines.

    Args:
        output: standard output.
        errors: standard error, which the bar is on.
    """

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
        """Show how far the job is, from the next drawing on; the bar of an epoch that is over stays where it is."""
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
        """Leave the bar as it is."""
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
    """Return how long a line may be that does not wrap; some terminals do not know their size, or say that it is 0."""
    try:
        columns = os.get_terminal_size(terminal.fileno()).columns
    except (OSError, ValueError):
        columns = 0
    return (columns or 80) - 1


def _job_progress(told: dict[int, dict[str, Any]]) -> tuple[dict[str, Any], str]:
    """Return how far a job is, as far as its last worker, and a label that names one which is behind the others.

    Args:
        told: {rank: what it told}; the first has the values that are shown.
    """

    def steps(rank: int) -> float:
        return float((told[rank]["epoch"] - 1) * told[rank]["steps"] + told[rank]["step"])

    last, first = min(told, key=steps), max(told, key=steps)
    progress = {**told[last], "values": told[min(told)]["values"]}
    is_behind = steps(first) - steps(last) > max(1.0, _BEHIND_SECS * told[first]["speed"])
    return progress, f", rank {last} is behind" if is_behind else ""
