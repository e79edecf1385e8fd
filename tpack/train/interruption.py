"""Ctrl-C and SIGTERM end training between two steps, where a checkpoint can still be saved, and in any case in time.

Python raises KeyboardInterrupt between any two instructions, for example after the graph counted a step and before
Python did. So the first signal is only noted, and training asks for it after each step. A step whose run has not begun
is not begun any more.

What the main thread does may take longer than there is time, or not end at all: a step waits for data inside of
TensorFlow, where Python notes nothing, a callback evaluates the model, a disk hangs. So a thread reads the signals too,
which Python's C code writes into a socket as they come, and after the first one goes on by the clock:

- at once, a run of several steps is asked to end after the one that is being made.
- after `LET_GO_SECS`, whoever waits for data is let go, with the session still open; a callback that runs Python code
  is interrupted. What had been trained is then saved.
- after `CLOSE_SECS`, the session is closed, so that whatever runs in it returns. The checkpoints before are the last.
- after `END_SECS`, the process is ended as it is. Checkpoints and statistics are written aside and renamed, so they are
  whole even then.

A second signal ends the process within `HURRY_SECS`. The times after which the process ends hold however training has
ended, except after Ctrl-C, whose KeyboardInterrupt a program may catch in order to go on; and in an interactive
interpreter Ctrl-C never ends it. When the times come, a timer of the system ends a process in which Python's lock is
held and no thread gets to run. Only a signal that comes when that is so already is noticed by nobody.

Another thread of the program that wants training to end with an error has the same means.
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

from tpack.utils import logger
from tpack.utils.process_exit import ExitTimer, exit_now

SIGNALS = (signal.SIGINT, signal.SIGTERM)

LET_GO_SECS = 5.0
"""How long after a signal a step or callback may go on undisturbed."""

CLOSE_SECS = 15.0
"""How long after a signal the session stays open."""

END_SECS = 24.0
"""How long after a signal the process lives; job schedulers usually kill after 30 seconds."""

HURRY_SECS = 0.6
"""How long after a second signal the process lives, without the fraction of a second that its last words take."""

UNWIND_SECS = 5.0
"""How long a step that was broken off by another thread may take to return before it is interrupted by a signal."""

_TIMER_LATER_SECS = 0.4
"""How much later than Python the system's timer ends the process."""


_OPEN: list["Interruption"] = []
"""Those whose block runs in the main thread, the innermost last."""


class Interrupted(BaseException):
    """Training was asked to end by a signal; `Interruption.end_process` turns it into the right exit code."""


class Interruption:
    """Notes signals while its block runs. Only the main thread can receive them; elsewhere it notes none.

    A handler that the program had set for a signal is called before the signal is noted. What training raises when it
    was broken off is logged and goes no further.

    Args:
        break_off: called from another thread; must make whatever runs in the session return.
        let_go: called from another thread, at most once; makes a run that waits for data return, and leaves the session
            open.
        may_raise: tells, in the main thread, whether `Interrupted` may be raised right where it is.
        ask_to_end: called from another thread right after the first signal, while training goes on.

    Attributes:
        signum: the signal that came first, or None.
        broke_off: whether something was let go or broken off for a signal.
        error: what another thread wants training to end with, or None.
    """

    def __init__(
        self,
        break_off: Callable[[], None],
        *,
        let_go: Callable[[], None] = lambda: None,
        may_raise: Callable[["Interruption"], bool] = lambda interruption: interruption.is_late,
        ask_to_end: Callable[[], None] = lambda: None,
    ) -> None:
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
            logger.error("Training was broken off. This is what it said:", exc_info=error)
        return self.broke_off

    def _restore_handlers(self) -> None:
        if self._watcher is None:
            return
        self.hand_back()
        if self.signum == signal.SIGTERM:
            self._end_at_the_next()
        _OPEN.remove(self)
        # The watcher ends when nobody is at the other end any more; processes that were forked meanwhile have copies of
        # it, and a data loader's workers may outlive training.
        self._sockets[1].shutdown(socket.SHUT_RDWR)
        self._sockets[1].close()
        self._watcher.join()
        self._sockets[0].close()
        if self._end is not None and self.signum == signal.SIGINT:
            self._end.cancel()

    def hand_back(self) -> None:
        """Give signals back to whoever had them before."""
        for signum, handler in self._previous.items():
            signal.signal(signum, handler)
        signal.set_wakeup_fd(self._previous_fd)

    def _end_at_the_next(self) -> None:
        """Let the kernel end the process at the next signal: it is about to end, and Python would only take note."""
        for signum, handler in self._previous.items():
            if handler in (signal.SIG_DFL, signal.default_int_handler):
                signal.signal(signum, signal.SIG_DFL)

    @property
    def is_late(self) -> bool:
        """Whether the time is over in which training may go on undisturbed after a signal."""
        return self.broke_off

    def check(self) -> None:
        """Raise `Interrupted` if a signal has come."""
        if self.signum is not None:
            raise Interrupted(signal.Signals(self.signum).name)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Keep `Interrupted` from being raised inside of a block that must be run as a whole."""
        self._num_held += 1
        try:
            yield
        finally:
            self._num_held -= 1
        if not self._num_held and not self._left.is_set() and self.is_late:
            self.check()

    def leave(self) -> None:
        """Say that the last step has ended, however it did: from now on `fail` does nothing, and nothing is let go."""
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
        if not self._left.wait(UNWIND_SECS):
            self._wake_main_thread()

    def end_process(self) -> None:
        """Raise what ends the process with the exit code of the signal that came: 130 for Ctrl-C, 143 for SIGTERM."""
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
        """Raise what training is to end with, if what is interrupted here is not to be run as a whole."""
        if self._left.is_set() or self._num_held:
            return
        if self.error is not None:
            raise self.error
        if self.signum is not None and self._may_raise(self):
            self.check()

    # In other threads.

    def _wake_main_thread(self) -> None:
        """Interrupt Python code in the main thread by a signal of our own."""
        with self._lock:
            if self._previous and not self._left.is_set():
                self._num_sent += 1
                self._num_to_skip += 1
                signal.pthread_kill(int(threading.main_thread().ident or 0), next(iter(self._previous)))

    def _watch(self, receiver: socket.socket) -> None:
        """Read the signals that came, a byte each, and see that the process ends in time after the first."""
        steps: list[tuple[float, Callable[[], None]]] = []
        while True:
            receiver.settimeout(max(steps[0][0] - time.monotonic(), 1e-3) if steps else None)
            try:
                received = receiver.recv(1)
            except TimeoutError:
                # A thread of its own: to close something can hang, too.
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
        """Do what comes right after the first signal; return what comes later, and when."""
        now = time.monotonic()
        self._end = _End(signum)
        name = signal.Signals(signum).name
        logger.warning(f"{name}: training ends when the step does. Once more ends it at once.")
        return [(now, self._ask_to_end), (now + LET_GO_SECS, self._let_go_what_waits), (now + CLOSE_SECS, self._close)]

    def _let_go_what_waits(self) -> None:
        if self._left.is_set():
            return
        logger.warning(f"Training did not end within {LET_GO_SECS:.0f} seconds: what it waits for is broken off.")
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
    """Let a signal end what is done in a block, in time, for what comes before the first step.

    Python's own exception can be lost: what a ``__del__`` or a function that C code calls raises is printed, and the
    program goes on.

    Args:
        break_off: see `Interruption`.

    Raises:
        KeyboardInterrupt: Ctrl-C.
        SystemExit: SIGTERM; the exit code is 143.
    """
    interruption = Interruption(break_off, may_raise=lambda interruption: True)
    with interruption, suppress(Interrupted):
        yield
    interruption.end_process()


class _End:
    """The end of the process that comes when an orderly one does not.

    Args:
        signum: the signal for which it ends.
    """

    def __init__(self, signum: int) -> None:
        self._cancelled = threading.Event()
        self._hurries = False
        self._timers: list[ExitTimer] = []
        self._exit_after(END_SECS, signum)

    def hurry(self, signum: int) -> None:
        """Let the end come soon; nothing cancels it any more."""
        self._hurries = True
        self._exit_after(HURRY_SECS, signum)

    def cancel(self) -> None:
        """Let the process live, unless it is to end soon."""
        if self._hurries:
            return
        self._cancelled.set()
        for timer in self._timers:
            timer.cancel()

    def _exit_after(self, secs: float, signum: int) -> None:
        if signum == signal.SIGINT and _is_interactive():
            return
        code = 128 + signum
        self._timers.append(ExitTimer(secs + _TIMER_LATER_SECS, code))
        threading.Thread(target=self._wait_and_exit, args=(secs, code), name="ends the process", daemon=True).start()

    def _wait_and_exit(self, secs: float, code: int) -> None:
        if not self._cancelled.wait(secs):
            exit_now(code, f"The process did not end within {secs:g} seconds after a signal. It is ended as it is.")


def _is_interactive() -> bool:
    """Tell whether somebody types into this interpreter, as in a notebook."""
    return hasattr(sys, "ps1") or bool(sys.flags.interactive) or "ipykernel" in sys.modules


def _pass_on(received: bytes, descriptor: int) -> None:
    """Give a signal that is none of ours to whoever was told of signals before."""
    if descriptor != -1:
        with socket.socket(fileno=descriptor) as other:
            try:
                other.send(received)
            finally:
                other.detach()


@functools.cache
def _watch_forks() -> None:
    """Let the signals of a fork be its own: it would write them into the socket of the process that it came from."""
    os.register_at_fork(after_in_child=_hand_back_in_fork)


def _hand_back_in_fork() -> None:
    for interruption in reversed(_OPEN):
        interruption.hand_back()
    _OPEN.clear()
