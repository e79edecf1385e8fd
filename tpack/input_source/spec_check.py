"""Checks of data points against the input signature.

An error names the component, the data point, its value and the expectation. Nothing is silently cast, truncated or
broadcast: a value must have the rank and shape of the signature, and its dtype or one that converts to it. Numbers may
be rounded to floats, but must stay finite. They become integers and booleans only if they are exactly these, which is
logged once.
"""

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

from tpack.errors import DataPointError
from tpack.utils import logger
from tpack.utils.validation import shown


class SpecMismatch(Exception):
    """Mismatch of a value with its spec, named in the message.

    It stays inside the package: callers that know the data point and its origin raise a `DataPointError`.
    """


class Component:
    """Checker of the entry of a signature at a position; ``dtype`` is the one to feed, object for strings."""

    def __init__(self, position: int, spec: tf.TensorSpec, kind: str = "component") -> None:
        self.name = spec.name
        self.dtype = np.dtype(spec.dtype.as_numpy_dtype)
        self._label = f"{kind} {position} ('{spec.name}')"
        self._spec = spec
        self._shape = None if spec.shape.rank is None else spec.shape.as_list()
        self._is_told = False

    def check(self, value: object) -> np.ndarray:
        """Return a value, maybe nested lists, as an array to cast to `dtype`; raise SpecMismatch for others."""
        array = self._as_array(value)
        if array.dtype != self.dtype or self.dtype.kind == "O":
            array = self._check_dtype(array)
        self._check_shape(array)
        return array

    def check_tensor(self, tensor: object) -> None:
        """Check the static dtype and shape of a tensor; raise SpecMismatch if they are wrong."""
        if not isinstance(tensor, tf.Tensor):
            raise SpecMismatch(f"{self._label} is {shown(tensor)}, expected a tensor")
        if tensor.dtype.base_dtype != self._spec.dtype:
            raise SpecMismatch(f"{self._label} has dtype {tensor.dtype.name}, expected {self._spec.dtype.name}")
        if not tensor.shape.is_compatible_with(self._spec.shape):
            raise SpecMismatch(f"{self._label} has shape {tensor.shape}, expected {self._spec.shape}")

    def _as_array(self, value: object) -> np.ndarray:
        if isinstance(value, np.ndarray):
            return value
        try:
            # As a fixed-width dtype, numpy would drop the zero bytes at the end of a string.
            return np.asarray(value, dtype=object if self.dtype.kind == "O" else None)
        except ValueError as error:
            raise SpecMismatch(f"{self._label} is a {type(value).__name__} that makes no array: {error}") from error
        except NotImplementedError as error:
            # From TensorFlow, of tensors of a graph.
            raise SpecMismatch(
                f"{self._label} is {shown(value)} without a value: expected an array; use session.run(tensor)"
            ) from error

    def _check_shape(self, array: np.ndarray) -> None:
        wanted = self._shape
        if wanted is None:
            return
        if array.ndim != len(wanted):
            raise SpecMismatch(
                f"{self._label} has rank {array.ndim} (shape {array.shape}), expected rank {len(wanted)} "
                f"(shape {self._spec.shape})"
            )
        if any(size is not None and size != came for size, came in zip(wanted, array.shape, strict=True)):
            raise SpecMismatch(f"{self._label} has shape {array.shape}, expected {self._spec.shape}")

    def _check_dtype(self, array: np.ndarray) -> np.ndarray:
        """Return an array of another dtype, complex numbers as real ones, if it converts to the expected one."""
        wanted = self.dtype
        if wanted.kind == "O":
            fits = array.dtype.kind in "SUT" or (
                array.dtype.kind == "O" and all(isinstance(item, (str, bytes)) for item in array.flat)
            )
        elif array.dtype.kind in "iu" and wanted.kind in "iu":
            fits = np.can_cast(array.dtype, wanted, "safe") or _in_range(array, wanted)
        elif np.can_cast(array.dtype, wanted, "same_kind"):
            fits = _has_range_of(array.dtype, wanted) or not _overflows(array, wanted)
        else:
            fits = _is_number(array.dtype) and _is_number(wanted) and _holds_exactly(array, wanted)
            if fits:
                array = array.real if array.dtype.kind == "c" else array
                self._tell_once(array)
        if not fits:
            raise SpecMismatch(
                f"{self._label} has dtype {array.dtype}{_describe_values(array)}, expected {self._spec.dtype.name}, "
                "which cannot hold it"
            )
        return array

    def _tell_once(self, array: np.ndarray) -> None:
        if not self._is_told:
            self._is_told = True
            logger.info(
                "%s has dtype %s and is converted to %s while its values allow that; others are an error",
                self._label,
                array.dtype,
                self._spec.dtype.name,
            )


class DataPointChecker:
    """Checker of data points, of an origin for messages, against a signature."""

    def __init__(self, signature: Sequence[tf.TensorSpec], source: str) -> None:
        self._components = [Component(position, spec) for position, spec in enumerate(signature)]
        self._names = [spec.name for spec in signature]
        self._source = source

    @property
    def dtypes(self) -> list[np.dtype]:
        """The numpy dtype of each component when it is fed."""
        return [component.dtype for component in self._components]

    def check(self, data_point: object, index: int) -> list[np.ndarray]:
        """Return a data point's components as arrays in the order of the signature, not copied and not cast yet.

        It is a list or tuple, or a dict by the names of the signature; messages have its number in the stream.

        Raises:
            DataPointError: The number of components is wrong, or the rank, shape or dtype of one; or all are empty, so
                that a cost would be the mean of no numbers.
        """
        try:
            values = self._values(data_point)
            arrays = [component.check(value) for component, value in zip(self._components, values, strict=True)]
            if arrays and not any(array.size for array in arrays):
                shapes = [f"{name} {array.shape}" for name, array in zip(self._names, arrays, strict=True)]
                raise SpecMismatch(f"it has no rows: {', '.join(shapes)}")
            return arrays
        except SpecMismatch as misfit:
            raise DataPointError(f"data point {index} of {self._source}: {misfit}") from misfit.__cause__

    def _values(self, data_point: object) -> Sequence[Any]:
        wanted = f"{len(self._names)} components ({', '.join(self._names)})"
        if isinstance(data_point, dict):
            if set(data_point) != set(self._names):
                raise SpecMismatch(f"it is a dict with the keys {list(data_point)}, expected {wanted}")
            return [data_point[name] for name in self._names]
        if not isinstance(data_point, (list, tuple)):
            raise SpecMismatch(f"it is a {type(data_point).__name__}, expected a list, tuple or dict of {wanted}")
        if len(data_point) != len(self._names):
            raise SpecMismatch(f"it has {len(data_point)} components, expected {wanted}")
        return data_point


def _in_range(array: np.ndarray, dtype: np.dtype) -> bool:
    if array.size == 0:
        return True
    limits = np.iinfo(dtype)
    return int(array.min()) >= limits.min and int(array.max()) <= limits.max


def _is_number(dtype: np.dtype) -> bool:
    """Return whether a dtype is of numbers or booleans; TensorFlow's own dtypes can be cast to float64."""
    return dtype.kind in "biufc" or (dtype.kind == "V" and np.can_cast(dtype, np.float64, "safe"))


@functools.cache
def _has_range_of(source: np.dtype, wanted: np.dtype) -> bool:
    """Return whether every number of one dtype fits into another; False leaves it open."""
    if source.kind == "b" or np.can_cast(source, wanted, "safe"):
        return True
    if source.kind not in "iu":
        return False
    return not _overflows(np.array([np.iinfo(source).min, np.iinfo(source).max], source), wanted)


def _overflows(array: np.ndarray, wanted: np.dtype) -> bool:
    """Return whether a finite number becomes infinite in another dtype."""
    with np.errstate(over="ignore"):
        if array.size and array.dtype.kind in "iuf":
            # Check the two ends only, if all numbers are finite.
            ends = np.array([array.min(), array.max()])
            if np.isfinite(ends).all():
                array = ends
        return bool(np.any(np.isfinite(array) & ~np.isfinite(array.astype(wanted))))


def _holds_exactly(array: np.ndarray, wanted: np.dtype) -> bool:
    """Return whether numbers of any dtype are exactly numbers of another one."""
    if array.dtype.kind == "c":
        return not array.imag.any() and _holds_exactly(array.real, wanted)
    if not array.size:
        return True
    if array.dtype.kind == "V":
        array = array.astype(np.float64)
    if wanted.kind == "b":
        return bool(np.all((array == 0) | (array == 1)))
    if wanted.kind in "iu":
        return bool(np.all(np.isfinite(array) & (array == np.rint(array)))) and _in_range(array, wanted)
    return not _overflows(array, wanted) and bool(np.all((array.astype(wanted) == array) | np.isnan(array)))


def _describe_values(array: np.ndarray) -> str:
    if array.size == 0:
        return ""
    if array.dtype.kind in "iuf":
        return f" (values from {array.min()} to {array.max()})"
    return f" (first value {shown(next(array.flat))})"
