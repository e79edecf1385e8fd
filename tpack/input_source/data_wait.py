"""How long steps waited for data: the share of an epoch's time, as a statistic.

The size of a queue tells it badly: a queue that is often empty need not have kept a step waiting for long. So time is
taken where steps take their data: in the graph, right before and right after. It includes the time that taking data
needs in any case, a few microseconds, and with `BatchQueueInput` that of making a batch. Towers take their data one
after the other, so their waits add up to the time until the last of them has data.

Where data are staged, they are taken while a step computes, and a step waits only if it is finished before the data
are staged. That is the time taken there.
"""

import time
from collections.abc import Callable
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.callbacks.base import Callback
from tpack.compat import make_callable


class WaitClock:
    """Adds up waiting times in the graph; to be made outside of towers.

    Creates:
        A float64 variable on the CPU, in LOCAL_VARIABLES.
    """

    def __init__(self) -> None:
        with tf.device("/device:CPU:0"):
            self._secs = tf.Variable(
                tf.zeros([], tf.float64),
                trainable=False,
                collections=[tf.GraphKeys.LOCAL_VARIABLES],
                use_resource=True,
                name="waited",
            )
            self._value = self._secs.read_value()
        self._read: Callable[[], list[Any]] | None = None

    def add(self, secs: Any) -> Any:
        """Return an operation that adds a time."""
        with tf.device("/device:CPU:0"):
            return tf.assign_add(self._secs, secs).op

    def connect(self, session: Any) -> None:
        """Read the time in a session from now on."""
        self._read = make_callable(session, fetches=[self._value], in_caller_thread=True)

    def value(self) -> float:
        """Return the seconds so far; 0 before `connect`."""
        return 0.0 if self._read is None else float(self._read()[0])


def now() -> Any:
    """Return a tensor of the time at which it is run, in seconds."""
    with tf.device("/device:CPU:0"):
        return tf.timestamp()


class DataWaitReport(Callback):
    """Reports after each epoch what part of it steps spent on waiting for data, as ``<name>/data_wait_ratio``.

    What happens between the epochs does not count.

    Args:
        name: of the source.
        waited: returns the seconds so far; None where steps do not wait here.
    """

    _chief_only = False

    def __init__(self, name: str, waited: Callable[[], float | None]) -> None:
        self._stat = f"{name}/data_wait_ratio"
        self._waited = waited
        self._began_at = 0.0
        self._waited_before: float | None = None
        self._ratio: float | None = None

    def _before_epoch(self) -> None:
        self._waited_before, self._began_at = self._waited(), time.perf_counter()

    def _after_epoch(self) -> None:
        waited, before = self._waited(), self._waited_before
        if waited is not None and before is not None:
            self._ratio = (waited - before) / (time.perf_counter() - self._began_at)

    def _trigger_epoch(self) -> None:
        if self._ratio is not None:
            self.trainer.monitors.put_scalar(self._stat, self._ratio)
