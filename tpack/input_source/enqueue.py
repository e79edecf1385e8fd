"""The callback that owns the input thread of a queue: it starts and ends with training, and its failure is told."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.callbacks.base import Callback
from tpack.compat import make_callable
from tpack.input_source.enqueue_thread import EnqueueThread
from tpack.input_source.stream import DataPointStream
from tpack.input_source.taking import DataTaker
from tpack.utils import logger

# How long the end of training waits for the dataflow to give the data point that it is working on.
JOIN_TIMEOUT_SECS = 5.0


@dataclass(frozen=True)
class QueueOps:
    """The operations on a queue that its thread and the thread's owner run.

    Attributes:
        placeholders: what ``enqueue`` puts into the queue.
        enqueue: waits for room.
        dequeue: takes one data point out.
        size: a tensor.
        close: wakes who waits.
        can_be_emptied: the queue gives its last data point too, without waiting for others to come.
    """

    placeholders: Sequence[Any]
    enqueue: Any
    dequeue: Any
    size: Any
    close: Any
    can_be_emptied: bool


class EnqueueCallback(Callback):
    """Fills a queue from a stream, in a thread, during training.

    Args:
        stream: the data points, without an end.
        ops: the operations on the queue.
        taker: what steps take data out of the queue with.
        name: the name of the thread.
    """

    _chief_only = False

    def __init__(self, stream: DataPointStream, ops: QueueOps, taker: DataTaker, name: str) -> None:
        self._stream = stream
        self._ops = ops
        self._taker = taker
        self._name = name
        self._thread: EnqueueThread | None = None

    @property
    def is_running(self) -> bool:
        """Whether the thread was started and not stopped since."""
        return self._thread is not None

    def restart(self) -> None:
        """Empty the queue and fill it from the first data point on; nothing while there is no thread.

        Raises:
            InputError: The thread has failed.
        """
        if self._thread is not None:
            # Before the thread begins the data again, which takes down where they were.
            self._taker.restart()
            self._thread.restart(self._drain)

    def failure(self) -> BaseException | None:
        """Return what ended the thread."""
        return None if self._thread is None else self._thread.failure()

    def _before_train(self) -> None:
        session, ops = self.trainer.sess, self._ops
        self._taker.connect(session)
        self._get_size = make_callable(session, fetches=[ops.size])
        self._dequeue = make_callable(session, targets=[ops.dequeue])
        self._close = make_callable(session, targets=[ops.close])
        # The thread that enqueues has nothing else to do, so it runs the kernel itself.
        enqueue = make_callable(session, feeds=ops.placeholders, targets=[ops.enqueue], in_caller_thread=True)
        self._thread = EnqueueThread(self._stream, enqueue=enqueue, close=self._close, name=self._name)
        self._thread.start()

    def _drain(self) -> None:
        for _ in range(int(self._get_size()[0])):
            self._dequeue()

    def _after_train(self) -> None:
        thread, self._thread = self._thread, None
        if thread is None:
            return
        thread.stop()
        try:
            if self._ops.can_be_emptied:
                # A thread that waits for room is let go this way without an error, which TensorFlow would log.
                self._drain()
                thread.join(JOIN_TIMEOUT_SECS)
            self._close()
        except (RuntimeError, tf.errors.OpError) as error:
            logger.warning(f"The queue of {self._name} cannot be closed, is the session closed already? {error}")
        thread.join(JOIN_TIMEOUT_SECS)
        self._stream.close()
        if thread.is_alive():
            # It may have waited for workers of its dataflow, which are gone now.
            thread.join(JOIN_TIMEOUT_SECS)
        if thread.is_alive():
            logger.warning(f"The thread of {self._name} still waits for its dataflow and is left alone.")
