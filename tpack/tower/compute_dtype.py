"""The dtype that a model computes in, apart from the dtype of its variables, which is float32.

A custom getter gives the model variables that are cast where they are used. Layers that compute statistics ask for
the variables themselves by `full_precision`.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

from tpack.tower.cast_variable import CastVariable
from tpack.tower.getters import custom_getter_scope

# What is current is known to each thread by itself, since towers may be built in several.
_compute_dtype: ContextVar[Any] = ContextVar("tpack_compute_dtype", default=None)

_REDUCED = (tf.float16, tf.bfloat16)


@contextmanager
def compute_in(dtype: Any) -> Iterator[None]:
    """Make every float variable that ``get_variable`` gives in the block a float32 variable, used as ``dtype``.

    This holds whatever dtype of 16 or 32 bits the model asks for; other variables are left alone. A variable that
    ``tf.Variable`` or Keras makes does not come through here.

    Args:
        dtype: the dtype to compute in.
    """
    token = _compute_dtype.set(tf.as_dtype(dtype))
    try:
        with custom_getter_scope(_get_cast):
            yield
    finally:
        _compute_dtype.reset(token)


@contextmanager
def full_precision() -> Iterator[None]:
    """Let ``get_variable`` give the float32 variables themselves in a block inside `compute_in`.

    For layers that must compute in float32 whatever the model computes in, such as those with batch statistics.

    Example:
        with full_precision():
            gamma = tf.get_variable("gamma", [channels], initializer=tf.ones_initializer())
    """
    token = _compute_dtype.set(None)
    try:
        yield
    finally:
        _compute_dtype.reset(token)


def current_compute_dtype() -> Any:
    """Return the dtype that variables are cast to here, or None where they are not."""
    return _compute_dtype.get()


def _get_cast(getter: Callable[..., Any], name: str, *args: Any, **kwargs: Any) -> Any:
    if kwargs.get("dtype") is not None and tf.as_dtype(kwargs["dtype"]).base_dtype in _REDUCED:
        kwargs["dtype"] = tf.float32
    kwargs["initializer"] = _in_float32(kwargs.get("initializer"))
    kwargs["use_resource"] = True
    variable = getter(name, *args, **kwargs)
    compute_dtype = current_compute_dtype()
    # Variables of several devices are no instances of TensorFlow's classes. What is partitioned has no such method.
    is_whole = hasattr(variable, "sparse_read") and not isinstance(variable, CastVariable)
    is_cast = compute_dtype is not None and is_whole and variable.dtype.base_dtype == tf.float32
    return CastVariable(variable, compute_dtype) if is_cast else variable


def _in_float32(initializer: Any) -> Any:
    """Return the initialiser, cast if it is a value in 16 bits; functions are told the dtype anyway."""
    dtype = getattr(initializer, "dtype", None)
    if callable(initializer) or dtype is None or tf.as_dtype(dtype).base_dtype not in _REDUCED:
        return initializer
    if isinstance(initializer, np.ndarray | np.generic):
        return initializer.astype(np.float32)
    return tf.cast(initializer, tf.float32)
