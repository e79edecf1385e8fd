"""Summary operations whose tags are exactly what was asked for.

``tf.summary.scalar`` makes its tag unique in the graph, so the summary of a tensor ``cost`` would be called ``cost_1``.
"""

from collections.abc import Iterable
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.errors import GraphBuildError


def add_scalar_summary(tag: str, value: Any, collections: Iterable[str] | None = None) -> None:
    """Add a summary of a scalar to collections, by default to SUMMARIES.

    Raises:
        GraphBuildError: It is not a scalar tensor of numbers.
    """
    check_scalar(value)
    _collect(tf.raw_ops.ScalarSummary(tags=tag, values=tf.cast(value, tf.float32)), collections)


def add_histogram_summary(tag: str, values: Any, collections: Iterable[str] | None = None) -> None:
    """Add a summary of a tensor's distribution to collections, by default to SUMMARIES."""
    _collect(tf.raw_ops.HistogramSummary(tag=tag, values=tf.convert_to_tensor(values)), collections)


def check_scalar(tensor: Any) -> None:
    """Check that something is a tensor or variable with one number.

    Raises:
        GraphBuildError: It is something else, or its shape is not known.
    """
    if not tf.is_tensor(tensor):
        raise GraphBuildError(f"wanted a scalar tensor to summarise, got {tensor!r:.100}")
    dtype = tensor.dtype.base_dtype
    if tensor.shape.rank != 0 or not (dtype.is_floating or dtype.is_integer or dtype.is_bool):
        raise GraphBuildError(
            f"wanted a scalar of a numeric dtype to summarise, got {tensor.name} of shape {tensor.shape} and dtype "
            f"{dtype.name}: reduce it, for example with tf.reduce_mean"
        )


def _collect(summary: Any, collections: Iterable[str] | None) -> None:
    tf.add_to_collections([tf.GraphKeys.SUMMARIES] if collections is None else list(collections), summary)
