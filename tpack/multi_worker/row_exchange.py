"""The exchange of ids, rows and gradients of rows between workers, among which a table's rows are dealt out.

The distinct ids of a worker go to the owners of their rows, row r to worker r mod W. The rows come back, and later
their gradients go the same way as the ids, in the same order, so without them.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import tensorflow.compat.v1 as tf

from tpack.multi_worker.all_reduce import Exchange
from tpack.multi_worker.gradient_buckets import note_exchanged
from tpack.multi_worker.worker_group import WorkerGroup
from tpack.reduction.sums import divide, on_device
from tpack.tower.grads import Gradient


@dataclass(frozen=True)
class TableSpec:
    """A table, by its name inside a tower."""

    name: str
    rows: int
    width: int
    dtype: tf.DType

    def __str__(self) -> str:
        return f"{self.name!r} of {self.rows} x {self.width} {self.dtype.name}"


def checked_ids(spec: TableSpec, ids: tf.Tensor) -> tf.Tensor:
    """Return ids that are the numbers of rows, or fail the step."""
    size = tf.constant(spec.rows, ids.dtype)
    is_good = tf.reduce_all((ids >= 0) & (ids < size))
    words = tf.constant(f"sharded_embedding got ids of {spec.name!r} from"), tf.constant("to")
    data = [words[0], tf.reduce_min(ids), words[1], tf.reduce_max(ids), tf.constant(f": expected 0 to {spec.rows - 1}")]
    # Without the condition that ``tf.debugging.Assert`` makes, a function that copies of towers would copy.
    check = tf.raw_ops.Assert(condition=is_good, data=data)
    with tf.control_dependencies([check]):
        return tf.identity(ids)


class RowLookUp:
    """One look-up in the K towers of a worker, on its way to the owners and back.

    Args:
        group: the workers.
        spec: the table.
        part: this worker's rows of it.
        number: of the look-ups in this table, from 0.

    Attributes:
        outputs: the rows of each tower, by its index.
        served: operations of a step, after which all rows are read and have arrived.
    """

    def __init__(self, group: WorkerGroup, spec: TableSpec, part: tf.Variable, number: int) -> None:
        self.number = number
        self.outputs: dict[int, tf.Tensor] = {}
        self.served: list[tf.Operation] = []
        self.spec = spec
        self._group, self._part = group, part
        self._queues = f"tables/{spec.name}/{number}"
        self._wire_dtype = tf.int32 if spec.rows <= tf.int32.max else tf.int64

    def rows_for(self, ids: Sequence[tf.Tensor]) -> list[tf.Tensor]:
        """Return the rows of the ids of each tower, on this worker's CPU.

        Shapes:
            K tensors of any shape in; K of [N, width] out.
        """
        group, workers, width = self._group, self._group.size, self.spec.width
        with on_device(group.device()):
            flat = [tf.cast(tf.reshape(each, [-1]), tf.int64) for each in ids]
            distinct, self._places = tf.unique(checked_ids(self.spec, tf.concat(flat, axis=0)))
            self._num_distinct = tf.size(distinct)
            self._owners = tf.cast(distinct % workers, tf.int32)
            own_rows = tf.cast(distinct // workers, self._wire_dtype)
            wanted = tf.dynamic_partition(own_rows, self._owners, workers)
            order = tf.dynamic_partition(tf.range(self._num_distinct), self._owners, workers)
        self.served += self._send("ids", wanted)
        self._asked = self._take("ids", wanted, [])
        with on_device(group.device()):
            read = [self._part.sparse_read(asked) for asked in self._asked]
        self.served += self._send("rows", read)
        found = self._take("rows", read, [width])
        # Also where nothing needs them, so that no queue is ever full.
        self.served += [each.op for each in found]
        with on_device(group.device()), tf.control_dependencies(self.served):
            rows = tf.reshape(tf.dynamic_stitch(order, found), [-1, width])
            note_exchanged(tf.IndexedSlices(rows, distinct), self._queues, f"of a table of {self.spec.rows}")
            places = tf.split(self._places, [tf.size(each) for each in flat], num=len(flat))
            return [tf.gather(rows, each) for each in places]

    def exchange_gradients(self, grads: Sequence[Gradient], exchange: Exchange) -> tuple[tf.Tensor, tf.IndexedSlices]:
        """Return this worker's gradients of its distinct rows, and those of all workers of the rows that lie here.

        Shapes:
            K dense ones of the K outputs in, or ``IndexedSlices`` into them.
        """
        group, width = self._group, self.spec.width
        with on_device(group.device()):
            dense = [tf.reshape(tf.convert_to_tensor(grad), [-1, width]) for grad in grads]
            own = tf.math.unsorted_segment_sum(tf.concat(dense, axis=0), self._places, self._num_distinct)
            sent = tf.cast(own, exchange.dtype_on_wire(own.dtype))
            parts = tf.dynamic_partition(sent, self._owners, group.size)
        sends = self._send("gradients", parts)
        arrived = self._take("gradients", parts, [width])
        with on_device(group.device()), tf.control_dependencies(sends):
            values = tf.cast(tf.concat(arrived, axis=0), self.spec.dtype)
            return own, tf.IndexedSlices(values, tf.cast(tf.concat(self._asked, axis=0), tf.int64))

    def _send(self, what: str, tensors: Sequence[tf.Tensor]) -> list[tf.Operation]:
        return [self._group.put(f"{self._queues}/{what}", o, [tensors[o]]) for o in self._group.others]

    def _take(self, what: str, own: Sequence[tf.Tensor], row_shape: Sequence[int]) -> list[tf.Tensor]:
        """Return the tensors of all workers for this one, in the order of the ranks."""
        group, shape = self._group, tf.TensorShape([None, *row_shape])
        return [
            own[rank]
            if rank == group.rank
            else group.take(f"{self._queues}/{what}", rank, [own[rank].dtype.base_dtype], [shape])[0]
            for rank in range(group.size)
        ]


def joined_rows(
    group: WorkerGroup, slices: Sequence[tf.IndexedSlices], shape: Sequence[int], divisor: int = 1
) -> tf.IndexedSlices:
    """Return distinct rows of an owner: those of equal numbers are added in the order of look-ups and ranks.

    Args:
        group: the workers.
        slices: of each look-up, those of all workers.
        shape: that of the owner's part.
        divisor: the number by which sums are divided.
    """
    with on_device(group.device()):
        indices, places = tf.unique(tf.concat([each.indices for each in slices], axis=0))
        values = tf.concat([each.values for each in slices], axis=0)
        total = tf.math.unsorted_segment_sum(values, places, tf.size(indices))
        return tf.IndexedSlices(divide(total, divisor), indices, tf.constant(shape, tf.int64))
