"""What an input_fn gives: features and labels as tensors, and what has to be run before the first step.

An input_fn returns a ``tf.data.Dataset`` or tensors. Both have features alone, or a pair of features and labels.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError
from tpack.estimator.arguments import call_with_accepted
from tpack.estimator.mode_keys import ModeKeys
from tpack.utils import logger

InputFn = Callable[..., Any]


@dataclass(frozen=True)
class Inputs:
    """The input of a model.

    Attributes:
        features: tensors.
        labels: tensors, or None.
        initializer: an operation that opens the dataset, or None.
    """

    features: Any
    labels: Any
    initializer: Any = None


def call_input_fn(input_fn: InputFn, mode: str, *, params: Any, config: Any) -> Inputs:
    """Call an input_fn in the current graph, on the CPU.

    Args:
        input_fn: takes any of ``mode``, ``params`` and ``config``.
        mode: one of `ModeKeys`.
        params: the parameters of the model.
        config: the `RunConfig`.

    Returns:
        The input. In prediction, only the first part of a sequence is looked at.

    Raises:
        ConfigError: It is no function, or returns a sequence that is not a pair.
    """
    if not callable(input_fn):
        raise ConfigError(f"input_fn must be a function that returns a Dataset or tensors, got {input_fn!r}")
    with tf.device("/device:CPU:0"):
        result = call_with_accepted(input_fn, {"mode": mode, "params": params, "config": config})
        initializer = None
        if isinstance(result, tf.compat.v2.data.Dataset):
            iterator = tf.data.make_initializable_iterator(result)
            result, initializer = iterator.get_next(), iterator.initializer
    if isinstance(result, tuple | list) and result and mode == ModeKeys.PREDICT:
        result = result[0]
    if not isinstance(result, tuple | list):
        return Inputs(result, None, initializer)
    if len(result) != 2:
        raise ConfigError(f"an input_fn gives features, or a pair of features and labels; got {len(result)}: {result}")
    return Inputs(result[0], result[1], initializer)


def warn_if_endless(inputs: Inputs, doing: str) -> None:
    """Log a warning when nothing in the current graph can make the input end.

    Args:
        inputs: the input.
        doing: what goes on until the end.
    """
    has_queues = bool(tf.get_collection(tf.GraphKeys.QUEUE_RUNNERS))
    types = {operation.type for operation in tf.get_default_graph().get_operations()}
    if inputs.initializer is None and not has_queues and not types & {"IteratorGetNext", "OneShotIterator"}:
        logger.warning(f"The input is neither a Dataset nor a queue, so it does not end, and {doing} goes on for ever.")
