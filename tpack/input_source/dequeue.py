"""Dequeueing of the towers' data: in the order of the towers, counted, and timed.

How many data points are in a queue is known only a moment later, so the run that takes them counts them.

The size of a queue is a poor measure of waiting. So the graph takes the time right before and after dequeueing, with
`BatchQueueInput` the time of making a batch included. Towers dequeue one after the other, so their waits add up. Staged
data are dequeued while a step computes, which waits only if it is finished before: that time is taken there.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import tensorflow.compat.v1 as tf

from tpack.callbacks.base import Callback
from tpack.compat.runtime import make_callable


class TimedDequeue:
    """Maker of the operations that dequeue data; constructed outside of towers.

    Creates:
        The variables of two sums: the dequeued data points, and the seconds that steps have waited.
    """

    def __init__(self) -> None:
        self._chain = _DequeueChain()
        self._num_points = GraphSum(tf.int64, "num_taken")
        self._waited_secs = GraphSum(tf.float64, "waited")

    def take(self, make: Callable[[], Sequence[tf.Tensor]], num_points: int, *, timed: bool) -> list[tf.Tensor]:
        """Return the outputs, on the CPU, of an operation that dequeues ``num_points`` of one tower's data.

        It is ``timed`` where the step waits for them, and not a run beside it.
        """
        with tf.device("/device:CPU:0"), self._chain.link(), self._counting(num_points):
            begin = now() if timed else tf.no_op()
            with tf.control_dependencies([begin]):
                tensors = list(make())
            ops = [tensor.op for tensor in tensors[:1] if isinstance(tensor, tf.Tensor)]
            with tf.control_dependencies(ops):
                end = now() if timed else tf.no_op()
            # The wait of the next tower begins at the end of this one.
            self._chain.append(end.op if timed else end)
            if not timed or not all(isinstance(tensor, tf.Tensor) for tensor in tensors):
                return tensors
            waited = self._waited_secs.add(end - begin)
            # The data depend on the timer, so it needs no fetch.
            with tf.control_dependencies([waited]):
                return list(tf.identity_n(tensors))

    @contextmanager
    def _counting(self, num_points: int) -> Iterator[None]:
        """Count data points in each run of this block's operations."""
        with tf.device("/device:CPU:0"):
            count = self._num_points.add(tf.constant(num_points, tf.int64))
        with tf.control_dependencies([count]):
            yield

    def connect(self, session: tf.Session) -> None:
        """Count in a session from now on."""
        self._num_points.connect(session)
        self._waited_secs.connect(session)
        self.restart()

    def restart(self) -> None:
        """Reset the count to 0; no step may be running."""
        self._num_points.restart()

    def num_taken(self) -> int:
        """Return the number of data points dequeued since `connect` or `restart`."""
        return int(self._num_points.value())

    def waited(self) -> float:
        """Return the seconds that steps have waited."""
        return self._waited_secs.value()


class DataWaitReport(Callback):
    """Reports the part of each epoch that steps waited for data, as ``<name>/data_wait_ratio``, if any wait here.

    Time between the epochs does not count.
    """

    _chief_only = False

    def __init__(self, name: str, waited: Callable[[], float | None]) -> None:
        self._stat = f"{name}/data_wait_ratio"
        self._waited = waited
        self._began_at = 0.0
        self._waited_before: float | None = None
        self._ratio: float | None = None

    def waited_secs(self) -> float | None:
        """Return the seconds that steps have waited so far; None where they do not wait here."""
        return self._waited()

    def _before_epoch(self) -> None:
        self._waited_before, self._began_at = self._waited(), time.perf_counter()

    def _after_epoch(self) -> None:
        waited, before = self._waited(), self._waited_before
        if waited is not None and before is not None:
            self._ratio = (waited - before) / (time.perf_counter() - self._began_at)

    def _trigger_epoch(self) -> None:
        if self._ratio is not None:
            self.trainer.monitors.put_scalar(self._stat, self._ratio)


class GraphSum:
    """Sum that operations of the graph add to and Python reads; constructed outside of towers.

    Creates:
        A variable on the CPU, in LOCAL_VARIABLES: a sum belongs to one run.
    """

    def __init__(self, dtype: tf.DType, name: str) -> None:
        with tf.device("/device:CPU:0"):
            self._sum = tf.Variable(
                tf.zeros([], dtype),
                trainable=False,
                collections=[tf.GraphKeys.LOCAL_VARIABLES],
                use_resource=True,
                name=name,
            )
            self._value = self._sum.read_value()
        self._read: Callable[[], list[np.generic]] | None = None
        self._base: float = 0

    def add(self, amount: tf.Tensor) -> tf.Operation:
        """Return an operation that adds to the sum."""
        with tf.device("/device:CPU:0"):
            return tf.assign_add(self._sum, amount).op

    def connect(self, session: tf.Session) -> None:
        """Read the sum in a session from now on."""
        # Called between steps and by idle threads of our own.
        self._read = make_callable(session, fetches=[self._value], in_caller_thread=True)

    def restart(self) -> None:
        """Reset the sum to 0, after `connect`; nothing that adds may be running."""
        if self._read is not None:
            self._base = self._read()[0].item()

    def value(self) -> float:
        """Return the sum since `restart`, or since the session began; 0 before `connect`."""
        return 0 if self._read is None else self._read()[0].item() - self._base


def now() -> tf.Tensor:
    """Return a tensor of the time of its run, in seconds."""
    with tf.device("/device:CPU:0"):
        return tf.timestamp()


class _DequeueChain:
    """Chain of operations in which each waits for the one before: tower k always gets the k-th data point.

    Otherwise TensorFlow has any order. A run that dequeues for tower k dequeues for the towers before it too.
    """

    def __init__(self) -> None:
        self._last: tf.Operation | None = None

    @contextmanager
    def link(self) -> Iterator[None]:
        """Make the operations of this block wait for the last `append`."""
        with tf.control_dependencies([] if self._last is None else [self._last]):
            yield

    def append(self, op: tf.Operation) -> None:
        """Make the next block wait for ``op``."""
        self._last = op
