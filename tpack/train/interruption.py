"""Ctrl-C and SIGTERM end training between two steps, where a checkpoint can still be saved.

Python raises KeyboardInterrupt between any two instructions, for example after the graph counted a step and before
Python did. So the first signal is only noted, and training asks for it after each step. The second one ends the process
at once.

A step that waits inside TensorFlow, for data that never come, keeps Python from noting anything. So a thread watches
for signals too, and breaks off a step that does not return in time. The same serves another thread of the program that
wants training to end with an error.
"""

import signal
import socket
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

from tpack.utils import logger

SIGNALS = (signal.SIGINT, signal.SIGTERM)

GRACE_SECS = 20.0
"""How long after a signal a step may still take; job schedulers usually kill after 30 seconds."""


UNWIND_SECS = 5.0
"""How long a step that was broken off may take to return before it is interrupted by a signal."""


_NOTED = b"\0"


class Interrupted(BaseException):
    """Training was asked to end by a signal; `Interruption.end_process` turns it into the right exit code."""


class Interruption:
    """Notes signals while its block runs. Only the main thread can receive them; elsewhere it notes none.

    What a step that was broken off raises is logged and goes no further.

    Args:
        break_off: called from another thread, once, when a step does not return after a signal, or a second signal
            comes while it does not; must make it return.
        grace_secs: how long after the signal.

    Attributes:
        signum: the signal that came, or None.
        broke_off: whether ``break_off`` was called for a signal.
        error: what another thread wants training to end with, or None.
    """

    def __init__(self, break_off: Callable[[], None], *, grace_secs: float = GRACE_SECS) -> None:
        self.signum: int | None = None
        self.broke_off = False
        self.error: Exception | None = None
        self._lock = threading.Lock()
        self._left = threading.Event()
        self._sent_signal = False
        self._break_off = break_off
        self._grace_secs = grace_secs
        self._noted = threading.Event()
        self._previous: dict[int, Any] = {}
        self._previous_fd = -1
        self._sockets: tuple[socket.socket, ...] = ()
        self._watcher: threading.Thread | None = None

    def __enter__(self) -> "Interruption":
        if threading.current_thread() is threading.main_thread():
            self._sockets = socket.socketpair()
            self._sockets[1].setblocking(False)
            self._watcher = threading.Thread(target=self._watch, args=self._sockets[:1], daemon=True)
            self._watcher.start()
            self._previous_fd = signal.set_wakeup_fd(self._sockets[1].fileno(), warn_on_full_buffer=False)
            for signum in SIGNALS:
                # A process that was told to ignore a signal, as nohup does, goes on ignoring it.
                if signal.getsignal(signum) != signal.SIG_IGN:
                    self._previous[signum] = signal.signal(signum, self._note)
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> bool:
        self.leave()
        self._restore_handlers()
        if error is not None and not isinstance(error, Exception):
            return False
        if self.error not in (None, error):
            raise self.error from error
        if self.broke_off and error is not None:
            logger.error("A step was broken off, so its end was not saved. This is what it said:", exc_info=error)
        return self.broke_off

    def _restore_handlers(self) -> None:
        if self._watcher is None:
            return
        for signum, handler in self._previous.items():
            signal.signal(signum, handler)
        self._previous.clear()
        signal.set_wakeup_fd(self._previous_fd)
        self._noted.set()
        # The watcher ends when nobody is at the other end any more.
        self._sockets[1].close()
        self._watcher.join()
        self._sockets[0].close()

    def check(self) -> None:
        """Raise `Interrupted` if a signal has come."""
        if self.signum is not None:
            raise Interrupted(signal.Signals(self.signum).name)

    def leave(self) -> None:
        """Say that the last step has ended, however it did: from now on `fail` does nothing."""
        self._left.set()
        # Whoever is about to send a signal has sent it when this is passed, and `_note` lets it be.
        with self._lock:
            pass

    def wait_until_left(self, timeout_secs: float) -> bool:
        """Wait until the last step has ended, however it did; return whether it has."""
        return self._left.wait(timeout_secs)

    def fail(self, error: Exception) -> None:
        """Have a step that does not return raise ``error``; called from another thread.

        ``break_off`` is called, so that a step that waits in TensorFlow returns. One that does not return even so waits
        in Python: it is interrupted by a signal, whose handler raises the error. Only the first call does anything.

        Args:
            error: is in `error` from now on.
        """
        with self._lock:
            if self.error is not None or self._left.is_set():
                return
            self.error = error
        self._break_off()
        if self._left.wait(UNWIND_SECS):
            return
        with self._lock:
            if self._previous and not self._left.is_set():
                # The watcher need not act on this signal.
                self._noted.set()
                self._sent_signal = True
                signal.pthread_kill(int(threading.main_thread().ident or 0), next(iter(self._previous)))

    def end_process(self) -> None:
        """Raise what ends the process with the exit code of the signal that came: 130 for Ctrl-C, 143 for SIGTERM."""
        if self.signum == signal.SIGINT:
            raise KeyboardInterrupt
        if self.signum is not None:
            raise SystemExit(128 + self.signum)

    def _note(self, signum: int, frame: FrameType | None) -> None:
        if self._sent_signal:
            self._sent_signal = False
            if self.error is not None and not self._left.is_set():
                raise self.error
            return
        if self.signum is not None:
            self.end_process()
        self.signum = signum
        self._noted.set()
        self._sockets[1].send(_NOTED)

    def _watch(self, receiver: socket.socket) -> None:
        """Read the signals that came, a byte each, and see that the main thread notes the first."""
        while received := receiver.recv(1):
            if received != _NOTED and not self._noted.is_set():
                name = signal.Signals(received[0]).name
                logger.warning(f"{name}: training ends when the step does. Once more ends it at once.")
                self._wait_until_noted(receiver)

    def _wait_until_noted(self, receiver: socket.socket) -> None:
        receiver.settimeout(self._grace_secs)
        try:
            receiver.recv(1)
        except TimeoutError:
            logger.warning(f"The step did not end within {self._grace_secs:.0f} seconds and is broken off.")
        receiver.settimeout(None)
        if not self._noted.is_set():
            self.broke_off = True
            self._break_off()
