"""Output of the processes of a job: on the terminal with the rank before each line, and in a file for each rank.

The terminal is written to by a thread of its own. Somebody may have stopped it, or read it through a pager; the
launcher must hear signals and ends of processes all the same. What waits to be shown is limited: beyond that the
launcher reads no output, and the processes wait too.
"""

import os
import queue
import sys
import threading
from collections import defaultdict, deque
from typing import IO, Any, TextIO

from tpack.cli.launcher.plan import Process

LAST_LINES = 20
_MOST_WAITING = 2000
_CLOSE_SECS = 5.0


class Console:
    """Writes down what processes print.

    Args:
        directory: where the files of the ranks are; it exists.
        streams: what stands for standard output and error.
    """

    def __init__(self, directory: str, streams: tuple[TextIO, TextIO] | None = None) -> None:
        self.directory = directory
        self._streams = streams or (sys.stdout, sys.stderr)
        self._files: dict[int, IO[bytes]] = {}
        self._last: dict[int, deque[str]] = defaultdict(lambda: deque(maxlen=LAST_LINES))
        self._waiting: queue.Queue[tuple[int, str] | None] = queue.Queue()
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

    def say(self, text: str) -> None:
        """Show something that the launcher itself says."""
        self._waiting.put((2, f"tpack launch: {text}\n"))

    def begin(self, attempt: int) -> None:
        """Mark the beginning of another attempt in the files, and forget the last lines of the one before."""
        self._last.clear()
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
            number, text = told
            stream: Any = self._streams[number - 1]
            try:
                stream.write(text.encode(stream.encoding or "utf-8", "replace").decode(stream.encoding or "utf-8"))
                stream.flush()
            except (OSError, ValueError):
                # The terminal is gone, or the pipe closed; the files have it all.
                continue
