"""Gradients of K towers with known values, for tests of the reduction."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf


def cpu_devices(num_towers: int) -> list[str]:
    return [f"/device:CPU:{k}" for k in range(num_towers)]


def source(value: Any, device: str, *, dtype: Any = None, static_shape: Any = None) -> Any:
    """Return a tensor on `device` that holds `value` once `run` has initialized it.

    It is read from a variable, because TensorFlow computes in advance whatever follows from constants, and moves it.
    """
    value = np.asarray(value) if dtype is None else np.asarray(value).astype(dtype.as_numpy_dtype)
    with tf.device(device):
        variable = tf.Variable(
            tf.constant(value), use_resource=True, trainable=False, validate_shape=False, shape=static_shape
        )
        return variable.read_value()


def run(session: Any, fetches: Any) -> Any:
    """Initialize the variables behind `source` and run `fetches`."""
    session.run(tf.global_variables_initializer())
    return session.run(fetches)


def dense_towers(values: Sequence[Sequence[Any]], devices: Sequence[str] | None = None) -> list[list[Any]]:
    """Return K x N tensors with the given K x N arrays, tower k on device k."""
    devices = devices or cpu_devices(len(values))
    return [[source(value, device) for value in tower] for tower, device in zip(values, devices, strict=True)]


def slices(values: Any, indices: Any, device: str, *, dtype: Any = tf.float32, rows: int | None = None) -> Any:
    """Return IndexedSlices on `device`; with `rows`, of a table with that many rows."""
    values = np.asarray(values)
    with tf.device(device):
        dense_shape = None if rows is None else tf.constant([rows, *values.shape[1:]], tf.int64)
    return tf.IndexedSlices(
        source(values, device, dtype=dtype), source(np.asarray(indices, np.int64), device), dense_shape
    )


def random_towers(rng: np.random.Generator, num_towers: int, shapes: Sequence[Any]) -> list[list[Any]]:
    """Return K x N float32 arrays."""
    return [[rng.standard_normal(shape).astype(np.float32) for shape in shapes] for _ in range(num_towers)]
