"""Another process that writes to a directory, as a second run would find it."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.helpers.source import ROOT

_HOLD = """
import os, sys
from tpack.utils.dir_lock import DirectoryClaim
claim = DirectoryClaim(sys.argv[1])
if "fork" not in sys.argv:
    print(1, flush=True)
elif not os.fork():
    print(os.getpid(), flush=True)
sys.stdin.read()
"""


def start_claiming(directory: Path, *arguments: str) -> "subprocess.Popen[str]":
    """Start a process that claims a directory, prints a line, and waits; with ``fork``, so does a child of it.

    The line is the number of the child, if there is one, which writes it once it runs code of its own.
    """
    pipe = subprocess.PIPE
    command = [sys.executable, "-c", _HOLD, str(directory), *arguments]
    return subprocess.Popen(command, cwd=ROOT, stdin=pipe, stdout=pipe, stderr=pipe, text=True)


@contextmanager
def claimed_elsewhere(directory: Any) -> Iterator[int]:
    """Let another process claim a directory for a block; give its number."""
    process = start_claiming(directory)
    try:
        assert process.stdout
        assert process.stdout.readline() == "1\n"
        yield process.pid
    finally:
        process.kill()
        process.communicate()
