"""One component of a data point, held against one entry of the input signature.

What TensorFlow would cast, truncate or broadcast without a word is refused here: a value is taken only if it has
the rank and shape of the signature, and a dtype that can become the wanted one without losing what kind of number
it is.
"""

from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf


class Misfit(Exception):
    """A value does not fit; the message says which component, what came and what was wanted.

    It goes no further than the package: who knows the data point and its origin raises a `DataPointError` instead.
    """


class Component:
    """One entry of a signature, ready to check many values.

    Args:
        position: which of the components it is.
        spec: its ``tf.TensorSpec``.
        kind: what to call it in messages.

    Attributes:
        name: what the entry is called.
        dtype: the numpy dtype to feed; object for strings.
    """

    def __init__(self, position: int, spec: Any, kind: str = "component") -> None:
        self.name = spec.name
        self.dtype = np.dtype(spec.dtype.as_numpy_dtype)
        self._label = f"{kind} {position} ('{spec.name}')"
        self._spec = spec
        self._shape = None if spec.shape.rank is None else spec.shape.as_list()

    def check(self, value: Any) -> np.ndarray:
        """Return ``value`` as an array, not copied and not cast yet.

        Args:
            value: an array, a python number or string, or nested lists of them.

        Returns:
            An array that can be cast to `dtype`.

        Raises:
            Misfit: Rank, shape or dtype are wrong.
        """
        array = self._as_array(value)
        if array.dtype != self.dtype or self.dtype.kind == "O":
            self._check_dtype(array)
        self._check_shape(array)
        return array

    def check_tensor(self, tensor: Any) -> None:
        """Check what is known of a tensor before it has a value.

        Raises:
            Misfit: It is no tensor, or its dtype or shape are wrong.
        """
        if not isinstance(tensor, tf.Tensor):
            raise Misfit(f"{self._label} is {tensor!r}, wanted a tensor")
        if tensor.dtype.base_dtype != self._spec.dtype:
            raise Misfit(f"{self._label} has dtype {tensor.dtype.name}, wanted {self._spec.dtype.name}")
        if not tensor.shape.is_compatible_with(self._spec.shape):
            raise Misfit(f"{self._label} has shape {tensor.shape}, wanted {self._spec.shape}")

    def _as_array(self, value: Any) -> np.ndarray:
        if isinstance(value, np.ndarray):
            return value
        try:
            # As a fixed-width dtype, numpy would drop the zero bytes at the end of a string.
            return np.asarray(value, dtype=object if self.dtype.kind == "O" else None)
        except ValueError as error:
            raise Misfit(f"{self._label} is a {type(value).__name__} that makes no array: {error}") from error

    def _check_shape(self, array: np.ndarray) -> None:
        wanted = self._shape
        if wanted is None:
            return
        if array.ndim != len(wanted):
            raise Misfit(
                f"{self._label} has rank {array.ndim} (shape {array.shape}), wanted rank {len(wanted)} "
                f"(shape {self._spec.shape})"
            )
        if any(size is not None and size != came for size, came in zip(wanted, array.shape, strict=True)):
            raise Misfit(f"{self._label} has shape {array.shape}, wanted {self._spec.shape}")

    def _check_dtype(self, array: np.ndarray) -> None:
        wanted = self.dtype
        if wanted.kind == "O":
            fits = array.dtype.kind in "SUT" or _holds_strings(array)
        elif array.dtype.kind in "iu" and wanted.kind in "iu":
            fits = np.can_cast(array.dtype, wanted, "safe") or _in_range(array, wanted)
        else:
            fits = np.can_cast(array.dtype, wanted, "same_kind")
        if not fits:
            raise Misfit(
                f"{self._label} has dtype {array.dtype}{_describe_values(array)}, wanted {self._spec.dtype.name}, "
                "which cannot hold it"
            )


def _holds_strings(array: np.ndarray) -> bool:
    return array.dtype.kind == "O" and all(isinstance(item, (str, bytes)) for item in array.flat)


def _in_range(array: np.ndarray, dtype: np.dtype) -> bool:
    if array.size == 0:
        return True
    limits = np.iinfo(dtype)
    return int(array.min()) >= limits.min and int(array.max()) <= limits.max


def _describe_values(array: np.ndarray) -> str:
    if array.size == 0:
        return ""
    if array.dtype.kind in "iuf":
        return f" (values from {array.min()} to {array.max()})"
    return f" (first value {next(array.flat)!r:.80})"
