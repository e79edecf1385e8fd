"""How the towers of one source take their data: in the order of the towers, counted, and timed.

How many data points were put into a queue is known where that is done, and how many of them are still in it only the
queue knows, a moment later. So who takes them counts them, in the same run.

The size of a queue tells badly how long steps waited: a queue that is often empty need not have kept a step waiting for
long. So time is taken where steps take their data: in the graph, right before and right after. It includes the time
that taking data needs in any case, a few microseconds, and with `BatchQueueInput` that of making a batch. Towers take
their data one after the other, so their waits add up to the time until the last of them has data. Where data are
staged, they are taken while a step computes, and a step waits only if it is finished before the data are staged. That
is the time taken there.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import tensorflow.compat.v1 as tf

from tpack.callbacks.base import Callback
from tpack.compat import make_callable


class TimedDequeue:
    """Makes the operations that take data; to be made outside of towers.

    Creates:
        The variables of two sums: of the data points that were taken, and of the seconds that steps have waited.
    """

    def __init__(self) -> None:
        self._chain = _DequeueChain()
        self._num_points = GraphSum(tf.int64, "num_taken")
        self._waited_secs = GraphSum(tf.float64, "waited")

    def take(self, make: Callable[[], Sequence[tf.Tensor]], num_points: int, *, timed: bool) -> list[tf.Tensor]:
        """Take the data of one tower.

        Args:
            make: makes an operation that takes data, and returns its outputs.
            num_points: how many data points it takes.
            timed: whether the step waits for them, and not something that runs beside it.

        Returns:
            The outputs, on the CPU.
        """
        with tf.device("/device:CPU:0"), self._chain.link(), self._counting(num_points):
            begin = now() if timed else tf.no_op()
            with tf.control_dependencies([begin]):
                tensors = list(make())
            ops = [tensor.op for tensor in tensors[:1] if isinstance(tensor, tf.Tensor)]
            with tf.control_dependencies(ops):
                end = now() if timed else tf.no_op()
            # The next tower begins to wait when this one has ended.
            self._chain.append(end.op if timed else end)
            if not timed or not all(isinstance(tensor, tf.Tensor) for tensor in tensors):
                return tensors
            waited = self._waited_secs.add(end - begin)
            # Whoever uses the data makes the time be taken; nothing has to be fetched for it.
            with tf.control_dependencies([waited]):
                return list(tf.identity_n(tensors))

    @contextmanager
    def _counting(self, num_points: int) -> Iterator[None]:
        """Make each run of what is built in this block count data points."""
        with tf.device("/device:CPU:0"):
            count = self._num_points.add(tf.constant(num_points, tf.int64))
        with tf.control_dependencies([count]):
            yield

    def connect(self, session: tf.Session) -> None:
        """Count in a session, from now on."""
        self._num_points.connect(session)
        self._waited_secs.connect(session)
        self.restart()

    def restart(self) -> None:
        """Count from 0 again; no step may be running."""
        self._num_points.restart()

    def num_taken(self) -> int:
        """Return how many data points were taken since `connect` or `restart`."""
        return int(self._num_points.value())

    def waited(self) -> float:
        """Return for how many seconds steps have waited."""
        return self._waited_secs.value()


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

    def waited_secs(self) -> float | None:
        """Return for how many seconds steps have waited so far; None where they do not wait here."""
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
    """A sum that operations of the graph add to, and Python reads; to be made outside of towers.

    Args:
        dtype: of the sum.
        name: of the variable.

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
        # It is called between steps and by threads of our own, which have nothing else to do.
        self._read = make_callable(session, fetches=[self._value], in_caller_thread=True)

    def restart(self) -> None:
        """Begin at 0 again; nothing that adds may be running. Nothing before `connect`."""
        if self._read is not None:
            self._base = self._read()[0].item()

    def value(self) -> float:
        """Return the sum since `restart`, or since the session began; 0 before `connect`."""
        return 0 if self._read is None else self._read()[0].item() - self._base


def now() -> tf.Tensor:
    """Return a tensor of the time at which it is run, in seconds."""
    with tf.device("/device:CPU:0"):
        return tf.timestamp()


class _DequeueChain:
    """Makes each operation wait for the one before.

    TensorFlow runs what does not depend on one another in any order. Towers that take from one queue or iterator in the
    same step would each get some data point; with the order fixed, tower k always gets the k-th, and a run can be
    repeated to the last bit. A run that takes the data of tower k therefore takes that of the towers before it too.
    """

    def __init__(self) -> None:
        self._last: tf.Operation | None = None

    @contextmanager
    def link(self) -> Iterator[None]:
        """Make what is built in this block run after what was last given to `append`."""
        with tf.control_dependencies([] if self._last is None else [self._last]):
            yield

    def append(self, op: tf.Operation) -> None:
        """Let the next block wait for ``op``."""
        self._last = op
