"""Requirements of a layer on its inputs, checked at each call."""

from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow.compat.v1 as tf

__all__ = ["InputSpec"]


class InputSpec:
    """Requirements of a layer on an input; None accepts anything.

    Args:
        dtype: its type.
        shape: its shape, in which None is any size.
        ndim: its number of dimensions.
        max_ndim: the largest number of dimensions.
        min_ndim: the smallest one.
        axes: the sizes of some axes, by their numbers, which may count from the end.
    """

    def __init__(
        self,
        dtype: Any = None,
        shape: Sequence[int | None] | None = None,
        ndim: int | None = None,
        max_ndim: int | None = None,
        min_ndim: int | None = None,
        axes: Mapping[int, int | None] | None = None,
    ) -> None:
        self.dtype = dtype
        self.shape = shape
        self.ndim = len(shape) if shape is not None else ndim
        self.max_ndim = max_ndim
        self.min_ndim = min_ndim
        self.axes = {int(axis): size for axis, size in (axes or {}).items()}

    def __repr__(self) -> str:
        given = [f"{name}={value}" for name, value in vars(self).items() if value or value == 0]
        return f"InputSpec({', '.join(given)})"

    def refusal(self, inputs: tf.Tensor) -> str | None:
        """Return why an input does not fit, or None if it does."""
        wants_rank = self.ndim is not None or self.max_ndim is not None or self.min_ndim is not None
        rank = inputs.shape.rank
        if rank is None:
            return "expected a known number of dimensions" if wants_rank or self.axes else None
        if self.ndim is not None and rank != self.ndim:
            return f"expected {self.ndim} dimensions"
        if self.max_ndim is not None and rank > self.max_ndim:
            return f"expected at most {self.max_ndim} dimensions"
        if self.min_ndim is not None and rank < self.min_ndim:
            return f"expected at least {self.min_ndim} dimensions"
        if self.dtype is not None and inputs.dtype.base_dtype != tf.as_dtype(self.dtype):
            return f"expected {tf.as_dtype(self.dtype).name}"
        return self._refused_size(inputs.shape.as_list())

    def _refused_size(self, sizes: list[int | None]) -> str | None:
        wanted = [*self.axes.items(), *enumerate(self.shape or ())]
        for axis, size in wanted:
            if not -len(sizes) <= axis < len(sizes):
                return f"expected a dimension {axis}"
            if size is not None and sizes[axis] is not None and sizes[axis] != size:
                return f"expected {size} as the size of dimension {axis}"
        return None
