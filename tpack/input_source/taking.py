"""How the towers of one source take their data: in the order of the towers, counted, and timed.

A count, in the graph, of the data points that steps have taken.

How many data points were put into a queue is known where that is done, and how many of them are still in it only the
queue knows, a moment later. So who takes them counts them, in the same run.

How long steps waited for data: the share of an epoch's time, as a statistic.

The size of a queue tells it badly: a queue that is often empty need not have kept a step waiting for long. So time is
taken where steps take their data: in the graph, right before and right after. It includes the time that taking data
needs in any case, a few microseconds, and with `BatchQueueInput` that of making a batch. Towers take their data one
after the other, so their waits add up to the time until the last of them has data.

Where data are staged, they are taken while a step computes, and a step waits only if it is finished before the data
are staged. That is the time taken there.

Operations of one source that run in the order in which the towers were built.

TensorFlow runs what does not depend on one another in any order. Towers that take from one queue or iterator in the
same step would each get some data point; with the order fixed, tower k always gets the k-th, and a run can be
repeated to the last bit.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.callbacks.base import Callback
from tpack.compat import make_callable


class DataTaker:
    """Makes the operations that take data; to be made outside of towers.

    Creates:
        The variables of its counter and its clock.
    """

    def __init__(self) -> None:
        self._chain = DequeueChain()
        self._counter = TakenCounter()
        self._clock = WaitClock()

    def take(self, make: Callable[[], Sequence[Any]], num_points: int, *, timed: bool) -> list[Any]:
        """Take the data of one tower.

        Args:
            make: makes an operation that takes data, and returns its outputs.
            num_points: how many data points it takes.
            timed: whether the step waits for them, and not something that runs beside it.

        Returns:
            The outputs, on the CPU.
        """
        with tf.device("/device:CPU:0"), self._chain.link(), self._counter.counting(num_points):
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
            waited = self._clock.add(end - begin)
            # Whoever uses the data makes the time be taken; nothing has to be fetched for it.
            with tf.control_dependencies([waited]):
                return list(tf.identity_n(tensors))

    def connect(self, session: Any) -> None:
        """Count in a session, from now on."""
        self._counter.connect(session)
        self._clock.connect(session)

    def restart(self) -> None:
        """Count from 0 again; no step may be running."""
        self._counter.restart()

    def num_taken(self) -> int:
        """Return how many data points were taken since `connect` or `restart`."""
        return self._counter.value()

    def waited(self) -> float:
        """Return for how many seconds steps have waited."""
        return self._clock.value()


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


class DequeueChain:
    """Makes each operation wait for the one before.

    A run that takes the data of tower k therefore takes that of the towers before it too.
    """

    def __init__(self) -> None:
        self._last: Any = None

    @contextmanager
    def link(self) -> Iterator[None]:
        """Make what is built in this block run after what was last given to `append`."""
        with tf.control_dependencies([] if self._last is None else [self._last]):
            yield

    def append(self, op: Any) -> None:
        """Let the next block wait for ``op``."""
        self._last = op
