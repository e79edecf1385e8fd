"""Assignment of numpy values to a graph's variables, checked together and reported in one table before the first."""

from collections.abc import Iterable
from typing import TypeAlias

import numpy as np
import tensorflow.compat.v1 as tf
from tabulate import tabulate

from tpack.errors import CheckpointError
from tpack.utils import logger

Pairs: TypeAlias = list[tuple[tf.Variable, np.ndarray]]
"""(variable, numpy value) pairs."""


def fit_values(
    pairs: Iterable[tuple[tf.Variable, np.ndarray]], *, cast: bool, skip_mismatch: bool, source: str
) -> Pairs:
    """Return the pairs with values of exactly the variables' dtypes and shapes.

    Args:
        pairs: (variable, numpy value) pairs.
        cast: convert between floating-point sizes, and between integers that can hold the values.
        skip_mismatch: reshape a value with the right number of elements, leave out the others, and warn.
        source: the origin of the values, for messages.

    Raises:
        CheckpointError: There are mismatches and ``skip_mismatch`` is off. The message is a table of all of them.
    """
    fitting: Pairs = []
    mismatches = []
    for variable, value in pairs:
        fitted = _fit(variable, value, cast=cast, reshape=skip_mismatch)
        if fitted is None:
            in_graph = f"{variable.dtype.base_dtype.name} {variable.shape}"
            given = f"{tf.as_dtype(value.dtype).name} {tf.TensorShape(value.shape)}"
            mismatches.append((variable.op.name, in_graph, given))
        else:
            fitting.append((variable, fitted))
    if mismatches:
        table = tabulate(mismatches, headers=["variable", "in the graph", f"in {source}"], tablefmt="simple")
        if not skip_mismatch:
            raise CheckpointError(f"{len(mismatches)} value(s) in {source} do not fit their variables:\n{table}")
        logger.warning(f"Left alone, since the values in {source} do not fit:\n{table}")
    return fitting


def assign_values(session: tf.Session, pairs: Pairs) -> None:
    """Assign values of exactly the variables' dtypes and shapes, in as few runs as possible.

    The values are fed to the variables' initialisers, so nothing is added to the graph.
    """
    remaining: Pairs = []
    for variable, value in pairs:
        # A variable of `tpack.distribute` has components.
        is_plain = not hasattr(variable, "components")
        parts = [(variable, value)] if is_plain else zip(variable.components, variable.split_value(value), strict=True)
        remaining.extend(parts)
    while remaining:
        # Variables may share the tensor with their initial value: one run can feed it one value only.
        feeds: dict[str, np.ndarray] = {}
        initializers, postponed = [], []
        for variable, value in remaining:
            initial_value = variable.initializer.inputs[1]
            if initial_value.name in feeds:
                postponed.append((variable, value))
            else:
                feeds[initial_value.name] = value
                initializers.append(variable.initializer)
        session.run(initializers, feed_dict=feeds)
        remaining = postponed


def _fit(variable: tf.Variable, value: np.ndarray, *, cast: bool, reshape: bool) -> np.ndarray | None:
    """Return ``value`` in the variable's dtype and shape, or None if it does not fit."""
    fitted = _as_dtype(value, variable.dtype.base_dtype, cast=cast)
    if fitted is None or variable.shape.is_compatible_with(fitted.shape):
        return fitted
    if reshape and variable.shape.num_elements() == fitted.size:
        logger.warning(f"Reshaping the value of {variable.op.name} from {fitted.shape} to {variable.shape}")
        return fitted.reshape(variable.shape.as_list())
    return None


def _as_dtype(value: np.ndarray, dtype: tf.DType, *, cast: bool) -> np.ndarray | None:
    found = tf.as_dtype(value.dtype)
    if found == dtype:
        return value
    if not cast:
        return None
    if found.is_floating and dtype.is_floating:
        return value.astype(dtype.as_numpy_dtype)
    if found.is_integer and dtype.is_integer:
        converted = value.astype(dtype.as_numpy_dtype)
        return converted if np.array_equal(converted, value) else None
    return None
