"""What tpack logs during a test, as plain messages."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from tpack.utils import logger


class _ListHandler(logging.Handler):
    def __init__(self, lines: list[str]) -> None:
        super().__init__()
        self._lines = lines

    def emit(self, record: logging.LogRecord) -> None:
        self._lines.append(record.getMessage())


@contextmanager
def captured_log() -> Iterator[list[str]]:
    """Give a list that every message logged inside the block is appended to."""
    lines: list[str] = []
    handler = _ListHandler(lines)
    logger.debug("tpack's own handler is attached before the test's")
    logging.getLogger("tpack").addHandler(handler)
    try:
        yield lines
    finally:
        logging.getLogger("tpack").removeHandler(handler)
