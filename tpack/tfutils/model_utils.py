"""Descriptions of a model: a table of its variables, and the shapes of tensors as text."""

from collections.abc import Sequence

import tensorflow.compat.v1 as tf
from tabulate import tabulate

from tpack.utils import logger


def describe_trainable_vars() -> None:
    """Log a table of the current graph's trainable variables, with totals."""
    variables = tf.trainable_variables()
    if not variables:
        logger.warning("There are no trainable variables in the graph.")
        return
    logger.info(f"The trainable variables:\n{variable_table(variables)}\n{_totals(variables)}")


def variable_table(variables: Sequence[tf.Variable]) -> str:
    """Return a table of variables: name, shape, size if known, and device and dtype where these differ."""
    columns: dict[str, list[object]] = {
        "name": [variable.op.name for variable in variables],
        "shape": [str(variable.shape) for variable in variables],
        "#elements": [variable.shape.num_elements() for variable in variables],
    }
    for header, values in (
        ("device", [variable.device for variable in variables]),
        ("dtype", [variable.dtype.base_dtype.name for variable in variables]),
    ):
        if len(set(values)) > 1:
            columns[header] = values
    return tabulate(columns, headers="keys", tablefmt="simple", intfmt=",")


def get_shape_str(tensors: tf.Tensor | list[tf.Tensor] | tuple[tf.Tensor, ...]) -> str:
    """Return the shape of a tensor, or of each in a list, as text."""
    if isinstance(tensors, list | tuple):
        return ", ".join(get_shape_str(tensor) for tensor in tensors)
    return str(tensors.shape)


def _totals(variables: Sequence[tf.Variable]) -> str:
    sizes = [(variable.shape.num_elements() or 0, variable.dtype.base_dtype.size) for variable in variables]
    num_elements = sum(count for count, _ in sizes)
    size_mb = sum(count * size for count, size in sizes) / 2**20
    noun = "variable" if len(variables) == 1 else "variables"
    return f"Together {len(variables)} {noun} with {num_elements:,} elements, {size_mb:.2f} MB"
