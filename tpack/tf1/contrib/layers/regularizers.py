"""Regularisation losses of weights, as functions of a tensor."""

import numbers
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError
from tpack.utils.validation import shown

Regularizer = Callable[..., tf.Tensor | None]


def l1_regularizer(scale: float, scope: str | None = None) -> Regularizer:
    """Return a function that computes ``scale`` times the sum of absolute values; None if ``scale`` is 0.

    Raises:
        ConfigError: ``scale`` is an integer or negative.
    """
    return _scaled("l1_regularizer", scale, scope, lambda weights: tf.reduce_sum(tf.abs(weights)))


def l2_regularizer(scale: float, scope: str | None = None) -> Regularizer:
    """Return a function that computes ``scale`` times half of the sum of squares; None if ``scale`` is 0.

    Raises:
        ConfigError: ``scale`` is an integer or negative.
    """
    return _scaled("l2_regularizer", scale, scope, tf.nn.l2_loss)


def l1_l2_regularizer(scale_l1: float = 1.0, scale_l2: float = 1.0, scope: str | None = None) -> Regularizer:
    """Return the sum of both regularizers; one alone if the other's scale is 0.

    Raises:
        ConfigError: A scale is an integer or negative.
    """
    _check_scale(scale_l1, "scale_l1")
    _check_scale(scale_l2, "scale_l2")
    scope = scope or "l1_l2_regularizer"
    if scale_l1 == 0.0:
        return l2_regularizer(scale_l2, scope)
    if scale_l2 == 0.0:
        return l1_regularizer(scale_l1, scope)
    return sum_regularizer([l1_regularizer(scale_l1), l2_regularizer(scale_l2)], scope)  # type: ignore[return-value]


def sum_regularizer(regularizer_list: Sequence[Regularizer | None], scope: str | None = None) -> Regularizer | None:
    """Return a function that adds several regularizers up; None without any."""
    regularizers = [regularizer for regularizer in regularizer_list if regularizer is not None]
    if not regularizers:
        return None

    def regularize(weights: tf.Tensor) -> tf.Tensor | None:
        with tf.name_scope(scope, "sum_regularizer", [weights]) as name:
            losses = [loss for loss in (regularizer(weights) for regularizer in regularizers) if loss is not None]
            return tf.add_n(losses, name=name) if losses else None

    return regularize


def apply_regularization(regularizer: Regularizer, weights_list: Sequence[Any] | None = None) -> tf.Tensor:
    """Return the sum of a regularizer over several tensors.

    Args:
        regularizer: a function of one.
        weights_list: the tensors; None for the collection WEIGHTS.

    Creates:
        The sum in REGULARIZATION_LOSSES.

    Raises:
        ConfigError: There are no tensors, or a loss is not a scalar.
    """
    if weights_list is None:
        weights_list = tf.get_collection(tf.GraphKeys.WEIGHTS)
    if not weights_list:
        raise ConfigError("apply_regularization got no weights: expected at least one tensor")
    with tf.name_scope("get_regularization_penalty", values=weights_list) as scope:
        found = [regularizer(weights) for weights in weights_list]
        penalties = [tf.constant(0.0) if penalty is None else penalty for penalty in found]
        for penalty in penalties:
            if penalty.shape.rank != 0:
                raise ConfigError(f"a regularizer returned {penalty}: expected a scalar")
        total = tf.add_n(penalties, name=scope)
        tf.add_to_collection(tf.GraphKeys.REGULARIZATION_LOSSES, total)
        return total


def _scaled(kind: str, scale: float, scope: str | None, size_of: Callable[[tf.Tensor], tf.Tensor]) -> Regularizer:
    _check_scale(scale, "scale")
    if scale == 0.0:
        return lambda weights, name=None: None

    def regularize(weights: tf.Tensor, name: str | None = None) -> tf.Tensor:
        with tf.name_scope(scope, kind, [weights]) as inner:
            factor = tf.convert_to_tensor(scale, dtype=weights.dtype.base_dtype, name="scale")
            return tf.multiply(factor, size_of(weights), name=name or inner)

    return regularize


def _check_scale(scale: Any, name: str) -> None:
    if isinstance(scale, numbers.Integral):
        raise ConfigError(f"got {name}={shown(scale)}: expected a float")
    if isinstance(scale, numbers.Real) and not float(scale) >= 0.0:
        raise ConfigError(f"got {name}={shown(scale)}: expected at least 0")
