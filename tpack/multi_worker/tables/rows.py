"""Rows dealt out over W workers, as variables and on their way: row r lies with worker r mod W, as its row r div W.

Low row numbers, which are the frequent ones of a sorted vocabulary, are so shared by all. Graphs of several workers
meet in a variable if its name, task and container are the same, so any worker can read and set the rows of all. Savers
take the whole as one variable under one name, as one process would save it: it is joined when somebody reads it.

In a step, the distinct ids of a worker go to the owners of their rows. The rows come back, and later their gradients go
the same way as the ids, in the same order, so without them.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow.compat.v1 as tf

from tpack.compat.graphs import VARIABLE_VALUE_KEY, BaseVariable, SaveableValue, Trackable
from tpack.multi_worker.all_reduce import Exchange
from tpack.multi_worker.gradient_buckets import note_exchanged
from tpack.multi_worker.worker_group import WorkerGroup
from tpack.reduction.sums import divide, on_device
from tpack.tower.grads import Gradient

PIECE_BYTES = 64 * 2**20
"""The most bytes of a part that travel in one message, which has a limit of 2 GiB."""


def num_rows_of(rank: int, rows: int, workers: int) -> int:
    """Return the number of rows of a worker."""
    return len(range(rank, rows, workers))


class RowPart:
    """The rows of one worker, as the graph of any worker reaches them.

    Args:
        group: the workers.
        rank: the one with the rows.
        name: that of the variable in its graph.
        shape: of its part.
        dtype: that of the rows.

    Attributes:
        device: where they are.
        handle: the resource.
        initializer: assigns its second input, which a session can feed.
    """

    def __init__(self, group: WorkerGroup, rank: int, name: str, shape: Sequence[int], dtype: tf.DType) -> None:
        self.device = group.device(rank)
        self.shape, self.dtype = tf.TensorShape(shape), dtype
        with on_device(self.device):
            self.handle = tf.raw_ops.VarHandleOp(container=group.run, shared_name=name, dtype=dtype, shape=shape)
            self.initializer = tf.raw_ops.AssignVariableOp(resource=self.handle, value=tf.zeros(shape, dtype))

    def pieces(self) -> list[tuple[int, tf.Tensor]]:
        """Return the rows in pieces of at most `PIECE_BYTES`, each with the number of its first row in this part."""
        count, row_bytes = int(self.shape[0]), int(np.prod(self.shape[1:].as_list())) * int(self.dtype.size)
        step = max(1, PIECE_BYTES // max(1, row_bytes))
        with on_device(self.device):
            value = tf.raw_ops.ReadVariableOp(resource=self.handle, dtype=self.dtype)
            return [(start, value[start : start + step]) for start in range(0, count, step)]

    def rows_at(self, places: tf.Tensor) -> tf.Tensor:
        """Return some rows, by their numbers in this part; read where they are."""
        with on_device(self.device):
            return tf.raw_ops.ResourceGather(resource=self.handle, indices=tf.identity(places), dtype=self.dtype)

    def assign(self, value: tf.Tensor) -> tf.Operation:
        """Return an operation that sets all rows of this part."""
        with on_device(self.device):
            return tf.raw_ops.AssignVariableOp(resource=self.handle, value=tf.identity(value))


class RowShardedVariable(Trackable):
    """Variable of W workers with a part of the rows in each, seen as one.

    It is not a ``tf.Variable``, whose handle a saver would use: saving joins the parts, restoring cuts the value.

    Args:
        group: the workers.
        own: this worker's part, a variable in its task and in the container of the run.
        rows: the number of rows of all.
    """

    trainable = False
    _save_slice_info = None
    _in_graph_mode = True
    ref = BaseVariable.ref

    def __init__(self, group: WorkerGroup, own: tf.Variable, rows: int) -> None:
        self._group, self._own = group, own
        rest = own.shape.as_list()[1:]
        self.shape = tf.TensorShape([rows, *rest])
        with tf.init_scope(), tf.name_scope(f"{own.op.name}/parts/"):
            self.components = [
                RowPart(group, rank, own.op.name, [num_rows_of(rank, rows, group.size), *rest], self.dtype)
                for rank in range(group.size)
            ]
            # Parts are initialised by their workers.
            self.initializer = tf.no_op(name="initialized_by_workers")
            self._fetched = self.read_value()

    name = property(lambda self: str(self._own.name), doc="The name of the own part.")
    op = property(lambda self: self._own.op, doc="The operation of the own part, whose name is that in checkpoints.")
    graph = property(lambda self: self._own.graph, doc="The graph.")
    dtype = property(lambda self: self._own.dtype.base_dtype, doc="The dtype.")
    device = property(lambda self: self._group.device(), doc="The device on which the parts are joined.")
    _shared_name = property(lambda self: str(self._own.op.name))

    def read_value(self) -> tf.Tensor:
        """Return a tensor that joins the parts of all workers, after its control dependencies."""
        workers = self._group.size
        found = [(rank, *piece) for rank, part in enumerate(self.components) for piece in part.pieces()]
        with on_device(self.device):
            places = [
                tf.range(rank + workers * start, rank + workers * (start + int(piece.shape[0])), workers)
                for rank, start, piece in found
            ]
            whole = tf.dynamic_stitch(places, [piece for *_, piece in found])
        whole.set_shape(self.shape)
        return whole

    value = read_value

    def sparse_read(self, indices: tf.Tensor, name: str | None = None) -> tf.Tensor:
        """Return the rows at a vector of row numbers, each read where it is; the other workers need not step."""
        workers = self._group.size
        with tf.name_scope(name or "read_rows"), on_device(self.device):
            owners = tf.cast(indices % workers, tf.int32)
            asked = tf.dynamic_partition(indices // workers, owners, workers)
            places = tf.dynamic_partition(tf.range(tf.size(indices)), owners, workers)
            found = [part.rows_at(each) for part, each in zip(self.components, asked, strict=True)]
        with on_device(self.device):
            return tf.reshape(tf.dynamic_stitch(places, found), [-1, *self.shape.as_list()[1:]])

    def split_value(self, value: Any) -> list[Any]:
        """Return the part of each worker of a whole tensor or array."""
        return [value[rank :: self._group.size] for rank in range(self._group.size)]

    def assign(self, value: tf.Tensor, read_value: bool = False) -> tf.Operation:
        """Return an operation that sets the parts of all workers; ``read_value`` has no effect."""
        with on_device(self.device):
            parts = self.split_value(tf.convert_to_tensor(value, self.dtype))
        return tf.group(*(part.assign(own) for part, own in zip(self.components, parts, strict=True)))

    def load(self, value: npt.ArrayLike, session: tf.Session | None = None) -> None:
        """Set the parts of all workers in a session, without a change of the graph."""
        parts = self.split_value(np.asarray(value, self.dtype.as_numpy_dtype))
        initializers = [part.initializer for part in self.components]
        feeds = {op.inputs[1]: part for op, part in zip(initializers, parts, strict=True)}
        (session or tf.get_default_session()).run(initializers, feeds)

    def eval(self, session: tf.Session | None = None) -> np.ndarray:
        """Return the whole value in a session as an array."""
        return self._fetched.eval(session=session)

    def get_shape(self) -> tf.TensorShape:
        """Return the shape of the whole."""
        return self.shape

    def is_initialized(self, name: str | None = None) -> tf.Tensor:
        """Return a boolean tensor: whether the own part is initialised."""
        return self._own.is_initialized(name)

    def to_proto(self, export_scope: str | None = None) -> object:
        """Return the own part as a message."""
        return self._own.to_proto(export_scope)

    def _gather_saveables_for_checkpoint(self) -> dict[str, Callable[..., Any]]:
        """Return the saveables for TensorFlow's savers, which may give it another name."""
        return {
            VARIABLE_VALUE_KEY: lambda name="": SaveableValue(
                self, name or self.op.name, self.read_value, self.assign, self.device
            )
        }

    def _as_graph_element(self) -> tf.Tensor:
        """Return an existing tensor for sessions that fetch the value, since their graph may be final."""
        return self._fetched

    def __repr__(self) -> str:
        return f"<RowShardedVariable {self.op.name!r} {self.shape} {self.dtype.name} of {self._group.size} workers>"


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
