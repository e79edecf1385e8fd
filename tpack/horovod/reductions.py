"""Reductions of the tensors of all workers, under Horovod's names, with gradients."""

import dataclasses
import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError
from tpack.horovod.collective import Call, about_factors, about_tensors, begin, name_of, scaled
from tpack.horovod.compression import Compression
from tpack.horovod.operations import Adasum, Average, Max, Min, Product, ReduceOperation, Sum
from tpack.horovod.process_sets import ProcessSet, global_process_set
from tpack.horovod.runtime import current
from tpack.horovod.sessions import JOINED, collective_names
from tpack.multi_worker.all_reduce import Exchange, all_reduce_between_workers
from tpack.multi_worker.gradient_buckets import note_exchanged
from tpack.reduction.sums import add_pair, on_device, widened
from tpack.tower.grads import ReduceOp
from tpack.utils.validation import check_arguments, mismatch

_FOLDS: dict[str, Callable[[tf.Tensor, tf.Tensor], tf.Tensor]] = {
    "Sum": add_pair,
    "Average": add_pair,
    "Min": tf.minimum,
    "Max": tf.maximum,
    "Product": tf.multiply,
}


def reduce_operation(op: ReduceOperation | None, average: bool | None) -> ReduceOperation:
    """Return the operation that ``op`` or the older ``average`` asks for.

    Raises:
        ConfigError: Both are given, or ``op`` is none of Horovod's.
    """
    if average is not None and op is not None:
        raise ConfigError(f"a collective operation got average={average} and op={op}: expected one of them; use op=")
    if average is not None:
        return Average if average else Sum
    if op is None:
        return Average
    if op not in (Average, Sum, Adasum, Min, Max, Product):
        raise ConfigError(mismatch("a collective operation", "op", op, "hvd.Average, Sum, Adasum, Min, Max or Product"))
    return op


@check_arguments
def allreduce(
    tensor: Any,
    average: bool | None = None,
    device_dense: str = "",
    device_sparse: str = "",
    compression: Any = Compression.none,
    op: ReduceOperation | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
    ignore_name_scope: bool = False,
) -> tf.Tensor | tf.IndexedSlices:
    """Reduce a tensor over all workers, or gather the rows of ``IndexedSlices``.

    Args:
        tensor: a tensor, a variable, or ``IndexedSlices``.
        average: older: True for ``op=Average``, False for ``op=Sum``.
        device_dense: the device of what is computed of dense tensors.
        device_sparse: the same for ``IndexedSlices``.
        compression: ``Compression.none``, ``Compression.fp16``, or an own `Compressor`.
        op: the reduction; None is ``Average``. Integers are divided and cut.
        prescale_factor: dense tensors are multiplied by it before the reduction.
        postscale_factor: and by this one after it.
        name: the name; None takes that of the tensor.
        process_set: the workers that take part.
        ignore_name_scope: pair by the name without the scopes around it.

    Shapes:
        Dense tensors keep theirs, the same in all workers; of ``IndexedSlices`` rows add up.

    Raises:
        ConfigError: An argument has no meaning together with another.
        NotImplementedError: ``IndexedSlices`` with another reduction than a mean or a sum, or with a factor.
    """
    op = reduce_operation(op, average)
    if isinstance(tensor, tf.IndexedSlices):
        _check_sparse(op, prescale_factor, postscale_factor)
        with tf.device(device_sparse):
            return _reduced_rows(tensor, op, name, process_set, ignore_name_scope)
    with tf.device(device_dense):
        sent, context = compression.compress(tf.convert_to_tensor(tensor))
        named = name or name_of("Allreduce", sent)
        options = _Reduction(op, prescale_factor, postscale_factor, process_set, ignore_name_scope)
        (reduced,) = options.reduce("allreduce", [sent], named)
        return compression.decompress(reduced, context)


@check_arguments
def grouped_allreduce(
    tensors: Sequence[Any],
    average: bool | None = None,
    device_dense: str = "",
    device_sparse: str = "",
    compression: Any = Compression.none,
    op: ReduceOperation | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
    ignore_name_scope: bool = False,
    name: str | None = None,
) -> list[tf.Tensor | tf.IndexedSlices]:
    """Reduce several tensors over all workers together; see `allreduce` for the arguments.

    Shapes:
        N tensors or ``IndexedSlices`` to N.

    Raises:
        ConfigError, NotImplementedError: As `allreduce` does.
    """
    op = reduce_operation(op, average)
    results: dict[int, Any] = {}
    dense = {n: each for n, each in enumerate(tensors) if not isinstance(each, tf.IndexedSlices)}
    for n, each in enumerate(tensors):
        if n not in dense:
            _check_sparse(op, prescale_factor, postscale_factor)
            results[n] = allreduce(
                each, None, device_dense, device_sparse, compression, op, process_set=process_set,
                ignore_name_scope=ignore_name_scope,
            )  # fmt: skip
    if dense:
        with tf.device(device_dense):
            pairs = [compression.compress(tf.convert_to_tensor(each)) for each in dense.values()]
            sent = [each for each, _ in pairs]
            named = name or name_of("GroupedAllreduce", sent[0], sent[-1])
            options = _Reduction(op, prescale_factor, postscale_factor, process_set, ignore_name_scope)
            reduced = options.reduce("grouped_allreduce", sent, named)
            for n, each, (_, context) in zip(dense, reduced, pairs, strict=True):
                results[n] = compression.decompress(each, context)
    return [results[n] for n in range(len(tensors))]


def _reduced_rows(
    rows: tf.IndexedSlices, op: ReduceOperation, name: str | None, process_set: ProcessSet, ignore_scope: bool
) -> tf.IndexedSlices:
    """Return the rows of all workers, by rank."""
    values = tf.convert_to_tensor(rows.values)
    default, about = name_of("Allreduce", values), about_tensors([values], op, rows_differ=True)
    call = begin("allreduce_rows", name, default, process_set, about, ignore_scope=ignore_scope)
    with tf.name_scope(f"{call.name}/"):
        indices, shape = tf.convert_to_tensor(rows.indices), rows.dense_shape
        shape = shape if shape is None else tf.convert_to_tensor(shape)
        rows = tf.IndexedSlices(values, indices, shape)
        (whole,) = all_reduce_between_workers(call.group, [rows], ReduceOp.SUM, name=call.queue)
        values = whole.values / tf.cast(call.group.size, whole.values.dtype) if op is Average else whole.values
        values, indices = call.done([values, whole.indices], [rows.values, rows.indices])
    return tf.IndexedSlices(values, indices, rows.dense_shape)


def _check_sparse(op: ReduceOperation, prescale: float, postscale: float) -> None:
    if op not in (Average, Sum):
        raise NotImplementedError(
            f"allreduce got IndexedSlices and op={op}: expected Average or Sum; use tf.convert_to_tensor, or "
            "sparse_as_dense=True of DistributedOptimizer"
        )
    if (prescale, postscale) != (1.0, 1.0):
        raise NotImplementedError("allreduce got IndexedSlices and a factor: expected a factor for dense tensors only")


@dataclass(frozen=True)
class _Reduction:
    """Options of a reduction of dense tensors."""

    op: ReduceOperation
    prescale: float
    postscale: float
    process_set: ProcessSet
    ignores_scope: bool

    def reduce(self, kind: str, tensors: Sequence[tf.Tensor], name: str) -> list[tf.Tensor]:
        """Reduce tensors as one operation, with gradients."""
        if self.op is Adasum and self.process_set.process_set_id != 0:
            raise NotImplementedError(f"{kind} got op=Adasum and {self.process_set}: expected all workers")

        @tf.custom_gradient
        def reduced(*values: tf.Tensor) -> tuple[Any, Callable[..., Any]]:
            results = self._reduced(kind, values, name)

            def gradients(*grads: tf.Tensor) -> list[tf.Tensor]:
                return self.reduce(kind, grads, f"{name}_grad")

            return results if len(results) > 1 else results[0], gradients

        made = reduced(*tensors)
        return list(made) if isinstance(made, list | tuple) else [made]

    def _reduced(self, kind: str, tensors: Sequence[tf.Tensor], name: str) -> list[tf.Tensor]:
        about = about_tensors(tensors, self.op, *about_factors(self.prescale, self.postscale))
        call = begin(kind, name, name, self.process_set, about, ignore_scope=self.ignores_scope)
        with tf.name_scope(f"{call.name}/"):
            sent = [scaled(tensor, self.prescale) for tensor in tensors]
            if call.group.size == 1:
                totals = [tf.identity(each) for each in sent]
            elif self._goes_in_buckets(sent):
                totals = _in_buckets(call, sent, self.op)
            else:
                totals = [_folded(call, n, each, self.op) for n, each in enumerate(sent)]
            results = [scaled(total, self.postscale) for total in totals]
            for result, tensor in zip(results, tensors, strict=True):
                result.set_shape(tensor.shape)
            return call.done(results, tensors)

    def _goes_in_buckets(self, tensors: Sequence[tf.Tensor]) -> bool:
        if self.op is Adasum:
            return True
        is_known = all(each.shape.is_fully_defined() for each in tensors)
        is_added = all(
            each.dtype.base_dtype.is_floating or each.dtype.base_dtype.is_complex or each.dtype.base_dtype.is_integer
            for each in tensors
        )
        return self.op in (Sum, Average) and is_known and is_added


def _in_buckets(call: Call, tensors: Sequence[tf.Tensor], op: ReduceOperation) -> list[tf.Tensor]:
    """Reduce tensors of known shapes as gradients are."""
    how = Exchange(op="adasum" if op is Adasum else None)
    has_mean = [not each.dtype.base_dtype.is_integer for each in tensors]
    results: dict[int, tf.Tensor] = {}
    for is_mean in (True, False):
        chosen = [n for n, each in enumerate(has_mean) if each is is_mean]
        if not chosen:
            continue
        reduce_op = ReduceOp.MEAN if is_mean and op in (Average, Adasum) else ReduceOp.SUM
        name = f"{call.queue}/{'floats' if is_mean else 'integers'}"
        summed = all_reduce_between_workers(
            call.group, [tensors[n] for n in chosen], reduce_op, name=name, exchange=how
        )
        for n, total in zip(chosen, summed, strict=True):
            is_cut = not is_mean and op is Average
            results[n] = scaled(total, 1 / call.group.size) if is_cut else total
    return [results[n] for n in range(len(tensors))]


def _folded(call: Call, number: int, tensor: tf.Tensor, op: ReduceOperation) -> tf.Tensor:
    """Send a whole tensor to all, and reduce those of all in the order of the ranks."""
    part = dataclasses.replace(call, kind=f"{call.kind}/{number}")
    note_exchanged(tensor, call.kind, call.name)
    parts = part.swap([tensor] * call.group.size, tf.TensorShape(None))
    dtype = tensor.dtype.base_dtype
    with on_device(call.group.device()):
        shape = tf.shape(tensor)
        same = [
            tf.debugging.assert_equal(
                tf.shape(each), shape, message=f"{call.kind} {call.name}: worker {rank} has a tensor of another shape"
            )
            for rank, each in enumerate(parts)
            if rank != call.group.rank
        ]
        with tf.control_dependencies(same):
            parts = [widened(tf.identity(each)) for each in parts]
        total = functools.reduce(_FOLDS[op.name], parts)
        if op is Average:
            total = scaled(total, 1 / call.group.size) if dtype.is_integer else total / call.group.size
        return tf.cast(total, dtype)


def join() -> tf.Tensor:
    """Return a tensor whose run waits until all workers run it, and reduces zeros for this one until then.

    A worker without further data runs it. Reductions of the others go on, with zeros of this worker; a mean is divided
    by the number of all workers. All workers build it before their first run of a collective operation.

    Returns:
        The rank of the worker that ran it last, an integer scalar.
    """
    runtime, graph = current(), tf.get_default_graph()
    runtime.note_join()
    with tf.name_scope("HorovodJoin"):
        last = tf.placeholder_with_default(np.int32(runtime.group.rank), [], "last")
        joined = tf.identity(last)
        known = collective_names.of(graph)
        known.joins.append(last)
        known.facts[joined.op.name] = 0, JOINED
        known.needed.clear()
        return joined
