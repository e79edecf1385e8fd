"""Data that a thread puts into a queue while steps run: the usual way to train.

Each tower dequeues its own data point, or a batch of them: batching then costs only the copy of dequeueing.
"""

from collections.abc import Sequence
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.callbacks.base import Callback, WithSteps
from tpack.dataflow.base import DataFlow, length_or_none
from tpack.dataflow.iterator_state import StatelessError
from tpack.errors import ConfigError, InputError
from tpack.input_source.base import FeedfreeInput, InputSource
from tpack.input_source.dequeue import DataWaitReport, TimedDequeue
from tpack.input_source.enqueue import EnqueueCallback, QueueOps
from tpack.input_source.resumable import ResumableInput
from tpack.input_source.stream import samples_of
from tpack.tfutils.summary import add_moving_summary
from tpack.utils.validation import check_arguments, check_count

_QUEUE_CAPACITY = 50
# The average is over about two steps.
_DECAY = 0.5


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
        self._check_queue(signature)
        enqueued = self._specs_to_enqueue(signature)
        stream = self._open_stream(self.ds, enqueued)
        with self.cached_name_scope(), tf.device("/device:CPU:0"):
            if self.queue is None:
                self.queue = self._make_queue(enqueued)
            ops = self._make_ops(enqueued)
            self._taker = TimedDequeue()
        self._thread_owner = EnqueueCallback(stream, ops, self._taker, f"{self} of {type(self.ds).__name__}")

    def _check_queue(self, signature: Sequence[tf.TensorSpec]) -> None:
        wanted = [spec.dtype.name for spec in signature]
        if not wanted:
            raise ConfigError(f"{self} needs a signature with at least one entry")
        if self.queue is not None and wanted != (came := [dtype.name for dtype in self.queue.dtypes]):
            raise ConfigError(f"the queue given to {self} has the dtypes {came}, the signature expects {wanted}")

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
