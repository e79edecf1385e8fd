"""Single data points in a queue, which the towers take out in batches.

Batching then costs no copy in Python, only the one that dequeues.
"""

from collections.abc import Sequence
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.dataflow.base import DataFlow
from tpack.errors import ConfigError
from tpack.input_source.queue_input import QUEUE_CAPACITY, QueueInput, as_list


class BatchQueueInput(QueueInput):
    """Enqueue data points that have no batch dimension and dequeue B of them at once, for each tower.

    The signature has the batch dimension, of size B or unknown, and is known otherwise. Data points that fill no
    whole batch before a failure of the dataflow are dropped.

    Args:
        ds: the dataflow of single data points.
        batch_size: B.
        queue: a ``tf.QueueBase`` with the dtypes of the signature, its shapes without the batch dimension, and room
            for at least one batch; a FIFO queue of 50 batches unless given.

    Raises:
        ConfigError: As for `QueueInput`; B is less than 1; in `setup`, an entry of the signature has no batch
            dimension, a batch dimension other than B, or another dimension that is unknown.
    """

    def __init__(self, ds: DataFlow, batch_size: int, queue: Any = None) -> None:
        super().__init__(ds, queue)
        if batch_size < 1:
            raise ConfigError(f"wanted a batch size of at least 1, got {batch_size}")
        self.batch_size = int(batch_size)

    @property
    def _points_at_once(self) -> int:
        return self.batch_size

    def _specs_to_enqueue(self, signature: Sequence[Any]) -> Sequence[Any]:
        return [self._without_batch_dimension(spec) for spec in signature]

    def _without_batch_dimension(self, spec: Any) -> Any:
        if not spec.shape.rank or not spec.shape[1:].is_fully_defined():
            raise ConfigError(
                f"{self} needs a batch dimension and knows all others, got the shape {spec.shape} of '{spec.name}'"
            )
        if spec.shape.as_list()[0] not in (None, self.batch_size):
            raise ConfigError(f"{self} makes batches of {self.batch_size}, the signature wants {spec}")
        return tf.TensorSpec(spec.shape[1:], spec.dtype, spec.name)

    def _make_queue(self, specs: Sequence[Any]) -> Any:
        dtypes, shapes = ([spec.dtype for spec in specs], [spec.shape for spec in specs])
        return tf.FIFOQueue(QUEUE_CAPACITY * self.batch_size, dtypes, shapes, name="input_queue")

    def _dequeue(self) -> list[Any]:
        return as_list(self.queue.dequeue_many(self.batch_size, name="dequeue"))

    def _size(self) -> int:
        return len(self.ds) // self.batch_size
