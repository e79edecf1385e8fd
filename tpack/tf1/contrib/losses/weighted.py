"""The losses of ``tf.contrib.losses``: those of ``tf.losses``, with predictions before labels.

Each is averaged over the entries whose weight is not 0, and put into the collection of losses. Weights may also be one
for each example of several entries.
"""

from typing import Any

import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError


def absolute_difference(
    predictions: Any, labels: Any = None, weights: Any = 1.0, scope: str | None = None
) -> tf.Tensor:
    """Average the absolute difference."""
    predictions, labels = _pair("absolute_difference", predictions, labels)
    return tf.losses.absolute_difference(labels, predictions, _of_rank(weights, predictions), scope)


def mean_squared_error(predictions: Any, labels: Any = None, weights: Any = 1.0, scope: str | None = None) -> tf.Tensor:
    """Average the squared difference."""
    predictions, labels = _pair("mean_squared_error", predictions, labels)
    return tf.losses.mean_squared_error(labels, predictions, _of_rank(weights, predictions), scope)


def log_loss(
    predictions: Any, labels: Any = None, weights: Any = 1.0, epsilon: float = 1e-7, scope: str | None = None
) -> tf.Tensor:
    """Average the negative log-likelihood of binary labels."""
    predictions, labels = _pair("log_loss", predictions, labels)
    return tf.losses.log_loss(labels, predictions, _of_rank(weights, predictions), epsilon, scope)


def hinge_loss(logits: Any, labels: Any = None, scope: str | None = None) -> tf.Tensor:
    """Return the hinge loss of each logit for a label of 0 or 1; it is neither averaged nor put into a collection."""
    logits, labels = _pair("hinge_loss", logits, labels)
    with tf.name_scope(scope, "hinge_loss", [logits, labels]):
        return tf.nn.relu(1.0 - (2.0 * labels - 1.0) * logits)


def cosine_distance(
    predictions: Any,
    labels: Any = None,
    axis: int | None = None,
    weights: Any = 1.0,
    scope: str | None = None,
    dim: int | None = None,
) -> tf.Tensor:
    """Average one less the scalar product along ``axis``, formerly ``dim``; the vectors must be of length 1.

    Raises:
        ConfigError: There is no axis, or two.
    """
    if (axis is None) == (dim is None):
        raise ConfigError(f"cosine_distance got axis={axis} and dim={dim}: expected one of them")
    predictions, labels = _pair("cosine_distance", predictions, labels)
    return tf.losses.cosine_distance(labels, predictions, dim if axis is None else axis, weights, scope)


def mean_pairwise_squared_error(
    predictions: Any, labels: Any = None, weights: Any = 1.0, scope: str | None = None
) -> tf.Tensor:
    """Average the squared difference of the differences between all pairs of entries of an example.

    An entry also pairs with itself here, other than in ``tf.losses``. Examples are added up; ``weights`` is one number
    for all, or one for each example.
    """
    predictions, labels = _pair("mean_pairwise_squared_error", predictions, labels)
    with tf.name_scope(scope, "mean_pairwise_squared_error", [predictions, labels, weights]):
        away = predictions - labels
        axes = list(range(1, away.shape.rank))
        weights = tf.to_float(weights)
        variance = tf.reduce_mean(tf.square(away), axes) - tf.square(tf.reduce_mean(away, axes))
        weights = tf.broadcast_to(tf.reshape(weights, [-1]), tf.shape(variance))
        return add_loss(tf.reduce_sum(2.0 * variance * weights, name="value"))


def sigmoid_cross_entropy(
    logits: Any, multi_class_labels: Any, weights: Any = 1.0, label_smoothing: float = 0, scope: str | None = None
) -> tf.Tensor:
    """Average the cross entropy of classes that do not exclude each other."""
    logits, labels = _pair("sigmoid_cross_entropy", logits, multi_class_labels)
    return tf.losses.sigmoid_cross_entropy(labels, logits, _of_rank(weights, logits), label_smoothing, scope)


def softmax_cross_entropy(
    logits: Any, onehot_labels: Any, weights: Any = 1.0, label_smoothing: float = 0, scope: str | None = None
) -> tf.Tensor:
    """Average the cross entropy of classes that exclude each other, with labels as vectors."""
    logits, labels = _pair("softmax_cross_entropy", logits, onehot_labels)
    return tf.losses.softmax_cross_entropy(labels, logits, _of_rank(weights, logits[..., 0]), label_smoothing, scope)


def sparse_softmax_cross_entropy(logits: Any, labels: Any, weights: Any = 1.0, scope: str | None = None) -> tf.Tensor:
    """Average the cross entropy of classes that exclude each other, with labels as numbers."""
    logits, labels = tf.convert_to_tensor(logits), tf.convert_to_tensor(labels)
    if labels.shape.rank == logits.shape.rank:
        labels = tf.squeeze(labels, [-1])
    return tf.losses.sparse_softmax_cross_entropy(labels, logits, _of_rank(weights, labels), scope)


def compute_weighted_loss(losses: Any, weights: Any = 1.0, scope: str | None = None) -> tf.Tensor:
    """Average losses over the entries whose weight is not 0, and put the average into the collection."""
    losses = tf.convert_to_tensor(losses)
    return tf.losses.compute_weighted_loss(losses, _of_rank(weights, losses), scope)


def add_loss(loss: tf.Tensor, loss_collection: str | None = tf.GraphKeys.LOSSES) -> tf.Tensor:
    """Put a loss into a collection, and return it."""
    if loss_collection:
        tf.losses.add_loss(loss, loss_collection)
    return loss


def _pair(owner: str, predictions: Any, labels: Any) -> tuple[tf.Tensor, tf.Tensor]:
    """Return what is compared, as numbers of one shape; raise ConfigError if one is missing, or their shapes differ."""
    if predictions is None or labels is None:
        raise ConfigError(f"{owner} got {'no predictions' if predictions is None else 'no labels'}: expected both")
    predictions, labels = tf.to_float(predictions), tf.to_float(labels)
    if not predictions.shape.is_compatible_with(labels.shape):
        shapes = f"predictions of shape {predictions.shape} and labels of shape {labels.shape}"
        raise ConfigError(f"{owner} got {shapes}: expected shapes that are compatible")
    return predictions, labels


def _of_rank(weights: Any, losses: tf.Tensor) -> tf.Tensor:
    """Return weights with as many axes as losses have, so that one for an example counts for all its entries."""
    weights = tf.convert_to_tensor(weights, tf.float32)
    if None in (weights.shape.rank, losses.shape.rank) or weights.shape.rank == 0:
        return weights
    if weights.shape.rank == losses.shape.rank + 1:
        return tf.squeeze(weights, [-1])
    for _ in range(losses.shape.rank - weights.shape.rank):
        weights = tf.expand_dims(weights, -1)
    return weights
