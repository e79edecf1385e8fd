"""Data that a thread puts into a queue while steps run: the usual way to train.

Each tower dequeues its own data point, or a batch of them: batching then costs only the copy of dequeueing.

The thread starts and ends with training. When it fails, it keeps the reason before it closes the queue. Its owner, a
callback, can stop it or return it to the first data point at any time, also while it waits for room in the queue.
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

from tpack.callbacks.base import Callback, WithSteps
from tpack.compat.runtime import make_callable
from tpack.dataflow.base import DataFlow, length_or_none
from tpack.dataflow.iterator_state import StatelessError
from tpack.errors import ConfigError, InputError
from tpack.input_source.base import FeedfreeInput, InputSource
from tpack.input_source.dequeue import DataWaitReport, TimedDequeue
from tpack.input_source.resumable import ResumableInput
from tpack.input_source.stream import DataPointStream, samples_of
from tpack.tfutils.summary import add_moving_summary
from tpack.utils import logger
from tpack.utils.concurrency import StoppableThread
from tpack.utils.validation import check_arguments, check_count

_QUEUE_CAPACITY = 50
# The average is over about two steps.
_DECAY = 0.5


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


@check_arguments
class QueueInput(ResumableInput, FeedfreeInput):
    """Source of the data points of a DataFlow, repeated without end, through a queue.

    When the dataflow raises, has no data, or gives a wrong data point, steps may still use what is in the queue; the
    step that finds it empty fails with that error.

    Args:
        ds: the dataflow. It is iterated in another thread, its ``reset_state`` included.
        queue: a ``tf.QueueBase`` with the dtypes of the signature; by default a FIFO queue of 50 data points.

    Creates:
        The queue, on ``/device:CPU:0``, local variables for the number of dequeues and their time, the summary
        ``queue_size``, and the statistic ``data_wait_ratio``: the part of an epoch that steps waited for data.

    Raises:
        ConfigError: `ds` is not a DataFlow; in `setup`, the queue has other dtypes, or the signature is empty.
    """

    def __init__(self, ds: DataFlow, queue: tf.QueueBase | None = None) -> None:
        self.ds = ds
        # A `tf.QueueBase`, from `setup` on.
        self.queue: Any = queue
        self._thread_owner: EnqueueCallback
        self._taker: TimedDequeue

    @property
    def dataflow(self) -> DataFlow:
        """The dataflow."""
        return self.ds

    def samples(self) -> tuple[int | None, int | None]:
        """Return the samples of the dataflow's batches, if it makes batches."""
        return samples_of(self.ds)

    def refill_queue(self) -> None:
        """Empty the queue, then fill it from the first data point; raise InputError if it or the thread cannot."""
        if not self._can_be_emptied():
            raise InputError(f"{self} cannot begin again: its {type(self.queue).__name__} always keeps some points")
        self._thread_owner.restart()

    def _setup(self, signature: Sequence[tf.TensorSpec]) -> None:
        wanted = [spec.dtype.name for spec in signature]
        if not wanted:
            raise ConfigError(f"{self} got no signature: expected at least one entry")
        if self.queue is not None and wanted != (came := [dtype.name for dtype in self.queue.dtypes]):
            raise ConfigError(f"the queue given to {self} has the dtypes {came}, the signature expects {wanted}")
        enqueued = self._specs_to_enqueue(signature)
        stream = self._open_stream(self.ds, enqueued)
        with self.cached_name_scope(), tf.device("/device:CPU:0"):
            if self.queue is None:
                self.queue = self._make_queue(enqueued)
            ops = self._make_ops(enqueued)
            self._taker = TimedDequeue()
        self._thread_owner = EnqueueCallback(stream, ops, self._taker, f"{self} of {type(self.ds).__name__}")

    def _make_ops(self, specs: Sequence[tf.TensorSpec]) -> QueueOps:
        placeholders = [tf.placeholder(spec.dtype, spec.shape, name=spec.name) for spec in specs]
        return QueueOps(
            placeholders=placeholders,
            enqueue=self.queue.enqueue(placeholders),
            dequeue=_as_list(self.queue.dequeue())[0].op,
            size=self.queue.size(),
            close=self.queue.close(cancel_pending_enqueues=True),
            can_be_emptied=self._can_be_emptied(),
        )

    def _can_be_emptied(self) -> bool:
        return isinstance(self.queue, (tf.FIFOQueue, tf.PaddingFIFOQueue))

    def _get_input_tensors(self) -> Sequence[tf.Tensor]:
        with self.cached_name_scope():
            tensors = self._taker.take(self._dequeue, self._points_at_once, timed=not self._num_prefetched)
        for tensor, spec in zip(tensors, self._require_setup(), strict=True):
            # The caller checks the shapes of a given queue with all others.
            if tensor.shape.is_compatible_with(spec.shape):
                tensor.set_shape(spec.shape)
        return tensors

    def _get_callbacks(self) -> Sequence[Callback]:
        return [self._thread_owner, _QueueSizeSummary(self, self.queue), DataWaitReport(str(self), self._waited)]

    def _reset_state(self) -> None:
        if self._thread_owner.is_running:
            self.refill_queue()

    def _size(self) -> int:
        return len(self.ds)

    def _num_used(self) -> int:
        if not self._can_be_emptied():
            raise StatelessError(
                f"{self} cannot tell which data points were used: its {type(self.queue).__name__} changes their order"
            )
        return self._taker.num_taken() - self._num_prefetched * self._points_at_once

    def _waited(self) -> float | None:
        return None if self._num_prefetched else self._taker.waited()

    # Overridden by `BatchQueueInput`.

    @property
    def _points_at_once(self) -> int:
        return 1

    def _specs_to_enqueue(self, signature: Sequence[tf.TensorSpec]) -> Sequence[tf.TensorSpec]:
        return signature

    def _make_queue(self, specs: Sequence[tf.TensorSpec]) -> tf.QueueBase:
        return tf.FIFOQueue(_QUEUE_CAPACITY, [spec.dtype for spec in specs], name="input_queue")

    def _dequeue(self) -> list[tf.Tensor]:
        return _as_list(self.queue.dequeue(name="dequeue"))


@check_arguments
class BatchQueueInput(QueueInput):
    """Source that enqueues data points without a batch dimension and dequeues B of them at once, for each tower.

    The signature has the batch dimension, of size B or unknown, and is known otherwise. An incomplete batch before a
    failure of the dataflow is dropped.

    Args:
        ds: the dataflow of single data points.
        batch_size: B.
        queue: a ``tf.QueueBase`` with the dtypes of the signature, its shapes without the batch dimension, and room for
            at least one batch; by default a FIFO queue of 50 batches.

    Raises:
        ConfigError: As for `QueueInput`; B is less than 1; in `setup`, an entry of the signature has no batch
            dimension, another one than B, or another unknown dimension.
    """

    def __init__(self, ds: DataFlow, batch_size: int, queue: tf.QueueBase | None = None) -> None:
        super().__init__(ds, queue)
        self.batch_size = check_count(self, "batch_size", batch_size)

    def samples(self) -> tuple[int | None, int | None]:
        """Return the size of a batch, and the length of the dataflow."""
        return self.batch_size, length_or_none(self.ds)

    @property
    def _points_at_once(self) -> int:
        return self.batch_size

    def _specs_to_enqueue(self, signature: Sequence[tf.TensorSpec]) -> Sequence[tf.TensorSpec]:
        return [self._without_batch_dimension(spec) for spec in signature]

    def _without_batch_dimension(self, spec: tf.TensorSpec) -> tf.TensorSpec:
        if not spec.shape.rank or not spec.shape[1:].is_fully_defined():
            raise ConfigError(
                f"{self} needs a batch dimension and knows all others, got the shape {spec.shape} of '{spec.name}'"
            )
        if spec.shape.as_list()[0] not in (None, self.batch_size):
            raise ConfigError(f"{self} makes batches of {self.batch_size}, the signature expects {spec}")
        return tf.TensorSpec(spec.shape[1:], spec.dtype, spec.name)

    def _make_queue(self, specs: Sequence[tf.TensorSpec]) -> tf.QueueBase:
        dtypes, shapes = ([spec.dtype for spec in specs], [spec.shape for spec in specs])
        return tf.FIFOQueue(_QUEUE_CAPACITY * self.batch_size, dtypes, shapes, name="input_queue")

    def _dequeue(self) -> list[tf.Tensor]:
        return _as_list(self.queue.dequeue_many(self.batch_size, name="dequeue"))

    def _size(self) -> int:
        return len(self.ds) // self.batch_size


class _QueueSizeSummary(Callback):
    """Moving average of the size of a queue, updated with every step: near zero the steps wait.

    Creates:
        The summary ``queue_size`` in the name scope of the source.
    """

    _chief_only = False

    def __init__(self, source: InputSource, queue: tf.QueueBase) -> None:
        self._source = source
        self._queue = queue
        self._update: tf.Operation | None = None

    def _setup_graph(self) -> None:
        with self._source.cached_name_scope() as scope, tf.device("/device:CPU:0"):
            size = tf.cast(self._queue.size(), tf.float32, name="queue_size")
            # A collection of its own: the update belongs only to runs that read this queue.
            key = f"{scope}queue_size_update"
            add_moving_summary(size, collection=key, decay=_DECAY)
        # One op is the same object at each step, which keeps the step on its fast path.
        self._update = tf.group(*tf.get_collection(key))

    def _before_run(self, ctx: tf.train.SessionRunContext) -> tf.Operation | None:
        return self._update

    def _with_several_steps(self) -> WithSteps:
        return WithSteps() if self._update is None else WithSteps(each=(self._update,))


def _as_list(tensors: tf.Tensor | Sequence[tf.Tensor]) -> list[tf.Tensor]:
    """Return the tensors of a dequeue as a list; one component is a bare tensor."""
    return list(tensors) if isinstance(tensors, (list, tuple)) else [tensors]


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
        """Ask the thread to end; if it waits for room, it ends when the queue is closed."""
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
