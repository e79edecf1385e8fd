"""Send gradients in a 16-bit dtype and add them in float32.

Half the bytes cross between devices. Each tower rounds its gradient on its own device, copies are 16 bits wide, and
sums are computed in float32 (`sum_tensors`). The total is rounded once more to travel, and widened at its destination.

The rounding depends on the inner reducer. Where all K gradients are added in one place (one device, round robin,
shuffle), a sum has no further rounding. Algorithms that send partial sums (hierarchical, ring, halving-doubling) round
each of them. Collective operations and NCCL add in the 16-bit dtype itself.
"""

from collections.abc import Sequence

import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError
from tpack.reduction.base import Reducer, ReducerWrapper
from tpack.reduction.sums import on_device_of
from tpack.tower.grads import Column, Gradient, ReduceOp, gradient_values, map_gradient_values
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
