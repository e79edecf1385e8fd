"""The cross-entropy of lists of scores, and models for sequences of several lengths."""

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError

LossFn = Callable[..., tf.Tensor]
"""From ``labels`` and ``logits`` to losses of [batch]."""
_SMALL = 1e-12


def sequence_loss_by_example(
    logits: Sequence[tf.Tensor],
    targets: Sequence[tf.Tensor],
    weights: Sequence[tf.Tensor],
    average_across_timesteps: bool = True,
    softmax_loss_function: LossFn | None = None,
    name: str | None = None,
) -> tf.Tensor:
    """Return the weighted cross-entropy of each sequence of a batch.

    Args:
        logits: the scores, [batch, num_symbols] for each step.
        targets: the symbols, int32 of [batch] each.
        weights: [batch] each.
        average_across_timesteps: divide by the sum of the weights.
        softmax_loss_function: in place of the cross-entropy.
        name: of the operations.

    Raises:
        ConfigError: The lists differ in length, or are empty.
    """
    if not len(logits) == len(targets) == len(weights) > 0:
        raise ConfigError(
            f"logits, targets and weights must be lists of one length, got {len(logits)}, {len(targets)} and "
            f"{len(weights)}"
        )
    with tf.name_scope(name, "sequence_loss_by_example", [*logits, *targets, *weights]):
        parts = [
            _loss(score, target, softmax_loss_function) * weight
            for score, target, weight in zip(logits, targets, weights, strict=True)
        ]
        total = tf.add_n(parts)
        return total / (tf.add_n(list(weights)) + _SMALL) if average_across_timesteps else total


def _loss(logits: tf.Tensor, target: tf.Tensor, function: LossFn | None) -> tf.Tensor:
    if function is not None:
        return function(labels=target, logits=logits)
    return tf.nn.sparse_softmax_cross_entropy_with_logits(labels=tf.reshape(target, [-1]), logits=logits)


def sequence_loss(
    logits: Sequence[tf.Tensor],
    targets: Sequence[tf.Tensor],
    weights: Sequence[tf.Tensor],
    average_across_timesteps: bool = True,
    average_across_batch: bool = True,
    softmax_loss_function: LossFn | None = None,
    name: str | None = None,
) -> tf.Tensor:
    """Return the weighted cross-entropy of all sequences of a batch: `sequence_loss_by_example`, summed.

    Args:
        logits: the scores, [batch, num_symbols] for each step.
        targets: the symbols, int32 of [batch] each.
        weights: [batch] each.
        average_across_timesteps: divide each sequence's by the sum of its weights.
        average_across_batch: divide by the number of sequences.
        softmax_loss_function: in place of the cross-entropy.
        name: of the operations.
    """
    with tf.name_scope(name, "sequence_loss", [*logits, *targets, *weights]):
        losses = sequence_loss_by_example(logits, targets, weights, average_across_timesteps, softmax_loss_function)
        total = tf.reduce_sum(losses)
        return total / tf.cast(tf.shape(targets[0])[0], total.dtype) if average_across_batch else total


def model_with_buckets(
    encoder_inputs: Sequence[tf.Tensor],
    decoder_inputs: Sequence[tf.Tensor],
    targets: Sequence[tf.Tensor],
    weights: Sequence[tf.Tensor],
    buckets: Sequence[tuple[int, int]],
    seq2seq: Callable[[Any, Any], tuple[list[tf.Tensor], Any]],
    softmax_loss_function: LossFn | None = None,
    per_example_loss: bool = False,
    name: str | None = None,
) -> tuple[list[list[tf.Tensor]], list[tf.Tensor]]:
    """Build a model for several lengths of sequences, with the same variables.

    Args:
        encoder_inputs: what is read, as long as the longest.
        decoder_inputs: what the decoder is given.
        targets: what it is to write.
        weights: of the targets.
        buckets: how many steps are read and written, from the shortest to the longest.
        seq2seq: makes the outputs and the last state from both lists of inputs.
        softmax_loss_function: in place of the cross-entropy.
        per_example_loss: a loss for each sequence of a batch, and not for all.
        name: of the operations.

    Returns:
        For each bucket the outputs, and the loss.

    Raises:
        ConfigError: A list is shorter than the last bucket.
    """
    num_read, num_written = buckets[-1]
    for kind, values, wanted in (
        ("encoder_inputs", encoder_inputs, num_read),
        ("targets", targets, num_written),
        ("weights", weights, num_written),
    ):
        if len(values) < wanted:
            raise ConfigError(f"{kind} must have the {wanted} steps of the last bucket, got {len(values)}")
    loss = sequence_loss_by_example if per_example_loss else sequence_loss
    outputs, losses = [], []
    with tf.name_scope(name, "model_with_buckets", [*encoder_inputs, *decoder_inputs, *targets, *weights]):
        for index, (read, written) in enumerate(buckets):
            with tf.variable_scope(tf.get_variable_scope(), reuse=True if index > 0 else None):
                outputs.append(seq2seq(encoder_inputs[:read], decoder_inputs[:written])[0])
                lists = outputs[-1], targets[:written], weights[:written]
                losses.append(loss(*lists, softmax_loss_function=softmax_loss_function))
    return outputs, losses
