"""`sequence_loss`: the cross entropy of sequences of tokens, weighted."""

from collections.abc import Callable
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError

__all__ = ["sequence_loss"]

# Weights may all be zero.
_TINY = 1e-12


def sequence_loss(
    logits: Any,
    targets: Any,
    weights: Any,
    average_across_timesteps: bool = True,
    average_across_batch: bool = True,
    sum_over_timesteps: bool = False,
    sum_over_batch: bool = False,
    softmax_loss_function: Callable[..., Any] | None = None,
    name: str | None = None,
) -> Any:
    """Return the weighted cross entropy of sequences: a scalar; [B], [T] or [B, T] where less is averaged or summed.

    Averages divide by the sum of weights, sums by the number of weights that are not 0. A ``softmax_loss_function`` of
    (labels=, logits=) replaces the cross entropy.

    Shapes:
        logits [B, T, tokens], targets [B, T], weights [B, T], 0 behind the end of a sequence.

    Raises:
        ConfigError: A shape is another one, or an average and a sum over the same are asked for.
    """
    for what, tensor, rank in (("logits", logits, 3), ("targets", targets, 2), ("weights", weights, 2)):
        _check_rank(what, tensor, rank)
    for what, is_average, is_sum in (
        ("timesteps", average_across_timesteps, sum_over_timesteps),
        ("batch", average_across_batch, sum_over_batch),
    ):
        if is_average and is_sum:
            raise ConfigError(f"sequence_loss: average_across_{what} and sum_over_{what} cannot both be True")
    averaged, summed = (average_across_batch, average_across_timesteps), (sum_over_batch, sum_over_timesteps)
    with tf.name_scope(name, "sequence_loss", [logits, targets, weights]):
        weights = tf.convert_to_tensor(weights)
        losses = _token_losses(logits, targets, softmax_loss_function) * weights
        # Where both are asked for, over different dimensions, the average is made, if not both sums are.
        if any(averaged) and not all(summed):
            return _divided(losses, weights, _axes(averaged))
        if any(summed):
            return _divided(losses, tf.cast(tf.not_equal(weights, 0), losses.dtype), _axes(summed))
        return losses


def _check_rank(what: str, tensor: Any, rank: int) -> None:
    shape = tf.convert_to_tensor(tensor).shape
    if shape.rank not in (rank, None):
        wanted = "[batch_size x sequence_length" + (" x logits]" if rank == 3 else "]")
        raise ConfigError(f"sequence_loss: {what} must be a {wanted} tensor, got shape {shape}")


def _token_losses(logits: Any, targets: Any, function: Callable[..., Any] | None) -> Any:
    flat = tf.reshape(logits, [-1, tf.shape(logits)[2]])
    labels = tf.reshape(targets, [-1])
    if function is None:
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=flat)
    else:
        losses = function(labels=labels, logits=flat)
    return tf.reshape(losses, tf.shape(logits)[:2])


def _axes(over: tuple[bool, bool]) -> list[int]:
    return [axis for axis, is_reduced in enumerate(over) if is_reduced]


def _divided(losses: Any, weights: Any, axes: list[int]) -> Any:
    return tf.reduce_sum(losses, axes) / (tf.reduce_sum(weights, axes) + _TINY)
