"""Wrappers that convert each gradient first: to a 16-bit dtype, or from sparse to dense where that is smaller.

A narrow dtype halves the bytes that cross between devices. Each tower rounds its gradient on its own device, copies are
16 bits wide, and sums are computed in float32 (`sum_tensors`). The total is rounded once more to travel, and widened at
its destination. The rounding depends on the inner reducer. Where all K gradients are added in one place (one device,
round robin, shuffle), a sum has no further rounding. Algorithms that send partial sums (hierarchical, ring,
halving-doubling) round each of them. Collective operations and NCCL add in the 16-bit dtype itself.

A reduced sparse gradient holds the rows of all towers. If these take more bytes than the table, as for a small table or
a large batch, a dense gradient is cheaper to move and to apply, and any algorithm can reduce it.
"""

from collections.abc import Sequence

import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError
from tpack.reduction.base import Reducer, ReducerWrapper
from tpack.reduction.sums import dense_slices, on_device_of
from tpack.tower.grads import Column, Gradient, ReduceOp, common_shape, gradient_values, is_sparse, map_gradient_values
from tpack.utils.validation import check_arguments, mismatch

_WIRE_DTYPES = ("float16", "bfloat16")
_CAST_DTYPES = ("float32", "float64")


@check_arguments
class WireDtypeReducer(ReducerWrapper):
    """A wrapper that rounds float32 and float64 gradients to 16 bits and widens the results; others stay unchanged.

    Let u be 2**-11 for float16 and 2**-8 for bfloat16, and S the sum over the towers of the absolute values, divided by
    K for a mean. The error of an element of a dense result is at most

    - (2u + u**2 + K * 2**-23) * S with `OneDeviceReducer` and `RoundRobinReducer`,
    - ((1 + u)**(K + 1) - 1 + K * 2**-23) * S with any other algorithm.

    In float16, numbers below 2**-14 are 2**-24 apart: add 2**-25 for each of at most 2K roundings there. Numbers or
    sums from 65520 on become infinite: scale the loss, or take bfloat16, which has the range of float32. An element of
    a sparse result is rounded once, and once more by a mean.

    Args:
        inner: reduces the rounded gradients.
        wire_dtype: float16 or bfloat16, a dtype or its name.

    Raises:
        ConfigError: Another ``wire_dtype``.

    Source:
        The compression of gradients in Horovod and PyTorch, which add in the narrow type.
    """

    def __init__(self, inner: Reducer, wire_dtype: str | tf.DType) -> None:
        name = wire_dtype if isinstance(wire_dtype, str) else getattr(wire_dtype, "name", None)
        if name not in _WIRE_DTYPES:
            raise ConfigError(mismatch(self, "wire_dtype", name or wire_dtype, " or ".join(_WIRE_DTYPES)))
        super().__init__(inner, f"{name}_wire")
        self._wire_dtype = tf.as_dtype(name)

    def check(self, columns: Sequence[Column]) -> None:
        """Pass the check on to ``inner``, with the dtype of the wire."""
        sent = [[_WithDtype(member, self._wire_dtype) if _is_cast(member) else member for member in c] for c in columns]
        self.inner.check(sent)

    def reduce_dense(self, columns: Sequence[Column], op: ReduceOp) -> list[Column]:
        """Reduce the rounded columns."""
        return _widen(self.inner.reduce_columns(self._narrow(columns), op), columns)

    def reduce_sparse(self, columns: Sequence[Column], op: ReduceOp) -> list[Column]:
        """Reduce the rounded columns."""
        return _widen(self.inner.reduce_sparse(self._narrow(columns), op), columns)

    def _narrow(self, columns: Sequence[Column]) -> list[Column]:
        return [[_cast(member, self._wire_dtype) if _is_cast(member) else member for member in c] for c in columns]


class _WithDtype:
    """A stand-in for a gradient in a check, with the dtype of the wire; nothing is cast."""

    def __init__(self, gradient: Gradient, dtype: tf.DType) -> None:
        self._gradient = gradient
        self.dtype = dtype

    def __getattr__(self, name: str) -> object:
        return getattr(self._gradient, name)


def _is_cast(gradient: Gradient) -> bool:
    return gradient.dtype.base_dtype.name in _CAST_DTYPES


def _widen(reduced: Sequence[Column], columns: Sequence[Column]) -> list[Column]:
    """Cast results to the dtypes of the gradients that they replace."""
    return [
        [_cast(total, original.dtype.base_dtype) for total, original in zip(results, column, strict=True)]
        for results, column in zip(reduced, columns, strict=True)
    ]


def _cast(gradient: Gradient, dtype: tf.DType) -> Gradient:
    """Cast a dense or sparse gradient where it is."""
    with on_device_of(gradient_values(gradient)):
        return map_gradient_values(lambda values: tf.cast(values, dtype), gradient)


@check_arguments
class DensifyReducer(ReducerWrapper):
    """A wrapper that makes ``IndexedSlices`` dense where the K slices together are larger than the tensor.

    Static shapes decide: a gradient with an unknown ``dense_shape`` or number of rows stays sparse. Sizes are compared
    in bytes, indices included. Each tower makes its own gradient dense, with duplicate indices added; the inner reducer
    gets it together with the dense gradients. Inside another wrapper the two are reduced apart, so make this the
    outermost.

    On a GPU, TensorFlow adds duplicate indices in no fixed order (tensorflow/tensorflow#39751), unless
    ``tf.config.experimental`` has made operations deterministic.

    Args:
        inner: reduces the gradients.
    """

    def __init__(self, inner: Reducer) -> None:
        super().__init__(inner, "densify")

    def reduce_columns(self, columns: Sequence[Column], op: ReduceOp) -> list[Column]:
        """Reduce columns as `Reducer.reduce_columns` does; results of sparse ones may be dense."""
        becomes_dense = [is_sparse(column[0]) and _slices_are_larger(column) for column in columns]
        pairs = list(zip(columns, becomes_dense, strict=True))
        # Slices have a dtype, shape and device like tensors, so limits can be checked before any of them is dense.
        dense = [column for column, becomes in pairs if becomes or not is_sparse(column[0])]
        if dense:
            self.check(dense)
        with tf.name_scope(self.name):
            prepared = [_as_dense(column) if becomes else column for column, becomes in pairs]
            return self.inner.reduce_columns(prepared, op)

    def reduce_sparse(self, columns: Sequence[Column], op: ReduceOp) -> list[Column]:
        """Reduce sparse columns for another wrapper; results may be dense."""
        return self.reduce_columns(columns, op)


def _slices_are_larger(column: Column) -> bool:
    """Tell whether K slices with their indices are known to take more bytes than the dense tensor."""
    shape = common_shape(column)
    rows = [slices.indices.shape.merge_with(slices.values.shape[:1]).num_elements() for slices in column]
    if not shape.is_fully_defined() or None in rows:
        return False
    value_bytes, index_bytes = column[0].dtype.size, column[0].indices.dtype.size
    slices_bytes = sum(rows) * (shape[1:].num_elements() * value_bytes + index_bytes)
    return bool(slices_bytes > shape.num_elements() * value_bytes)


def _as_dense(column: Column) -> Column:
    """Add the rows of each tower's slices into a tensor, on their device."""
    shape = common_shape(column)
    dense = []
    for slices in column:
        with on_device_of(slices):
            dense.append(dense_slices(slices, shape))
    return dense
