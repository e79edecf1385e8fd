"""A count, in the graph, of the data points that steps have taken.

How many data points were put into a queue is known where that is done, and how many of them are still in it only the
queue knows, a moment later. So who takes them counts them, in the same run.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.compat import make_callable


class TakenCounter:
    """Counts data points that are taken; to be made outside of towers.

    Creates:
        An int64 variable on the CPU, in LOCAL_VARIABLES: a count belongs to one run.
    """

    def __init__(self) -> None:
        with tf.device("/device:CPU:0"):
            self._count = tf.Variable(
                tf.zeros([], tf.int64),
                trainable=False,
                collections=[tf.GraphKeys.LOCAL_VARIABLES],
                use_resource=True,
                name="num_taken",
            )
            self._value = self._count.read_value()
        self._read: Callable[[], list[Any]] | None = None
        self._base = 0

    @contextmanager
    def counting(self, num_points: int) -> Iterator[None]:
        """Make each run of what is built in this block add to the count.

        Args:
            num_points: how many data points it takes.
        """
        with tf.device("/device:CPU:0"):
            count = tf.assign_add(self._count, tf.constant(num_points, tf.int64)).op
        with tf.control_dependencies([count]):
            yield

    def connect(self, session: Any) -> None:
        """Count in a session from now on."""
        # It is called between steps and by threads of our own, which have nothing else to do.
        self._read = make_callable(session, fetches=[self._value], in_caller_thread=True)
        self.restart()

    def restart(self) -> None:
        """Count from 0 again; no step may be running. Nothing before `connect`."""
        if self._read is not None:
            self._base = int(self._read()[0])

    def value(self) -> int:
        """Return how many were taken since `connect` or `restart`; 0 before."""
        return 0 if self._read is None else int(self._read()[0]) - self._base
