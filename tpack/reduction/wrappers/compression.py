"""Send gradients in a 16-bit type and add them in float32.

Half the bytes cross between the devices. Each tower rounds its own gradient before anything leaves its device, the
copies are 16 bits wide, and whatever is added in one place is widened there first: that is how `sum_tensors` adds these
types. The total is rounded once more, because it travels too, and is widened at its destination.

What is possible depends on the inner reducer. Where all K gradients meet in one place (one device, round robin,
shuffle), nothing else is rounded in a sum. Algorithms that send partial sums (hierarchical, ring, halving-doubling)
round each of those, as it crosses a wire. Collective operations and NCCL add in the 16-bit type itself.
"""

from collections.abc import Sequence

import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError
from tpack.reduction.base import Reducer, ReducerWrapper
from tpack.reduction.sums import on_device_of
from tpack.tower.grads import Column, Gradient, ReduceOp, gradient_values, map_gradient_values
from tpack.utils.validation import check_arguments

_WIRE_DTYPES = ("float16", "bfloat16")
_CAST_DTYPES = ("float32", "float64")


@check_arguments
class WireDtypeReducer(ReducerWrapper):
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

    def __init__(self, inner: Reducer, wire_dtype: str | tf.DType) -> None:
        name = wire_dtype if isinstance(wire_dtype, str) else getattr(wire_dtype, "name", None)
        if name not in _WIRE_DTYPES:
            raise ConfigError(f"expected {' or '.join(_WIRE_DTYPES)} as the wire_dtype, got {wire_dtype!r}")
        super().__init__(inner, f"{name}_wire")
        self._wire_dtype = tf.as_dtype(name)

    def check(self, columns: Sequence[Column]) -> None:
        """Let ``inner`` check the gradients in the dtype that they will have on the wire."""
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
    """A gradient as a check may look at it, with the dtype that it will have on the wire: nothing is cast for that."""

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
