"""Data points on their way into a batch: large arrays are copied to their place in it as the points come.

Until a batch is whole, its points have to be kept. Kept as they came, each array holds on to memory of its own: the
next is made in memory that the system has to provide anew, page by page, which costs more than copying, and all of them
have left the processor's cache when they are put together. So only the copies are kept. With small arrays it is the
other way round: keeping them and copying all at once is faster.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

# From this size on copying at once is faster.
_LARGE_BYTES = 4096
# A batch size may be far more than there are points, to have all of them in one batch.
_MAX_ARRAY_BYTES = 1 << 30


class PlacedPoints(list[Any]):
    """A list of data points, to be given to ``tpack.dataflow.aggregate``; large arrays in them are rows of ``arrays``.

    What is unlike the first point is kept as it came, so that it is refused as in any other list.
    """

    def __init__(self, arrays: dict[Any, np.ndarray], *, are_dicts: bool) -> None:
        """Have no point yet.

        Args:
            arrays: by place or key of a component, an array with a row for each point that is to come.
            are_dicts: whether the points are dicts, and not lists or tuples.
        """
        super().__init__()
        self.arrays = arrays
        self._are_dicts = are_dicts

    def append(self, point: Any) -> None:
        """Add a point; the arrays in it that were copied may be changed afterwards."""
        is_like = isinstance(point, Mapping) if self._are_dicts else isinstance(point, (list, tuple))
        super().append(self._place(point) if is_like else point)

    def _place(self, point: Any) -> Any:
        """Return a point with rows in the place of arrays that they are like."""
        placed: Any = dict(point) if self._are_dicts else list(point)
        for key, array in self.arrays.items():
            is_there = key in placed if self._are_dicts else key < len(placed)
            value = placed[key] if is_there else None
            if isinstance(value, np.ndarray) and value.shape == array.shape[1:] and value.dtype == array.dtype:
                placed[key] = array[len(self), ...]
                placed[key][...] = value
        return placed


def begin_batch(first: Any, size: int, empty: Callable[..., np.ndarray] = np.empty) -> list[Any]:
    """Return an empty list to gather the data points of a batch in.

    Args:
        first: the first of them, which is not put into the list. It may be anything: what is no data point is refused
            when the batch is made.
        size: how many points the batch has at most.
        empty: called with a shape and a dtype to get the memory of an array.

    Returns:
        A `PlacedPoints` if there are large arrays of numbers in the point, and else a plain list.
    """
    are_dicts = isinstance(first, Mapping)
    items: Any = first.items() if are_dicts else enumerate(first) if isinstance(first, (list, tuple)) else ()
    large = [(key, value) for key, value in items if _is_large(value, size)]
    if not large:
        return []
    return PlacedPoints({key: empty((size, *value.shape), value.dtype) for key, value in large}, are_dicts=are_dicts)


def _is_large(value: Any, size: int) -> bool:
    """Tell whether a component of so many points is copied when they come."""
    is_array = isinstance(value, np.ndarray) and not value.dtype.hasobject
    return is_array and value.nbytes >= _LARGE_BYTES and value.nbytes * size <= _MAX_ARRAY_BYTES
