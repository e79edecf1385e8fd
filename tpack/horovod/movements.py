"""Rows and Python objects that move between workers, under Horovod's names: gathered, sent by one, dealt out, added.

Tensors go directly to the workers that need them. Gradients of floating-point tensors pass through all operations, as
Horovod's do.
"""

import functools
import pickle
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError
from tpack.horovod.collective import Call, about_factors, about_tensors, any_rows, begin, name_of, scaled
from tpack.horovod.compression import Compression
from tpack.horovod.errors import UnevenRowsError
from tpack.horovod.operations import Average, ReduceOperation, Sum
from tpack.horovod.process_sets import ProcessSet, global_process_set
from tpack.horovod.reductions import allreduce
from tpack.horovod.runtime import current
from tpack.multi_worker.gradient_buckets import note_exchanged
from tpack.reduction.sums import add_pair, on_device, widened
from tpack.utils.validation import check_arguments, check_count, mismatch


@check_arguments
def allgather(
    tensor: Any, name: str | None = None, ignore_name_scope: bool = False, process_set: ProcessSet = global_process_set
) -> tf.Tensor:
    """Return the rows of all workers, by rank.

    Args:
        tensor: this worker's rows.
        name: the name; None takes that of the tensor.
        ignore_name_scope: pair by the name without the scopes around it.
        process_set: the workers that take part.

    Shapes:
        [rows, ...] to [sum of rows, ...]; only the number of rows may differ between workers.

    Raises:
        ConfigError: The tensor is a scalar, or as `begin` does.
    """
    value = tf.convert_to_tensor(tensor)
    if value.shape.rank == 0:
        raise ConfigError(f"allgather got {value}, a scalar: expected rows; use tf.reshape(x, [1])")

    @tf.custom_gradient
    def gathered(rows: tf.Tensor) -> tuple[tf.Tensor, Callable[[tf.Tensor], tf.Tensor]]:
        default, about = name_of("Allgather", value), about_tensors([rows], rows_differ=True)
        call = begin("allgather", name, default, process_set, about, ignore_scope=ignore_name_scope)
        note_exchanged(rows, "allgather", call.name)
        with tf.name_scope(f"{call.name}/"):
            parts = call.swap([rows] * call.group.size, any_rows(rows.shape))
            with on_device(call.group.device()):
                counts = tf.stack([tf.shape(part)[0] for part in parts])
                whole = tf.concat(parts, axis=0)
            result, counts = call.done([whole, counts])

        def gradient(grad: tf.Tensor) -> tf.Tensor:
            mean = allreduce(grad, op=Average, name=f"{call.name}_grad", process_set=process_set)
            return tf.split(mean, counts, axis=0, num=call.group.size)[call.group.rank]

        return result, gradient

    return gathered(value)


@check_arguments
def grouped_allgather(
    tensors: Sequence[Any],
    name: str | None = None,
    ignore_name_scope: bool = False,
    process_set: ProcessSet = global_process_set,
) -> list[tf.Tensor]:
    """Return the rows of all workers for several tensors; see `allgather`."""
    values = [tf.convert_to_tensor(tensor) for tensor in tensors]
    base = name or name_of("GroupedAllgather", values[0], values[-1])
    return [allgather(each, f"{base}_{n}", ignore_name_scope, process_set) for n, each in enumerate(values)]


@check_arguments
def broadcast(
    tensor: Any,
    root_rank: int,
    name: str | None = None,
    ignore_name_scope: bool = False,
    process_set: ProcessSet = global_process_set,
) -> tf.Tensor:
    """Return the tensor of one worker, in all.

    Args:
        tensor: this worker's, whose value counts in the root only.
        root_rank: the rank of the worker that has the value, among all.
        name: the name; None takes that of the tensor.
        ignore_name_scope: pair by the name without the scopes around it.
        process_set: the workers that take part.

    Shapes:
        Unchanged, the same in all workers.

    Raises:
        ConfigError: The root is no worker of the set, or as `begin` does.
    """
    value = tf.convert_to_tensor(tensor)
    root = _rank_in(process_set, root_rank)

    @tf.custom_gradient
    def sent(own: tf.Tensor) -> tuple[tf.Tensor, Callable[[tf.Tensor], tf.Tensor]]:
        default, about = name_of("Broadcast", value), about_tensors([own], "from", root_rank)
        call = begin("broadcast", name, default, process_set, about, ignore_scope=ignore_name_scope)
        group = call.group
        note_exchanged(own, "broadcast", call.name)
        with tf.name_scope(f"{call.name}/"):
            if group.rank == root:
                sends = [group.put(call.queue, rank, [own]) for rank in group.others]
                with on_device(group.device()), tf.control_dependencies(sends):
                    result = tf.identity(own)
            else:
                taken = group.take(call.queue, root, [own.dtype.base_dtype], [own.shape])[0]
                with on_device(group.device()):
                    result = tf.identity(taken)
            (result,) = call.done([result])

        def gradient(grad: tf.Tensor) -> tf.Tensor:
            mean = allreduce(grad, op=Average, name=f"{call.name}_grad", process_set=process_set)
            return mean if group.rank == root else mean * 0

        return result, gradient

    return sent(value)


def _rank_in(process_set: ProcessSet, root_rank: int) -> int:
    """Return the place of a rank in a process set."""
    ranks = process_set.ranks or []
    if root_rank not in ranks:
        raise ConfigError(mismatch("a broadcast", "root_rank", root_rank, f"one of the ranks {ranks}"))
    return ranks.index(root_rank)


@check_arguments
def alltoall(
    tensor: Any,
    splits: Any = None,
    name: str | None = None,
    ignore_name_scope: bool = False,
    process_set: ProcessSet = global_process_set,
) -> tf.Tensor | tuple[tf.Tensor, tf.Tensor]:
    """Deal the rows of each worker out to all, and return those that were dealt to this one, by rank.

    Args:
        tensor: this worker's rows.
        splits: how many of them each worker gets, integers; None divides them evenly.
        name: the name; None takes that of the tensor.
        ignore_name_scope: pair by the name without the scopes around it.
        process_set: the workers that take part.

    Returns:
        The rows; with ``splits`` also how many came from each worker.

    Shapes:
        [rows, ...] to [received rows, ...], and [workers].

    Raises:
        UnevenRowsError: Rows cannot be divided evenly, or ``splits`` does not sum up to them.
        ConfigError: ``splits`` has another length or no integers.
        tf.errors.InvalidArgumentError: In a run, ``splits`` does not sum up to the rows.
    """
    value = tf.convert_to_tensor(tensor)
    group = current().group_of(process_set)
    counts = _checked_splits(value, splits, group.size)

    @tf.custom_gradient
    def dealt(rows: tf.Tensor) -> tuple[Any, Callable[..., tf.Tensor]]:
        default, about = name_of("Alltoall", value), about_tensors([rows], rows_differ=True)
        call = begin("alltoall", name, default, process_set, about, ignore_scope=ignore_name_scope)
        note_exchanged(rows, "alltoall", call.name)
        with tf.name_scope(f"{call.name}/"):
            parts = call.swap(tf.split(rows, counts, axis=0, num=group.size), any_rows(rows.shape))
            with on_device(group.device()):
                received = tf.stack([tf.shape(part)[0] for part in parts])
                whole = tf.concat(parts, axis=0)
            result, received = call.done([whole, received])

        def gradient(grad: tf.Tensor, of_counts: Any) -> tf.Tensor:
            return alltoall(grad, received, f"{call.name}_grad", process_set=process_set)[0]

        return (result, received), gradient

    result, received = dealt(value)
    return result if splits is None else (result, received)


def _checked_splits(value: tf.Tensor, splits: Any, size: int) -> tf.Tensor:
    if splits is None:
        rows = value.shape.as_list()[0] if value.shape.rank else None
        if rows is not None and rows % size:
            raise UnevenRowsError(f"alltoall got {rows} rows for {size} workers: expected a multiple; use splits=")
        return tf.fill([size], tf.shape(value)[0] // size)
    counts = tf.convert_to_tensor(splits)
    if not counts.dtype.is_integer or counts.shape.as_list() not in ([size], [None]):
        raise ConfigError(mismatch("alltoall", "splits", splits, f"{size} integers, one for each worker"))
    known, rows = tf.get_static_value(counts), value.shape.as_list()[0] if value.shape.rank else None
    if known is not None and rows is not None and sum(known) != rows:
        raise UnevenRowsError(f"alltoall got splits={known.tolist()}: expected numbers that add up to {rows} rows")
    with tf.control_dependencies(
        [tf.debugging.assert_equal(tf.reduce_sum(tf.cast(counts, tf.int32)), tf.shape(value)[0], message="alltoall")]
    ):
        return tf.identity(tf.cast(counts, tf.int32))


@check_arguments
def reducescatter(
    tensor: Any,
    device_dense: str = "",
    compression: Any = Compression.none,
    op: ReduceOperation = Average,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
    ignore_name_scope: bool = False,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> tf.Tensor:
    """Add the tensors of all workers, and return this worker's share of the rows; the first get one more if need be.

    Args:
        tensor: this worker's, a dense tensor.
        device_dense: the device of what is computed.
        compression: see `allreduce`.
        op: ``Average`` or ``Sum``.
        name: the name; None takes that of the tensor.
        process_set: the workers that take part.
        ignore_name_scope: pair by the name without the scopes around it.
        prescale_factor: see `allreduce`.
        postscale_factor: see `allreduce`.

    Shapes:
        [rows, ...], the same in all workers, to [share of rows, ...].

    Raises:
        ConfigError: The tensor is a scalar, or another operation.
        NotImplementedError: The tensor is ``IndexedSlices``.
    """
    if isinstance(tensor, tf.IndexedSlices):
        raise NotImplementedError("reducescatter got IndexedSlices: expected a dense tensor; use tf.convert_to_tensor")
    if op not in (Average, Sum):
        raise ConfigError(mismatch("reducescatter", "op", op, "hvd.Average or hvd.Sum"))
    with tf.device(device_dense):
        sent, context = compression.compress(tf.convert_to_tensor(tensor))
        if sent.shape.rank == 0:
            raise ConfigError(f"reducescatter got {sent}, a scalar: expected rows")

        @tf.custom_gradient
        def scattered(rows: tf.Tensor) -> tuple[tf.Tensor, Callable[[tf.Tensor], tf.Tensor]]:
            default = name_of("Reducescatter", sent)
            about = about_tensors([rows], op, *about_factors(prescale_factor, postscale_factor))
            call = begin("reducescatter", name, default, process_set, about, ignore_scope=ignore_name_scope)
            result = _share_of_sum(call, rows, op, prescale_factor, postscale_factor)

            def gradient(grad: tf.Tensor) -> tf.Tensor:
                factor = (call.group.size if op is Sum else 1) * prescale_factor * postscale_factor
                return allgather(scaled(grad, factor), f"{call.name}_grad", process_set=process_set)

            return result, gradient

        return compression.decompress(scattered(sent), context)


def _share_of_sum(call: Call, rows: tf.Tensor, op: ReduceOperation, prescale: float, postscale: float) -> tf.Tensor:
    group = call.group
    note_exchanged(rows, "reducescatter", call.name)
    with tf.name_scope(f"{call.name}/"):
        sent = scaled(rows, prescale)
        if sent.shape.is_fully_defined():
            each, rest = divmod(int(sent.shape[0]), group.size)
            counts: Any = [each + (rank < rest) for rank in range(group.size)]
        else:
            number = tf.shape(sent)[0]
            counts = number // group.size + tf.cast(tf.range(group.size) < number % group.size, tf.int32)
        parts = call.swap(tf.split(sent, counts, axis=0, num=group.size), any_rows(rows.shape))
        with on_device(group.device()):
            total = functools.reduce(add_pair, map(widened, parts))
            if op is Average:
                is_integer = total.dtype.base_dtype.is_integer
                total = scaled(total, 1 / group.size) if is_integer else total / group.size
            total = scaled(tf.cast(total, rows.dtype.base_dtype), postscale)
        return call.done([total])[0]


@check_arguments
def grouped_reducescatter(
    tensors: Sequence[Any],
    device_dense: str = "",
    compression: Any = Compression.none,
    op: ReduceOperation = Average,
    process_set: ProcessSet = global_process_set,
    ignore_name_scope: bool = False,
    name: str | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> list[tf.Tensor]:
    """Return this worker's shares of the sums of several tensors; see `reducescatter`."""
    values = [tf.convert_to_tensor(tensor) for tensor in tensors]
    base = name or name_of("GroupedReducescatter", values[0], values[-1])
    return [
        reducescatter(
            each, device_dense, compression, op, f"{base}_{n}", process_set, ignore_name_scope, prescale_factor,
            postscale_factor,
        )
        for n, each in enumerate(values)
    ]  # fmt: skip


@check_arguments
def broadcast_object(
    obj: Any = None,
    root_rank: int = 0,
    session: Any = None,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """Return the object of one worker, in all; it is pickled.

    Args:
        obj: the root's counts.
        root_rank: its rank among all.
        session: not needed: it is sent in a session of its own.
        name: the name by which workers pair it.
        process_set: the workers that take part.

    Raises:
        ConfigError, CollectiveError: As `broadcast` and its run do.
    """
    check_count("broadcast_object", "root_rank", root_rank, 0)
    is_root = current().group.rank == root_rank
    data = _pickled(obj) if is_root else np.zeros(0, np.uint8)
    with tf.Graph().as_default():
        size = broadcast(tf.constant([data.size]), root_rank, f"{name or 'object'}_size", process_set=process_set)
        buffer = tf.placeholder(tf.uint8, [None])
        sent = broadcast(buffer, root_rank, f"{name or 'object'}_bytes", process_set=process_set)
        with tf.Session() as session_of_its_own:
            count, received = session_of_its_own.run([size, sent], {buffer: data})
    return obj if is_root else pickle.loads(received[: int(count[0])].tobytes())


@check_arguments
def broadcast_object_fn(
    root_rank: int = 0, session: Any = None, name: str | None = None, process_set: ProcessSet = global_process_set
) -> Callable[[Any], Any]:
    """Return a function of an object that does what `broadcast_object` does."""
    check_count("broadcast_object_fn", "root_rank", root_rank, 0)
    return lambda obj: broadcast_object(obj, root_rank, session, name, process_set)


@check_arguments
def allgather_object(
    obj: Any, session: Any = None, name: str | None = None, process_set: ProcessSet = global_process_set
) -> list[Any]:
    """Return the objects of all workers, by rank; they are pickled.

    Args:
        obj: this worker's.
        session: not needed: they are sent in a session of its own.
        name: the name by which workers pair it.
        process_set: the workers that take part.

    Raises:
        ConfigError, CollectiveError: As `allgather` and its run do.
    """
    data = _pickled(obj)
    with tf.Graph().as_default():
        buffer = tf.placeholder(tf.uint8, [None])
        sizes = allgather(tf.constant([data.size]), f"{name or 'object'}_sizes", process_set=process_set)
        sent = allgather(buffer, f"{name or 'object'}_all_bytes", process_set=process_set)
        with tf.Session() as session_of_its_own:
            counts, received = session_of_its_own.run([sizes, sent], {buffer: data})
    parts = np.split(received, np.cumsum(counts)[:-1])
    return [pickle.loads(part.tobytes()) for part in parts]


@check_arguments
def barrier(process_set: ProcessSet = global_process_set) -> None:
    """Wait until all workers of a set have called it."""
    allgather_object(None, name="barrier", process_set=process_set)


def _pickled(obj: Any) -> np.ndarray:
    return np.frombuffer(pickle.dumps(obj, pickle.HIGHEST_PROTOCOL), np.uint8)
