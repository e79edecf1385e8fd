"""The thread that moves data points from a stream into a queue, and the callback that owns it.

The thread starts and ends with training. It knows no graph: it calls functions that were made for it. When it fails, it
keeps the reason before it closes the queue, so that whoever finds the queue closed can already ask why. Its owner can
stop it or send it back to the first data point at any time, also while it waits for room in the queue.

TensorFlow takes a fed array without copying it when its memory is aligned to 64 bytes. The tensor in a queue is then
the array itself, and changing the array changes what comes out of the queue. So the thread feeds an aligned copy that
nobody else holds: it is safe, and the only copy on the way.
"""

import ctypes
import threading
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

from tpack.callbacks.base import Callback
from tpack.compat import make_callable
from tpack.errors import InputError
from tpack.input_source.dequeue import TimedDequeue
from tpack.input_source.stream import DataPointStream
from tpack.utils import logger
from tpack.utils.concurrency import StoppableThread

# How long the end of training waits for the dataflow to give the data point that it is working on.
JOIN_TIMEOUT_SECS = 5.0
# How long it waits after a signal; and for a thread that has just been given room in its queue.
HURRIED_JOIN_SECS = 1.0

_POLL_SECS = 0.01
_ALIGNMENT_BYTES = 64
# Less is taken from what the process has already.
_LEAST_TO_KEEP_BYTES = 1 << 16


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

    placeholders: Sequence[tf.Tensor]
    enqueue: tf.Operation
    dequeue: tf.Operation
    size: tf.Tensor
    close: tf.Operation
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

    def __init__(self, stream: DataPointStream, ops: QueueOps, taker: TimedDequeue, name: str) -> None:
        self._stream = stream
        self._ops = ops
        self._taker = taker
        self._name = name
        self._thread: _EnqueueThread | None = None

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

    def let_go(self) -> None:
        """Give nothing more, and let steps go that wait for it."""
        if self._thread is not None:
            self._thread.stop()
            self._thread.close_queue()

    def _before_train(self) -> None:
        session, ops = self.trainer.sess, self._ops
        self._taker.connect(session)
        self._get_size = make_callable(session, fetches=[ops.size])
        self._dequeue = make_callable(session, targets=[ops.dequeue])
        self._close = make_callable(session, targets=[ops.close])
        # The thread that enqueues has nothing else to do, so it runs the kernel itself.
        enqueue = make_callable(session, feeds=ops.placeholders, targets=[ops.enqueue], in_caller_thread=True)
        self._thread = _EnqueueThread(self._stream, enqueue=enqueue, close=self._close, name=self._name)
        self._thread.start()

    def _drain(self) -> None:
        for _ in range(int(self._get_size()[0])):
            self._dequeue()

    def _after_train(self) -> None:
        thread, self._thread = self._thread, None
        if thread is None:
            return
        thread.stop()
        timeout_secs = HURRIED_JOIN_SECS if self.trainer.interrupted else JOIN_TIMEOUT_SECS
        try:
            if self._ops.can_be_emptied:
                # A thread that waits for room is let go this way without an error, which TensorFlow would log.
                self._drain()
                thread.join(min(timeout_secs, HURRIED_JOIN_SECS))
            self._close()
        except (RuntimeError, tf.errors.OpError) as error:
            logger.warning(f"The queue of {self._name} cannot be closed, is the session closed already? {error}")
        thread.join(timeout_secs)
        if self._stream.close():
            # It may have waited for workers of its dataflow, which are gone now.
            thread.join(timeout_secs)
        if thread.is_alive():
            logger.warning(f"The thread of {self._name} still waits for its dataflow and is left alone.")


class _EnqueueThread(StoppableThread):
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
            self.close_queue()
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

    def close_queue(self) -> None:
        """Wake who waits on the queue."""
        try:
            self._close()
        except Exception as error:
            # A session that was closed has woken everybody already.
            logger.warning(f"The input thread '{self.name}' could not close its queue: {error}")


class AlignedCopies:
    """Makes aligned copies of arrays that are about equally large, in as much memory as is in use at the same time.

    Memory that is fresh from the system costs more than the copy: each of its pages is made when it is first touched.
    So memory that nobody holds any more is used again.
    """

    def __init__(self) -> None:
        self._free: deque[np.ndarray] = deque()

    def copy(self, array: np.ndarray, dtype: np.dtype) -> np.ndarray:
        """Copy an array as `aligned_copy` does, into memory of which no array is left that an earlier call returned."""
        size = array.size * dtype.itemsize + _ALIGNMENT_BYTES
        if dtype.kind == "O" or size < _LEAST_TO_KEEP_BYTES:
            return aligned_copy(array, dtype)
        memory = self._take(size)
        # What the copy holds, and so any view of it and any tensor made of it; nobody else does. It is no array, since
        # numpy lets an array hold the one that owns the memory, past all between.
        handle = (ctypes.c_uint8 * memory.size).from_buffer(memory)
        weakref.finalize(handle, self._free.append, memory).atexit = False
        return _copy_into(handle, memory.ctypes.data, array, dtype)

    def _take(self, size: int) -> Any:
        """Return free memory of a fitting size; what does not fit is given up."""
        while self._free:
            memory = self._free.popleft()
            if size <= memory.size <= 2 * size:
                return memory
        return np.empty(size, np.uint8)


def aligned_copy(array: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Copy an array into fresh memory that starts at a multiple of 64 bytes.

    Args:
        array: any array that can be cast.
        dtype: the dtype of the copy; object for strings, which TensorFlow always copies.

    Returns:
        A C-ordered array of the same shape.
    """
    if dtype.kind == "O":
        return array.astype(object)
    memory = np.empty(array.size * dtype.itemsize + _ALIGNMENT_BYTES, np.uint8)
    return _copy_into(memory, memory.ctypes.data, array, dtype)


def _copy_into(buffer: Any, address: int, array: np.ndarray, dtype: np.dtype) -> np.ndarray:
    copy: np.ndarray = np.ndarray(array.shape, dtype, buffer=buffer, offset=-address % _ALIGNMENT_BYTES)
    np.copyto(copy, array, casting="unsafe")
    return copy
