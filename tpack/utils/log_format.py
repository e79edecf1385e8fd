"""What a log line looks like, on a terminal and in a file.

A line says when, where in the code, and what; warnings and errors carry a mark. On a terminal the frame of the line has
a colour, so that the message stands out; in a file and in a pipe there are no escape codes.
"""

import logging
import os
import sys

_GREEN, _YELLOW, _RED = "\033[32m", "\033[33m", "\033[31;1m"
_RESET = "\033[0m"


class LineFormatter(logging.Formatter):
    """Format a record as ``[month-day time @file:line] MARK message``."""

    def __init__(self, *, coloured: bool = False) -> None:
        """Make a formatter.

        Args:
            coloured: whether the frame and the mark get terminal colours.
        """
        super().__init__(datefmt="%m-%d %H:%M:%S")
        self._coloured = coloured

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 (logging's name)
        """Put frame, mark and message together; ``format`` adds the traceback."""
        frame = f"[{record.asctime} @{record.filename}:{record.lineno}]"
        mark, colour = _mark(record.levelno)
        if self._coloured:
            frame, mark = f"{_GREEN}{frame}{_RESET}", f"{colour}{mark}{_RESET}" if mark else ""
        return " ".join(part for part in (frame, mark, record.message) if part)

    def usesTime(self) -> bool:  # noqa: N802 (logging's name)
        """Tell ``format`` that ``asctime`` is wanted."""
        return True


class StderrHandler(logging.Handler):
    """Write each record to what ``sys.stderr`` is at that moment, in colours if that is a terminal.

    The stream is looked up for each record and not kept, so that redirection by a script or by pytest works.
    """

    def __init__(self) -> None:
        """Make the handler; nothing is written or opened."""
        super().__init__()
        self._formatters = {flag: LineFormatter(coloured=flag) for flag in (False, True)}

    def emit(self, record: logging.LogRecord) -> None:
        """Write one record; a stream that fails is reported the way the logging module does."""
        stream = sys.stderr
        if stream is None:
            return
        try:
            coloured = stream.isatty() and "NO_COLOR" not in os.environ
            stream.write(self._formatters[coloured].format(record) + "\n")
            stream.flush()
        except Exception:
            self.handleError(record)


def _mark(level: int) -> tuple[str, str]:
    """Return the mark of a level and its colour; ordinary messages have none."""
    if level >= logging.ERROR:
        return "ERR", _RED
    if level >= logging.WARNING:
        return "WRN", _YELLOW
    return ("DBG", _GREEN) if level <= logging.DEBUG else ("", "")
