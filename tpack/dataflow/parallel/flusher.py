"""A thread that sends what is held back: nothing waits for more than a moment to share a message with others."""

import contextlib
import threading
from collections.abc import Callable

from tpack.dataflow.parallel.transport.wire import PeerGoneError

HOLD_SECS = 0.0005
"""How long a small data point may be held back."""


class Flusher:
    """Sends what was held back for a moment. The thread begins when it is first needed."""

    def __init__(self, flush: Callable[[], None]) -> None:
        """Begin with nothing held back.

        Args:
            flush: sends what is held back, if there is something.
        """
        self._flush = flush
        # Whether it will flush in a moment.
        self.is_expected = False
        self._due = threading.Event()
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None

    def expect(self) -> None:
        """Flush in a moment."""
        if self.is_expected:
            return
        self.is_expected = True
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="tpack-flusher", daemon=True)
            self._thread.start()
        self._due.set()

    def stop(self) -> None:
        """Let the thread end."""
        self._stopped.set()
        self._due.set()

    def _run(self) -> None:
        # That the other process is gone, the thread that puts the next point will find too.
        with contextlib.suppress(PeerGoneError):
            while True:
                self._due.wait()
                self._due.clear()
                if self._stopped.wait(HOLD_SECS):
                    return
                self.is_expected = False
                self._flush()
