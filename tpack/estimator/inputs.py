"""What an input_fn gives: features and labels as tensors, and what has to be run before the first step.

An input_fn returns a ``tf.data.Dataset`` or tensors. Both have features alone, or a pair of features and labels.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
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
        num_left: how many batches at the end are not enough for all towers, or -1 if that is unknown: a tensor, or None
            where no batch can be left.
    """

    features: Any
    labels: Any
    initializer: Any = None
    num_left: Any = None


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
    with tf.device("/device:CPU:0"):
        result = _call(input_fn, mode, params=params, config=config)
        initializer = None
        if isinstance(result, tf.compat.v2.data.Dataset):
            iterator = tf.data.make_initializable_iterator(result)
            result, initializer = iterator.get_next(), iterator.initializer
    return _parted(result, initializer, mode)


def call_distributed_input_fn(input_fn: InputFn, mode: str, strategy: Any, *, params: Any, config: Any) -> Inputs:
    """Call an input_fn in the current graph and give each tower of a strategy batches of its own.

    Args:
        input_fn: returns a Dataset; takes any of ``mode``, ``params`` and ``config``.
        mode: one of `ModeKeys`.
        strategy: the ``DistributionStrategy``.
        params: the parameters of the model.
        config: the `RunConfig`.

    Returns:
        The input, of which each tower has its part.

    Shapes:
        [B, ...] in the Dataset, and for each tower.

    Raises:
        ConfigError: It is no function, or returns something else than a Dataset, or one of sequences that are no pairs.

    Source:
        The input of TensorFlow 1's estimators under a strategy.
    """
    with tf.device("/device:CPU:0"):
        dataset = _call(input_fn, mode, params=params, config=config)
        if not isinstance(dataset, tf.compat.v2.data.Dataset):
            raise ConfigError(
                f"under a distribution strategy an input_fn must return a tf.data.Dataset, got {dataset!r}"
            )
        size = tf.data.experimental.cardinality(dataset)
        num_left = tf.where(size < 0, tf.constant(-1, size.dtype), size % strategy.num_towers)
    iterator = strategy.distribute_dataset(lambda: dataset).make_initializable_iterator()
    inputs = _parted(iterator.get_next(), iterator.initializer, mode)
    return replace(inputs, num_left=num_left)


def _call(input_fn: InputFn, mode: str, *, params: Any, config: Any) -> Any:
    if not callable(input_fn):
        raise ConfigError(f"input_fn must be a function that returns a Dataset or tensors, got {input_fn!r}")
    return call_with_accepted(input_fn, {"mode": mode, "params": params, "config": config})


def _parted(result: Any, initializer: Any, mode: str) -> Inputs:
    """Return features and labels of what an input_fn or its Dataset gave."""
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
