"""Standard error without what TensorFlow tells of itself there, from C++, before anybody could ask it not to."""

import os
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_STANDARD_ERROR = 2
# A level, then a date: as absl and the log of TensorFlow begin a line; and the lines that belong to such ones.
_TOLD_BY_TENSORFLOW = re.compile(
    rb"[IWE]\d{4} \d\d:|[IWE]0000 00:00:|\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+: [IWE] "
    rb"|WARNING: All log messages before absl::InitializeLog|To enable the following instructions:"
)


@contextmanager
def without_lines_of_tensorflow() -> Iterator[None]:
    """Leave out of this process's and its children's standard error the lines that TensorFlow's C++ code logs.

    Fatal ones stay. What fails comes as an exception, and is told by who calls.
    """
    original = os.dup(_STANDARD_ERROR)
    reading, writing = os.pipe()
    os.dup2(writing, _STANDARD_ERROR)
    os.close(writing)
    thread = threading.Thread(target=_pass_on, args=(reading, original), name="tpack-quiet", daemon=True)
    thread.start()
    try:
        yield
    finally:
        os.dup2(original, _STANDARD_ERROR)
        # A child that is left may keep its end open for ever.
        thread.join(1.0)
        if not thread.is_alive():
            os.close(original)


def _pass_on(reading: int, original: int) -> None:
    with open(reading, "rb") as lines:
        for line in lines:
            if not _TOLD_BY_TENSORFLOW.match(line):
                os.write(original, line)
