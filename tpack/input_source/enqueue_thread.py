"""The thread that moves data points from a stream into a queue, and what its owner must know about it.

The thread knows no graph: it calls functions that were made for it. When it fails, it keeps the reason before it
closes the queue, so that whoever finds the queue closed can already ask why. Its owner can stop it or send it back
to the first data point at any time, also while it waits for room in the queue.
"""

import threading
from collections.abc import Callable
from contextlib import closing
from typing import Any

from tpack.errors import InputError
from tpack.input_source.aligned import AlignedCopies
from tpack.input_source.stream import DataPointStream
from tpack.utils import logger
from tpack.utils.threads import StoppableThread

_POLL_SECS = 0.01


class EnqueueThread(StoppableThread):
    """Enqueues the data points of an endless stream until it is stopped.

    Args:
        stream: the data points.
        enqueue: puts the arrays of one data point into the queue, waiting for room.
        close: closes the queue and wakes who waits on it.
        name: the name of the thread, which errors mention.
    """

    def __init__(
        self, stream: DataPointStream, *, enqueue: Callable[..., Any], close: Callable[[], Any], name: str
    ) -> None:
        super().__init__(name=name, daemon=True)
        self._stream = stream
        self._enqueue = enqueue
        self._close = close
        self._cause: BaseException | None = None
        self._restart_wanted = threading.Event()
        self._parked = threading.Event()
        self._may_go_on = threading.Event()

    def run(self) -> None:
        """Enqueue until stopped."""
        try:
            while not self.stopped():
                self._run_from_first()
                self._park()
        except BaseException as error:
            # Closing the queue is how a waiting thread is woken in order to stop.
            if self.stopped():
                return
            self._cause = self._explain(error)
            self._close_queue()
            raise self._cause from self._cause.__cause__

    def failure(self) -> BaseException | None:
        """Return why the thread ended by itself; known before the queue is closed."""
        return self._cause

    def restart(self, drain: Callable[[], Any]) -> None:
        """Empty the queue and fill it from the first data point on.

        The data point that the dataflow is about to give is waited for.

        Args:
            drain: takes out of the queue what is there, without waiting for more.

        Raises:
            InputError: The thread has failed.
        """
        self._may_go_on.clear()
        self._restart_wanted.set()
        drain()
        while not self._parked.wait(_POLL_SECS) and self.is_alive():
            # The thread waits for room in the queue, or for its dataflow.
            drain()
        if self._cause is not None:
            raise self._cause
        drain()
        self._parked.clear()
        self._restart_wanted.clear()
        self._may_go_on.set()

    def stop(self) -> None:
        """Ask the thread to end; one that waits for room ends when the queue is closed."""
        super().stop()
        self._may_go_on.set()
        self._stream.interrupt()

    def _run_from_first(self) -> None:
        # One for each component, whose arrays are about equally large.
        components = [(dtype, AlignedCopies()) for dtype in self._stream.dtypes]
        with closing(iter(self._stream)) as points:
            while not (self.stopped() or self._restart_wanted.is_set()):
                point = next(points)
                arrays = zip(point, components, strict=True)
                self._enqueue(*(copies.copy(array, dtype) for array, (dtype, copies) in arrays))

    def _park(self) -> None:
        self._parked.set()
        self._may_go_on.wait()

    def _explain(self, error: BaseException) -> BaseException:
        if isinstance(error, InputError):
            return error
        explained = InputError(f"the input thread '{self.name}' ended with {type(error).__name__}: {error}")
        explained.__cause__ = error
        return explained

    def _close_queue(self) -> None:
        try:
            self._close()
        except Exception as error:
            # A session that was closed has woken everybody already.
            logger.warning(f"The input thread '{self.name}' could not close its queue: {error}")
