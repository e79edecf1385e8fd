"""Ctrl-C and SIGTERM end training between two steps, where a checkpoint can still be saved.

Python raises KeyboardInterrupt between any two instructions, for example after the graph counted a step and before
Python did. So the first signal is only noted, and training asks for it after each step. The second one ends the
process at once.
"""

import signal
import threading
from types import FrameType
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interrupted(BaseException):
    """Training was asked to end by a signal; `Interruption.end_process` turns it into the right exit code."""


class Interruption:
    """Notes signals while its block runs. Only the main thread can receive them; elsewhere the block does nothing."""

    def __init__(self) -> None:
        self.signum: int | None = None
        self._previous: dict[int, Any] = {}

    def __enter__(self) -> "Interruption":
        if threading.current_thread() is threading.main_thread():
            for signum in SIGNALS:
                # A process that was told to ignore a signal, as nohup does, goes on ignoring it.
                if signal.getsignal(signum) != signal.SIG_IGN:
                    self._previous[signum] = signal.signal(signum, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        for signum, handler in self._previous.items():
            signal.signal(signum, handler)
        self._previous.clear()

    def check(self) -> None:
        """Raise `Interrupted` if a signal has come."""
        if self.signum is not None:
            raise Interrupted(signal.Signals(self.signum).name)

    def end_process(self) -> None:
        """Raise what ends the process with the exit code of the signal that came: 130 for Ctrl-C, 143 for SIGTERM."""
        if self.signum == signal.SIGINT:
            raise KeyboardInterrupt
        if self.signum is not None:
            raise SystemExit(128 + self.signum)

    def _note(self, signum: int, frame: FrameType | None) -> None:
        if self.signum is not None:
            self.end_process()
        self.signum = signum
