"""Summaries of tensors, activations and collections, by their own names."""

import functools
import re
from collections.abc import Callable, Iterable

import tensorflow.compat.v1 as tf

KEYS = tf.GraphKeys
Summarizer = Callable[[tf.Tensor], tf.Tensor]


def summarize_tensor(tensor: tf.Tensor, tag: str | None = None) -> tf.Tensor:
    """Summarise a scalar as such, and other tensors as histograms.

    Args:
        tensor: the tensor.
        tag: of the summary; None for the tensor's name with ``_summary``.
    """
    tag = tag or f"{tensor.op.name}_summary"
    return (tf.summary.scalar if tensor.shape.rank == 0 else tf.summary.histogram)(tag, tensor)


def summarize_activation(op: tf.Tensor) -> tf.Tensor:
    """Summarise an output as a histogram, and the cut share of rectified ones as a scalar."""
    kind = op.op.type
    if kind in ("Relu", "Softplus", "Relu6"):
        tf.summary.scalar(f"{op.op.name}/zeros", _share(tf.less(op, tf.constant(1e-8, op.dtype))))
    if kind == "Relu6":
        tf.summary.scalar(f"{op.op.name}/sixes", _share(tf.greater(op, tf.constant(5.99, op.dtype))))
    return tf.summary.histogram(f"{op.op.name}/activation", op)


def summarize_tensors(tensors: Iterable[tf.Tensor], summarizer: Summarizer = summarize_tensor) -> list[tf.Tensor]:
    """Summarise each of some tensors."""
    return [summarizer(tensor) for tensor in tensors]


def summarize_collection(
    collection: str, name_filter: str | None = None, summarizer: Summarizer = summarize_tensor
) -> list[tf.Tensor]:
    """Summarise the tensors of a collection.

    Args:
        collection: its key.
        name_filter: a pattern that names begin with; None for all.
        summarizer: makes the summary of one.
    """
    tensors = tf.get_collection(collection)
    if name_filter is not None:
        tensors = [tensor for tensor in tensors if re.match(name_filter, tensor.op.name)]
    return summarize_tensors(tensors, summarizer)


def summarize_activations(
    name_filter: str | None = None, summarizer: Summarizer = summarize_activation
) -> list[tf.Tensor]:
    """Summarise the collection ACTIVATIONS."""
    return summarize_collection(KEYS.ACTIVATIONS, name_filter, summarizer)


summarize_variables = functools.partial(summarize_collection, KEYS.GLOBAL_VARIABLES)
summarize_weights = functools.partial(summarize_collection, KEYS.WEIGHTS)
summarize_biases = functools.partial(summarize_collection, KEYS.BIASES)


def _share(condition: tf.Tensor) -> tf.Tensor:
    return tf.reduce_mean(tf.cast(condition, tf.float32))
