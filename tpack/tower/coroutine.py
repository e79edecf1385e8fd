"""A function that can be left in the middle and taken up again, however deep its calls are.

A generator can only be left by its own ``yield``. Model code is left inside a layer inside a function inside the tower
function, so it needs a stack of its own: a thread. The thread never runs beside anything else. It runs while `resume`
waits for it, and it waits while the caller of `resume` runs, so what is done has one order in every run.
"""

import contextvars
import threading
from collections.abc import Callable
from typing import Any


class CoroutineExit(BaseException):
    """Raised by `Coroutine.pause` in a coroutine that is being closed; like ``GeneratorExit``, it is not an error."""


class Coroutine:
    """A call of a function in a thread of its own.

    Args:
        func: what to call; it takes no arguments. It may call `pause`.
        name: the name of the thread.
        variables: the context variables of the call, by default a copy of the current ones.

    Example:
        def func():
            answer = coroutine.pause("question")

        coroutine = Coroutine(func, "asking")
        question = coroutine.resume()
        coroutine.resume("answer")
    """

    def __init__(self, func: Callable[[], Any], name: str, variables: contextvars.Context | None = None) -> None:
        self._func = func
        self._variables = contextvars.copy_context() if variables is None else variables
        # A daemon, so that an interpreter that ends in the middle of a call does not wait for it.
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._may_go_on = threading.Semaphore(0)
        self._stands_still = threading.Semaphore(0)
        self._is_running = False
        self._is_closing = False
        self._is_over = False
        self._parcel: Any = None
        self._error: BaseException | None = None

    @property
    def is_over(self) -> bool:
        """Whether the function returned or raised."""
        return self._is_over

    def resume(self, value: Any = None) -> Any:
        """Let the function run until it pauses or ends.

        Args:
            value: what the `pause` that it waits in returns.

        Returns:
            What it gave to `pause`, or what it returned; `is_over` tells which.

        Raises:
            Whatever the function raises, with the traceback that it has there. An exception that interrupts the wait,
            such as ``KeyboardInterrupt``, closes the coroutine, which ends the function where it next pauses.
        """
        self._parcel = value
        if self._thread.ident is None:
            self._thread.start()
        self._may_go_on.release()
        self._is_running = True
        try:
            self._wait()
        except BaseException:
            self.close()
            raise
        error, self._error = self._error, None
        if error is not None:
            raise error
        value, self._parcel = self._parcel, None
        return value

    def pause(self, value: Any = None) -> Any:
        """Hand over to the caller of `resume`; to be called by the function, in its thread.

        Args:
            value: what `resume` returns.

        Returns:
            What the next `resume` is given.

        Raises:
            CoroutineExit: The coroutine is being closed.
        """
        if not self._is_closing:
            self._parcel = value
            self._stands_still.release()
            self._may_go_on.acquire()
        if self._is_closing:
            raise CoroutineExit
        value, self._parcel = self._parcel, None
        return value

    def close(self) -> None:
        """End the function, by `CoroutineExit` where it pauses, and its thread; nothing if that has happened already.

        What the function raises on its way out is lost: there is an error already that closes it.
        """
        if self._is_running:
            # The wait of `resume` was interrupted: the function has not paused yet.
            self._wait()
        if self._is_over or self._thread.ident is None:
            return
        self._is_closing = True
        self._may_go_on.release()
        self._is_running = True
        self._wait()
        self._error = None

    def _wait(self) -> None:
        self._stands_still.acquire()
        self._is_running = False
        if self._is_over:
            self._thread.join()

    def _run(self) -> None:
        self._may_go_on.acquire()
        try:
            self._parcel = self._variables.run(self._func)
        except CoroutineExit:
            self._parcel = None
        except BaseException as error:
            self._error = error
        self._is_over = True
        self._stands_still.release()
