"""Threads of the queue runners of a graph, such as those that ``tf.train.range_input_producer`` adds.

TensorFlow's ``MonitoredSession`` starts them, and tensorpack trains with one: without them a step that takes from such
a queue waits for ever.
"""

import threading
from collections.abc import Callable
from typing import Any

import tensorflow.compat.v1 as tf

_STOP_SECS = 10.0


class QueueRunnerThreads:
    """Running threads of all queue runners in a session's graph; a `StepCallback` for their errors.

    Args:
        session: the session, with initialised variables.
    """

    def __init__(self, session: tf.Session) -> None:
        self._session = session
        self._coordinator = tf.train.Coordinator()
        runners = session.graph.get_collection(tf.GraphKeys.QUEUE_RUNNERS)
        self._threads: list[threading.Thread] = [
            thread
            for runner in runners
            for thread in runner.create_threads(session, coord=self._coordinator, daemon=True, start=True)
        ]

    def callbacks(self) -> "list[QueueRunnerThreads]":
        """Return this as a list, which is empty if there are no threads."""
        return [self] if self._threads else []

    def implements(self, hook: str) -> bool:
        """Tell whether a method does anything: only that of errors does."""
        return hook == "failure"

    def bound(self, hook: str) -> Callable[..., Any]:
        """Return the method of this name."""
        return getattr(self, hook)

    def failure(self) -> BaseException | None:
        """Return the error that ended a thread, if any."""
        try:
            self._coordinator.raise_requested_exception()
        except Exception as error:
            return error
        return None

    def end(self) -> None:
        """End the threads, if there are any, and with them the session: some wait inside of it for room in a queue."""
        self._coordinator.request_stop()
        if self._threads:
            self._session.close()
        for thread in self._threads:
            thread.join(_STOP_SECS)
