"""Copies of an optimizer, so that each tower keeps state of its own.

One optimizer applied K times a step advances Adam's beta powers K times. K clones share the user's hyper-parameters
(numbers, tensors or variables), and each has its own slots and counters.
"""

import copy
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

from tpack.compat.graphs import BaseVariable
from tpack.errors import GraphBuildError
from tpack.utils.validation import check_number, shown

# What tf.train.Optimizer fills in while it builds: slots, beta powers, and values waiting for slots still to come.
_STATE_ATTRIBUTES = ("_slots", "_non_slot_dict", "_deferred_slot_restorations")
# Bookkeeping of tf.train.Checkpoint, which is made again on first use.
_TRACKING_PREFIX = "_self_"


def clone_optimizer(optimizer: tf.train.Optimizer) -> tf.train.Optimizer:
    """Return an optimizer of the same class and hyper-parameters without state.

    Optimizers that it holds as attributes, or in lists, tuples and dicts that are attributes, are cloned too, each
    once.

    Raises:
        GraphBuildError: It is not a ``tf.train.Optimizer``.

    Example:
        optimizers = [clone_optimizer(optimizer) for _ in towers]
    """
    return _clone(check_optimizer(optimizer), {})


def check_optimizer(optimizer: object) -> tf.train.Optimizer:
    """Return ``optimizer`` if a graph-mode trainer can use it.

    Raises:
        GraphBuildError: It is not a ``tf.train.Optimizer``.
        ConfigError: Its learning rate is not a number, tensor or function, or is negative or not finite.
    """
    if not isinstance(optimizer, tf.train.Optimizer):
        of_keras = type(optimizer).__module__.startswith("keras.")
        why = ", since those of Keras cannot run in a graph session" if of_keras else ""
        raise GraphBuildError(
            f"optimizer() returned {shown(optimizer)}: expected a tf.compat.v1.train.Optimizer{why}; use "
            "tf.train.AdamOptimizer(1e-3)"
        )
    _check_learning_rate(optimizer)
    return optimizer


def _check_learning_rate(optimizer: tf.train.Optimizer) -> None:
    """Refuse an invalid learning rate; TensorFlow trains silently with a negative or infinite one."""
    # TensorFlow's optimizers keep it under one of these names; one of another class need not have any.
    for name in ("_lr", "_learning_rate"):
        rate: Any = getattr(optimizer, name, 0.0)
        if not (tf.is_tensor(rate) or isinstance(rate, BaseVariable) or callable(rate)):
            # An array of one number is as good as the number.
            is_array = isinstance(rate, np.ndarray) and rate.ndim == 0
            check_number(optimizer, "learning_rate", rate.item() if is_array else rate, 0)


def _clone(optimizer: tf.train.Optimizer, memo: dict[int, tf.train.Optimizer]) -> tf.train.Optimizer:
    if id(optimizer) in memo:
        return memo[id(optimizer)]
    clone = copy.copy(optimizer)
    memo[id(optimizer)] = clone
    for name, value in vars(optimizer).items():
        if name.startswith(_TRACKING_PREFIX):
            delattr(clone, name)
        elif name in _STATE_ATTRIBUTES:
            setattr(clone, name, {})
        else:
            setattr(clone, name, _clone_value(value, memo))
    # An optimizer that names its counters in a scope of its own gets a new one: the names must not clash.
    if getattr(clone, "_use_own_namescope_for_non_slot_vars", False):
        with tf.variable_scope(None, default_name=clone.get_name()) as scope:
            clone._non_slot_variable_scope = scope
    return clone


def _clone_value(value: Any, memo: dict[int, tf.train.Optimizer]) -> Any:
    """Clone the optimizers in ``value`` and copy plain containers; share everything else."""
    if isinstance(value, tf.train.Optimizer):
        return _clone(value, memo)
    # Exact types only: what a named tuple or another container of the user's means is not known here.
    if type(value) in (list, tuple):
        return type(value)(_clone_value(item, memo) for item in value)
    if type(value) is dict:
        return {key: _clone_value(item, memo) for key, item in value.items()}
    return value
