"""Data that a thread puts into a queue while steps run: the usual way to train.

The thread takes data points from a DataFlow, copies each component into memory of its own, and enqueues it through a
callable, so that TensorFlow copies nothing more. Each tower dequeues its own data point.
"""

from collections.abc import Sequence
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.callbacks.base import Callback
from tpack.dataflow.base import DataFlow
from tpack.dataflow.state import StatelessError
from tpack.errors import ConfigError, InputError
from tpack.input_source.base import FeedfreeInput
from tpack.input_source.data_wait import DataWaitReport
from tpack.input_source.enqueue import EnqueueCallback, QueueOps
from tpack.input_source.queue_size import QueueSizeSummary
from tpack.input_source.resumable import ResumableInput
from tpack.input_source.stream import check_dataflow
from tpack.input_source.taking import DataTaker

QUEUE_CAPACITY = 50


class QueueInput(ResumableInput, FeedfreeInput):
    """Dequeue the data points of a DataFlow, which is repeated for ever.

    When the dataflow raises, has no data, or gives a data point that does not fit, steps may still use what was
    enqueued before; the step that finds no more fails with that error.

    Args:
        ds: the dataflow. It is iterated in another thread, its ``reset_state`` included.
        queue: a ``tf.QueueBase`` with the dtypes of the signature; a FIFO queue of 50 data points unless given.

    Creates:
        The queue, on ``/device:CPU:0``, local variables for what was taken out and how long that took, the summary
        ``queue_size``, and the statistic ``data_wait_ratio``: the part of an epoch that steps waited for data.

    Raises:
        ConfigError: `ds` is no DataFlow; in `setup`, the queue has other dtypes, or the signature is empty.
    """

    def __init__(self, ds: DataFlow, queue: Any = None) -> None:
        self.ds = check_dataflow(ds, type(self).__name__)
        self.queue = queue
        self._thread_owner: EnqueueCallback
        self._taker: DataTaker

    def refill_queue(self) -> None:
        """Empty the queue, then fill it from the first data point of the dataflow on.

        Raises:
            InputError: The thread has failed, or the queue is of a kind that cannot be emptied.
        """
        if not self._can_be_emptied():
            raise InputError(
                f"{self} cannot begin again: its {type(self.queue).__name__} always keeps some data points"
            )
        self._thread_owner.restart()

    def _setup(self, signature: Sequence[Any]) -> None:
        self._check_queue(signature)
        enqueued = self._specs_to_enqueue(signature)
        stream = self._open_stream(self.ds, enqueued)
        with self.cached_name_scope(), tf.device("/device:CPU:0"):
            if self.queue is None:
                self.queue = self._make_queue(enqueued)
            ops = self._make_ops(enqueued)
            self._taker = DataTaker()
        self._thread_owner = EnqueueCallback(stream, ops, self._taker, f"{self} of {type(self.ds).__name__}")

    def _check_queue(self, signature: Sequence[Any]) -> None:
        wanted = [spec.dtype.name for spec in signature]
        if not wanted:
            raise ConfigError(f"{self} needs a signature with at least one entry")
        if self.queue is not None and wanted != (came := [dtype.name for dtype in self.queue.dtypes]):
            raise ConfigError(f"the queue given to {self} has the dtypes {came}, the signature wants {wanted}")

    def _make_ops(self, specs: Sequence[Any]) -> QueueOps:
        placeholders = [tf.placeholder(spec.dtype, spec.shape, name=spec.name) for spec in specs]
        return QueueOps(
            placeholders=placeholders,
            enqueue=self.queue.enqueue(placeholders),
            dequeue=as_list(self.queue.dequeue())[0].op,
            size=self.queue.size(),
            close=self.queue.close(cancel_pending_enqueues=True),
            can_be_emptied=self._can_be_emptied(),
        )

    def _can_be_emptied(self) -> bool:
        return isinstance(self.queue, (tf.FIFOQueue, tf.PaddingFIFOQueue))

    def _get_input_tensors(self) -> Sequence[Any]:
        with self.cached_name_scope():
            tensors = self._taker.take(self._dequeue, self._points_at_once, timed=not self._num_held_back)
        for tensor, spec in zip(tensors, self._require_setup(), strict=True):
            # The shapes of a queue that was given are checked with all others by the caller.
            if tensor.shape.is_compatible_with(spec.shape):
                tensor.set_shape(spec.shape)
        return tensors

    def _get_callbacks(self) -> Sequence[Callback]:
        return [self._thread_owner, QueueSizeSummary(self, self.queue), DataWaitReport(str(self), self._waited)]

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
        return self._taker.num_taken() - self._num_held_back * self._points_at_once

    def _waited(self) -> float | None:
        return None if self._num_held_back else self._taker.waited()

    # How the queue is used, which `BatchQueueInput` does differently.

    @property
    def _points_at_once(self) -> int:
        return 1

    def _specs_to_enqueue(self, signature: Sequence[Any]) -> Sequence[Any]:
        return signature

    def _make_queue(self, specs: Sequence[Any]) -> Any:
        return tf.FIFOQueue(QUEUE_CAPACITY, [spec.dtype for spec in specs], name="input_queue")

    def _dequeue(self) -> list[Any]:
        return as_list(self.queue.dequeue(name="dequeue"))


def as_list(tensors: Any) -> list[Any]:
    """Return what a queue gives as a list; it is a bare tensor when there is one component."""
    return list(tensors) if isinstance(tensors, (list, tuple)) else [tensors]
