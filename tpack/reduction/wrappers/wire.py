"""Send gradients in a 16-bit type and add them in float32.

Half the bytes cross between the devices. Each tower rounds its own gradient before anything leaves its device, the
copies are 16 bits wide, and whatever is added in one place is widened there first: that is how `sum_tensors` adds these
types. The total is rounded once more, because it travels too, and is widened at its destination.

What is possible depends on the inner reducer. Where all K gradients meet in one place (one device, round robin,
shuffle), nothing else is rounded in a sum. Algorithms that send partial sums (hierarchical, ring, halving-doubling)
round each of those, as it crosses a wire. Collective operations and NCCL add in the 16-bit type itself.
"""

from collections.abc import Sequence
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError
from tpack.reduction.base import Column, ReduceOp, Reducer
from tpack.reduction.gradients import is_sparse
from tpack.reduction.sums import on_device_of

_WIRE_DTYPES = ("float16", "bfloat16")
_CAST_DTYPES = ("float32", "float64")


class WireDtypeReducer(Reducer):
    """Round float32 and float64 gradients to 16 bits, reduce them, and widen the results; others stay as they are.

    Let u be 2**-11 for float16 and 2**-8 for bfloat16, and S the sum over the towers of the absolute values, divided by
    K for a mean. An element of a dense result is wrong by at most

    - (2u + u**2 + K * 2**-23) * S with `OneDeviceReducer` and `RoundRobinReducer`,
    - ((1 + u)**(K + 1) - 1 + K * 2**-23) * S with any other algorithm.

    In float16, numbers below 2**-14 are 2**-24 apart whatever they are: add 2**-25 for each rounding there, of which
    there are at most 2K. And numbers, or sums, from 65520 on are infinite. Scale the loss, or take bfloat16, which has
    the range of float32. An element of a sparse result is rounded once, and once more by a mean.

    Args:
        inner: what reduces the rounded gradients.
        wire_dtype: float16 or bfloat16, a dtype or its name.

    Raises:
        ConfigError: Another ``wire_dtype``.

    Source:
        The compression of gradients in Horovod and PyTorch, which add in the narrow type.
    """

    def __init__(self, inner: Reducer, wire_dtype: Any) -> None:
        name = wire_dtype if isinstance(wire_dtype, str) else getattr(wire_dtype, "name", None)
        if name not in _WIRE_DTYPES:
            raise ConfigError(f"wanted {' or '.join(_WIRE_DTYPES)} as the wire_dtype, got {wire_dtype!r}")
        self._inner = inner
        self._wire_dtype = tf.as_dtype(name)
        self.name = f"{name}_wire_{inner.name}"

    def _check_dense(self, columns: Sequence[Column]) -> None:
        self._inner._check_dense([[self._travelling(tensor) for tensor in column] for column in columns])

    def _reduce_dense(self, columns: Sequence[Column], op: ReduceOp) -> list[Column]:
        if not columns:
            return []
        sent = [[self._narrow(tensor) for tensor in column] for column in columns]
        reduced = self._inner.reduce(list(zip(*sent, strict=True)), op)
        return _widen(list(zip(*reduced, strict=True)), columns)

    def _reduce_sparse(self, columns: Sequence[Column], op: ReduceOp) -> list[Column]:
        sent = [[self._narrow(slices) for slices in column] for column in columns]
        return _widen(self._inner._reduce_sparse(sent, op), columns)

    def _travelling(self, tensor: Any) -> Any:
        return _Travelling(tensor, self._wire_dtype) if _is_cast(tensor) else tensor

    def _narrow(self, gradient: Any) -> Any:
        return _cast(gradient, self._wire_dtype) if _is_cast(gradient) else gradient


class _Travelling:
    """A tensor as a limit may look at it, with the dtype that it will have on the wire: nothing is cast for a check."""

    def __init__(self, tensor: Any, dtype: Any) -> None:
        self._tensor = tensor
        self.dtype = dtype

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tensor, name)


def _is_cast(gradient: Any) -> bool:
    return gradient.dtype.base_dtype.name in _CAST_DTYPES


def _widen(reduced: Sequence[Column], columns: Sequence[Column]) -> list[Column]:
    """Cast results to the dtypes of the gradients that they replace."""
    return [
        [_cast(total, original.dtype.base_dtype) for total, original in zip(results, column, strict=True)]
        for results, column in zip(reduced, columns, strict=True)
    ]


def _cast(gradient: Any, dtype: Any) -> Any:
    """Cast a dense or sparse gradient where it is."""
    if is_sparse(gradient):
        return tf.IndexedSlices(_cast(gradient.values, dtype), gradient.indices, gradient.dense_shape)
    with on_device_of(gradient):
        return tf.cast(gradient, dtype)
