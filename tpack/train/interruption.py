"""End of training by Ctrl-C and SIGTERM, between two steps so that it can be saved, and within a timeout.

Python raises KeyboardInterrupt between any two instructions, for example after the graph counted a step and before
Python did. So the first signal is only noted, and training checks it after each step. A step whose run has not begun is
left out.

The main thread may take too long or hang: a step waits for data inside TensorFlow, where Python handles no signal, a
callback evaluates the model, a disk hangs. So a thread reads the signals too, from a socket that Python's C code writes
into, and after the first one follows a schedule:

- at once, a run of several steps is asked to end after the current one.
- after `LET_GO_SECS`, waits for data are cancelled with the session still open, and a callback that runs Python code is
  interrupted. The trained variables are then saved.
- after `CLOSE_SECS`, the session is closed, so that its runs return. Nothing more is saved.
- after `END_SECS`, the process exits. Checkpoints and statistics are written aside and renamed, so files are whole.

A second signal ends the process within `HURRY_SECS`. These timeouts hold however training has ended, except after
Ctrl-C, whose KeyboardInterrupt a program may catch to continue; and Ctrl-C never ends an interactive interpreter. A
timer of the system ends a process in which Python's lock is held. Only a signal that arrives when the lock is held
already is lost.

Another thread can end training with an error by the same means.
"""

import functools
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

from tpack.errors import Interrupted
from tpack.utils import logger
from tpack.utils.process_exit import ExitTimer, exit_now

SIGNALS = (signal.SIGINT, signal.SIGTERM)

LET_GO_SECS = 5.0
"""The time after a signal until a step or callback is interrupted."""

CLOSE_SECS = 15.0
"""The time after a signal until the session is closed."""

END_SECS = 24.0
"""The time after a signal until the process exits; job schedulers usually kill after 30 seconds."""

HURRY_SECS = 0.6
"""The time after a second signal until the process exits, not counting a fraction of a second for its last lines."""

UNWIND_SECS = 5.0
"""The time that a step cancelled by another thread has to return before a signal interrupts it."""

_TIMER_LATER_SECS = 0.4
"""The delay of the system's timer after Python's."""


_OPEN: list["Interruption"] = []
"""The objects whose block runs in the main thread, the innermost last."""


class Interruption:
    """Block that notes signals; outside of the main thread, which alone receives them, it notes none.

    A handler that the program had set is called before the signal is noted. The error of a cancelled step is logged and
    not raised.

    Args:
        break_off: called from another thread; makes all runs of the session return.
        let_go: called from another thread, at most once; makes a run that waits for data return, and leaves the session
            open.
        may_raise: returns, in the main thread, whether `Interrupted` may be raised where it is.
        ask_to_end: called from another thread right after the first signal, while training runs.
        let_go_secs: the time after a signal until ``let_go``, less than `CLOSE_SECS`; None for `LET_GO_SECS`.

    Attributes:
        signum: the first signal, or None.
        broke_off: whether a wait or run was cancelled for a signal.
        error: the error with which another thread ends training, or None.
    """

    def __init__(
        self,
        break_off: Callable[[], None],
        *,
        let_go: Callable[[], None] = lambda: None,
        may_raise: Callable[["Interruption"], bool] = lambda interruption: interruption.is_late,
        ask_to_end: Callable[[], None] = lambda: None,
        let_go_secs: float | None = None,
    ) -> None:
        self._let_go_secs = let_go_secs
        self.signum: int | None = None
        self.broke_off = False
        self.error: Exception | None = None
        self._break_off = break_off
        self._let_go = let_go
        self._may_raise = may_raise
        self._ask_to_end = ask_to_end
        self._lock = threading.Lock()
        self._left = threading.Event()
        self._num_sent = 0
        self._num_to_skip = 0
        self._num_held = 0
        self._previous: dict[int, Any] = {}
        self._previous_fd = -1
        self._sockets: tuple[socket.socket, ...] = ()
        self._watcher: threading.Thread | None = None
        self._end: _End | None = None

    def __enter__(self) -> "Interruption":
        if threading.current_thread() is threading.main_thread():
            self._sockets = socket.socketpair()
            self._sockets[1].setblocking(False)
            self._watcher = threading.Thread(target=self._watch, args=self._sockets[:1], name="signals", daemon=True)
            self._watcher.start()
            _watch_forks()
            _OPEN.append(self)
            self._previous_fd = signal.set_wakeup_fd(self._sockets[1].fileno(), warn_on_full_buffer=False)
            for signum in SIGNALS:
                # A process that ignores a signal, as nohup sets it, keeps ignoring it.
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
            logger.error("Training was interrupted. Its last error was:", exc_info=error)
        return self.broke_off

    def _restore_handlers(self) -> None:
        if self._watcher is None:
            return
        self.hand_back()
        if self.signum == signal.SIGTERM:
            # The process ends soon: the kernel handles the next signal, which Python would only note.
            for signum, handler in self._previous.items():
                if handler in (signal.SIG_DFL, signal.default_int_handler):
                    signal.signal(signum, signal.SIG_DFL)
        _OPEN.remove(self)
        # The watcher ends when all other ends are closed; processes that were forked meanwhile have copies, and a data
        # loader's workers may outlive training.
        self._sockets[1].shutdown(socket.SHUT_RDWR)
        self._sockets[1].close()
        self._watcher.join()
        self._sockets[0].close()
        if self._end is not None and self.signum == signal.SIGINT:
            self._end.cancel()

    def hand_back(self) -> None:
        """Restore the previous signal handlers."""
        for signum, handler in self._previous.items():
            signal.signal(signum, handler)
        signal.set_wakeup_fd(self._previous_fd)

    @property
    def is_late(self) -> bool:
        """Whether the time for an undisturbed end after a signal is over."""
        return self.broke_off

    def check(self) -> None:
        """Raise `Interrupted` if a signal arrived."""
        if self.signum is not None:
            raise Interrupted(signal.Signals(self.signum).name)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Keep `Interrupted` from being raised inside an atomic block."""
        self._num_held += 1
        try:
            yield
        finally:
            self._num_held -= 1
        if not self._num_held and not self._left.is_set() and self.is_late:
            self.check()

    def leave(self) -> None:
        """Mark the end of the last step: from now on `fail` does nothing, and no wait is cancelled."""
        self._left.set()
        # A thread that was sending a signal has sent it when this is passed, and `_note` ignores it.
        with self._lock:
            pass

    def wait_until_left(self, timeout_secs: float) -> bool:
        """Wait for the end of the last step; return whether it has ended."""
        return self._left.wait(timeout_secs)

    def fail(self, error: Exception) -> None:
        """Raise ``error`` in a step that does not return; called from another thread, and effective once.

        ``break_off`` makes a step that waits in TensorFlow return; a signal, whose handler raises the error, interrupts
        one that waits in Python.
        """
        with self._lock:
            if self.error is not None or self._left.is_set():
                return
            self.error = error
        self._break_off()
        if not self._left.wait(UNWIND_SECS):
            self._wake_main_thread()

    def end_process(self) -> None:
        """Raise the exit for the signal that arrived, if any: code 130 for Ctrl-C, 143 for SIGTERM."""
        if self.signum == signal.SIGINT:
            raise KeyboardInterrupt
        if self.signum is not None:
            raise SystemExit(128 + self.signum)

    # In the main thread.

    def _note(self, signum: int, frame: FrameType | None) -> None:
        if self._num_sent:
            self._num_sent -= 1
            self._raise_if_waiting()
            return
        previous = self._previous.get(signum)
        if callable(previous) and previous is not signal.default_int_handler:
            previous(signum, frame)
        if self.signum is not None:
            self.end_process()
        self.signum = signum
        self._raise_if_waiting()

    def _raise_if_waiting(self) -> None:
        """Raise the error or signal that ends training, unless the interrupted code is atomic."""
        if self._left.is_set() or self._num_held:
            return
        if self.error is not None:
            raise self.error
        if self.signum is not None and self._may_raise(self):
            self.check()

    # In other threads.

    def _wake_main_thread(self) -> None:
        """Interrupt Python code in the main thread by a signal."""
        with self._lock:
            if self._previous and not self._left.is_set():
                self._num_sent += 1
                self._num_to_skip += 1
                signal.pthread_kill(int(threading.main_thread().ident or 0), next(iter(self._previous)))

    def _watch(self, receiver: socket.socket) -> None:
        """Read the arriving signals, a byte each, and run the schedule after the first."""
        steps: list[tuple[float, Callable[[], None]]] = []
        while True:
            receiver.settimeout(max(steps[0][0] - time.monotonic(), 1e-3) if steps else None)
            try:
                received = receiver.recv(1)
            except TimeoutError:
                # In a thread of its own, since closing something can hang, too.
                threading.Thread(target=steps.pop(0)[1], name="breaks off training", daemon=True).start()
                continue
            if not received:
                return
            signum = received[0]
            if signum not in self._previous:
                _pass_on(received, self._previous_fd)
            elif self._num_to_skip:
                self._num_to_skip -= 1
            elif self._end is None:
                steps = self._begin_end(signum)
            else:
                self._end.hurry(signum)

    def _begin_end(self, signum: int) -> list[tuple[float, Callable[[], None]]]:
        """Handle the first signal; return the later actions with their times."""
        now = time.monotonic()
        self._end = _End(signum)
        name = signal.Signals(signum).name
        logger.warning(f"{name}: training ends when the step does. Once more ends it at once.")
        return [
            (now, self._ask_to_end),
            (now + self._secs_to_wait, self._let_go_what_waits),
            (now + CLOSE_SECS, self._close),
        ]

    @property
    def _secs_to_wait(self) -> float:
        return LET_GO_SECS if self._let_go_secs is None else self._let_go_secs

    def _let_go_what_waits(self) -> None:
        if self._left.is_set():
            return
        logger.warning(
            f"Training did not end within {self._secs_to_wait:.0f} seconds: what it waits for is broken off."
        )
        self.broke_off = True
        self._let_go()
        self._wake_main_thread()

    def _close(self) -> None:
        if not self._left.is_set():
            logger.warning(f"Training did not end within {CLOSE_SECS:.0f} seconds: its session is closed.")
            self.broke_off = True
            self._break_off()


@contextmanager
def ended_by_signals(break_off: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Let a signal end a block before the first step, within a timeout; for ``break_off`` see `Interruption`.

    Python's own exception can be lost: in ``__del__``, or in a function that C code calls, it is printed and ignored.

    Raises:
        KeyboardInterrupt: Ctrl-C.
        SystemExit: SIGTERM; the exit code is 143.
    """
    interruption = Interruption(break_off, may_raise=lambda interruption: True)
    with interruption, suppress(Interrupted):
        yield
    interruption.end_process()


class _End:
    """Forced exit of the process where the orderly end takes too long after a signal."""

    def __init__(self, signum: int) -> None:
        self._cancelled = threading.Event()
        self._hurries = False
        self._timers: list[ExitTimer] = []
        self._exit_after(END_SECS, signum)

    def hurry(self, signum: int) -> None:
        """Exit soon, whatever happens."""
        self._hurries = True
        self._exit_after(HURRY_SECS, signum)

    def cancel(self) -> None:
        """Cancel the exit, unless `hurry` was called."""
        if self._hurries:
            return
        self._cancelled.set()
        for timer in self._timers:
            timer.cancel()

    def _exit_after(self, secs: float, signum: int) -> None:
        is_interactive = hasattr(sys, "ps1") or bool(sys.flags.interactive) or "ipykernel" in sys.modules
        if signum == signal.SIGINT and is_interactive:
            return
        code = 128 + signum
        self._timers.append(ExitTimer(secs + _TIMER_LATER_SECS, code))
        threading.Thread(target=self._wait_and_exit, args=(secs, code), name="ends the process", daemon=True).start()

    def _wait_and_exit(self, secs: float, code: int) -> None:
        if not self._cancelled.wait(secs):
            exit_now(code, f"The process did not end within {secs:g} seconds after a signal. It is ended as it is.")


def _pass_on(received: bytes, descriptor: int) -> None:
    """Pass on another signal to the previous wakeup descriptor."""
    if descriptor != -1:
        with socket.socket(fileno=descriptor) as other:
            try:
                other.send(received)
            finally:
                other.detach()


@functools.cache
def _watch_forks() -> None:
    """Restore the handlers in forked processes, which would write into this process's socket."""
    os.register_at_fork(after_in_child=_hand_back_in_fork)


def _hand_back_in_fork() -> None:
    for interruption in reversed(_OPEN):
        interruption.hand_back()
    _OPEN.clear()
