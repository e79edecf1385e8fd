"""Sums and copies on chosen devices: the steps of which every algorithm is made.

**Placement.** A result belongs on the device of the gradient that it replaces, whatever ``tf.device`` scope the caller
has open. A gradient without a device has no name to repeat, so its result is colocated with it.

**Order.** Every run of a graph adds in the same order, so that runs repeat bit by bit. TensorFlow alone does not
promise that: see `fix_summation_order`. It takes the order from the names of the gradients.

**Dtype.** A sum of 16-bit floats that is rounded after each addition soon stalls: 2048 + 1 is 2048 in float16. Where K
of them are added at once, they are added and divided in float32 and rounded once (`sum_tensors`). A ring or halving
adds pair by pair and sends partial sums in the gradients' dtype (`add_pair`), rounding after each pair. Adding a pair
in float32 would give the same bits, because the sum of two 16-bit floats is rounded correctly either way; only 32-bit
partial sums on the links, twice the bytes, would be more exact.

**Division.** After the sum, in its buffer, so it needs no memory. TensorFlow's optimizer may make it a multiplication
by 1/K, which differs by one rounding when K is not a power of two.

**Sparse.** The sum of K sets of slices is their concatenation: rows of a duplicate index add up, as optimizers do.
The cost depends on the rows touched and not on the size of the table. When the towers together touch more rows than
the table has, a dense gradient is cheaper.
"""

import contextlib
from collections.abc import Iterator, Sequence

import tensorflow.compat.v1 as tf

from tpack.compat.operations import fix_summation_order
from tpack.tower.grads import Column, Gradient, ReduceOp, is_sparse

_NARROW = ("float16", "bfloat16")


@contextlib.contextmanager
def on_device(device: str) -> Iterator[None]:
    """Place new operations on ``device`` alone, ignoring every scope outside, colocation included."""
    with tf.get_default_graph().colocate_with(None, ignore_existing=True), tf.device(device):
        yield


@contextlib.contextmanager
def on_device_of(value: Gradient | tf.Variable) -> Iterator[None]:
    """Place new operations where ``value``, a tensor, ``IndexedSlices`` or variable, is."""
    placed = on_device(value.device) if value.device else value.graph.colocate_with(value.op, ignore_existing=True)
    with placed:
        yield


def on_turn(devices: Sequence[str] | None, column: Column, turn: int) -> contextlib.AbstractContextManager[None]:
    """Place new operations on device ``turn`` of a list, counted round; without a list, on those of the column."""
    if devices is None:
        return on_device_of(column[turn % len(column)])
    return on_device(devices[turn % len(devices)])


def sum_column(column: Column, op: ReduceOp) -> Gradient:
    """Reduce K dense tensors or ``IndexedSlices`` of one variable to one, on the current device."""
    divisor = op.divisor(len(column))
    return concat_slices(column, divisor) if is_sparse(column[0]) else sum_tensors(column, divisor)


def sum_tensors(tensors: Sequence[tf.Tensor], divisor: float = 1) -> tf.Tensor:
    """Sum dense tensors on the current device, in the same order in every run, and divide by ``divisor``."""
    total = tf.add_n([widened(tensor) for tensor in tensors])
    fix_summation_order([total.op])
    return tf.cast(divide(total, divisor), tensors[0].dtype.base_dtype)


def add_pair(left: tf.Tensor, right: tf.Tensor) -> tf.Tensor:
    """Add two dense tensors on the current device, in an addition that is never joined with a neighbour.

    A chain of these adds in the order in which it is written. Unlike `sum_tensors`, it may write into a summand
    without other readers.
    """
    total = tf.add(left, right)
    fix_summation_order([total.op])
    return total


def concat_slices(column: Column, divisor: int = 1) -> tf.IndexedSlices:
    """Concatenate the slices of K towers, in their order, with the first known ``dense_shape``, on the current device.

    Args:
        column: K ``IndexedSlices`` of one variable.
        divisor: K for a mean, 1 for a sum.

    Shapes:
        values: K times [rows_k, ...] to [sum of rows_k, ...]
        indices: K times [rows_k] to [sum of rows_k]
    """
    values = divide(tf.concat([slices.values for slices in column], axis=0), divisor)
    indices = tf.concat([slices.indices for slices in column], axis=0)
    dense_shape = next((slices.dense_shape for slices in column if slices.dense_shape is not None), None)
    return tf.IndexedSlices(values, indices, dense_shape)


def dense_slices(slices: tf.IndexedSlices, shape: tf.TensorShape) -> tf.Tensor:
    """Add the rows of slices into a tensor of a known shape, on the current device."""
    total = tf.math.unsorted_segment_sum(widened(slices.values), slices.indices, shape.as_list()[0])
    dense = tf.cast(total, slices.dtype.base_dtype)
    dense.set_shape(shape)
    return dense


def divide(total: tf.Tensor, divisor: float) -> tf.Tensor:
    """Divide a tensor by a number on the current device; by 1, return it as it is."""
    return total if divisor == 1 else tf.realdiv(total, tf.constant(divisor, total.dtype.base_dtype))


def widened(tensor: tf.Tensor) -> tf.Tensor:
    """Return ``tensor`` in the dtype of its additions, on the current device: float32 for 16-bit floats."""
    return tf.cast(tensor, tf.float32) if tensor.dtype.base_dtype.name in _NARROW else tensor


def wider(tensor: tf.Tensor) -> tf.Tensor:
    """Return ``tensor`` in a dtype, on the current device, in which the mean of equal numbers is that number.

    That is float64 for float32 and float32 for 16-bit floats; others stay as they are.
    """
    return tf.cast(tensor, tf.float64) if tensor.dtype.base_dtype == tf.float32 else widened(tensor)


def copy_to_each(total: tf.Tensor, column: Column) -> list[tf.Tensor]:
    """Copy ``total`` to the device of every member of ``column``.

    Copies between CPU devices of one session share a buffer. They remain different tensors, because each tower's
    optimizer needs its input on its own device.
    """
    copies = []
    for member in column:
        with on_device_of(member):
            copies.append(tf.identity(total))
    return copies


def copy_slices_to_each(total: tf.IndexedSlices, column: Column) -> list[tf.IndexedSlices]:
    """Copy reduced slices to the device of every member of ``column``, which keeps its own ``dense_shape``."""
    copies = []
    for member in column:
        with on_device_of(member):
            values, indices = tf.identity(total.values), tf.identity(total.indices)
            dense_shape = member.dense_shape if member.dense_shape is not None else total.dense_shape
            if dense_shape is not None:
                dense_shape = tf.identity(dense_shape)
        copies.append(tf.IndexedSlices(values, indices, dense_shape))
    return copies
