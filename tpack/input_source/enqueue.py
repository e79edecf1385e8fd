"""The thread that moves data points from a stream into a queue, and the callback that owns it.

The thread starts and ends with training. When it fails, it keeps the reason before it closes the queue. Its owner can
stop it or return it to the first data point at any time, also while it waits for room in the queue.

TensorFlow uses a fed array without a copy when its memory is aligned to 64 bytes, and changing the array would change
the queue. So the thread feeds an aligned copy that nothing else refers to, the only copy on the way.
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

# The time that the end of training waits for the current data point of the dataflow.
JOIN_TIMEOUT_SECS = 5.0
# The same after a signal, and for a thread whose queue was just emptied.
HURRIED_JOIN_SECS = 1.0

_POLL_SECS = 0.01
_ALIGNMENT_BYTES = 64
# Smaller arrays come from memory that the process has already.
_LEAST_TO_KEEP_BYTES = 1 << 16


@dataclass(frozen=True)
class QueueOps:
    """Operations on a queue for its thread and the thread's owner.

    Attributes:
        placeholders: the arguments of ``enqueue``.
        enqueue: waits for room.
        dequeue: takes one data point out.
        size: a tensor.
        close: wakes all waiting runs.
        can_be_emptied: whether the queue gives its last data point without waiting for others.
    """

    placeholders: Sequence[tf.Tensor]
    enqueue: tf.Operation
    dequeue: tf.Operation
    size: tf.Tensor
    close: tf.Operation
    can_be_emptied: bool


class EnqueueCallback(Callback):
    """Fills a queue from an endless stream, in a thread, during training; ``taker`` dequeues for steps."""

    _chief_only = False

    def __init__(self, stream: DataPointStream, ops: QueueOps, taker: TimedDequeue, name: str) -> None:
        self._stream = stream
        self._ops = ops
        self._taker = taker
        self._name = name
        self._thread: _EnqueueThread | None = None

    @property
    def is_running(self) -> bool:
        """Whether the thread is started and not stopped."""
        return self._thread is not None

    def restart(self) -> None:
        """Empty the queue and fill it from the first data point; raise InputError if the thread has failed."""
        if self._thread is not None:
            # Before the thread restarts the data, which records their position.
            self._taker.restart()
            self._thread.restart(self._drain)

    def failure(self) -> BaseException | None:
        """Return the error that ended the thread, or None."""
        return None if self._thread is None else self._thread.failure()

    def let_go(self) -> None:
        """Stop supplying data, and wake steps that wait for them."""
        if self._thread is not None:
            self._thread.stop()
            self._thread.close_queue()

    def _before_train(self) -> None:
        session, ops = self.trainer.sess, self._ops
        self._taker.connect(session)
        self._get_size = make_callable(session, fetches=[ops.size])
        self._dequeue = make_callable(session, targets=[ops.dequeue])
        self._close = make_callable(session, targets=[ops.close])
        # The enqueueing thread is idle otherwise, so it runs the kernel itself.
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
                # Wakes a thread that waits for room without an error, which TensorFlow would log.
                self._drain()
                thread.join(min(timeout_secs, HURRIED_JOIN_SECS))
            self._close()
        except (RuntimeError, tf.errors.OpError) as error:
            logger.warning(f"The queue of {self._name} cannot be closed, is the session closed already? {error}")
        thread.join(timeout_secs)
        if self._stream.close():
            # It may have waited for workers of its dataflow, which are gone.
            thread.join(timeout_secs)
        if thread.is_alive():
            logger.warning(f"The thread of {self._name} still waits for its dataflow and is left alone.")


class _EnqueueThread(StoppableThread):
    """Thread that enqueues the data points of an endless stream until it is stopped, and then wakes waiting runs."""

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
                self._parked.set()
                self._may_go_on.wait()
        except BaseException as error:
            # Stopping closes the queue to wake this thread.
            if self.stopped():
                return
            self._cause = self._explain(error)
            self.close_queue()
            raise self._cause from self._cause.__cause__

    def failure(self) -> BaseException | None:
        """Return the error that ended the thread, known before the queue is closed; or None."""
        return self._cause

    def restart(self, drain: Callable[[], Any]) -> None:
        """Empty the queue by ``drain`` after the current data point, and fill it from the first one."""
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
        # One for each component, whose arrays have about the same size.
        components = [(dtype, AlignedCopies()) for dtype in self._stream.dtypes]
        with closing(iter(self._stream)) as points:
            while not (self.stopped() or self._restart_wanted.is_set()):
                point = next(points)
                arrays = zip(point, components, strict=True)
                self._enqueue(*(copies.copy(array, dtype) for array, (dtype, copies) in arrays))

    def _explain(self, error: BaseException) -> BaseException:
        if isinstance(error, InputError):
            return error
        explained = InputError(f"the input thread '{self.name}' ended with {type(error).__name__}: {error}")
        explained.__cause__ = error
        return explained

    def close_queue(self) -> None:
        """Close the queue and wake all waiting runs."""
        try:
            self._close()
        except Exception as error:
            # A closed session has woken all of them.
            logger.warning(f"The input thread '{self.name}' could not close its queue: {error}")


class AlignedCopies:
    """Aligned copies of arrays of about the same size, in reused memory: fresh memory costs more than the copy."""

    def __init__(self) -> None:
        self._free: deque[np.ndarray] = deque()

    def copy(self, array: np.ndarray, dtype: np.dtype) -> np.ndarray:
        """Copy an array as `aligned_copy` does, into memory whose earlier copies have no references left."""
        size = array.size * dtype.itemsize + _ALIGNMENT_BYTES
        if dtype.kind == "O" or size < _LEAST_TO_KEEP_BYTES:
            return aligned_copy(array, dtype)
        memory = self._take(size)
        # All views and tensors of the copy refer to this handle, and nothing else does. It is not an array, since numpy
        # makes a view refer to the array that owns the memory, past all in between.
        handle = (ctypes.c_uint8 * memory.size).from_buffer(memory)
        weakref.finalize(handle, self._free.append, memory).atexit = False
        return _copy_into(handle, memory.ctypes.data, array, dtype)

    def _take(self, size: int) -> Any:
        """Return free memory of a fitting size; other sizes are dropped."""
        while self._free:
            memory = self._free.popleft()
            if size <= memory.size <= 2 * size:
                return memory
        return np.empty(size, np.uint8)


def aligned_copy(array: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Copy an array into fresh memory, in C order, that starts at a multiple of 64 bytes, or of objects for strings."""
    if dtype.kind == "O":
        return array.astype(object)
    memory = np.empty(array.size * dtype.itemsize + _ALIGNMENT_BYTES, np.uint8)
    return _copy_into(memory, memory.ctypes.data, array, dtype)


def _copy_into(buffer: Any, address: int, array: np.ndarray, dtype: np.dtype) -> np.ndarray:
    copy: np.ndarray = np.ndarray(array.shape, dtype, buffer=buffer, offset=-address % _ALIGNMENT_BYTES)
    np.copyto(copy, array, casting="unsafe")
    return copy
