"""Losses of ``tf.contrib.losses.metric_learning``: examples of one class near each other, others far away."""

from typing import Any

import tensorflow.compat.v1 as tf

from tpack.tf1.name_table import look_up

_OWN = ("contrastive_loss", "lifted_struct_loss", "npairs_loss", "triplet_semihard_loss")

__getattr__, __dir__, __all__ = look_up(__name__, {}, own=_OWN)


def contrastive_loss(labels: Any, embeddings_anchor: Any, embeddings_positive: Any, margin: float = 1.0) -> tf.Tensor:
    """Pull pairs with label 1 together, and push those with label 0 at least ``margin`` apart.

    Shapes:
        labels [B], embeddings [B, size].

    Source:
        Hadsell, Chopra, LeCun: Dimensionality Reduction by Learning an Invariant Mapping, 2006.
    """
    squares = tf.reduce_sum(tf.squared_difference(embeddings_anchor, embeddings_positive), 1)
    # The root has no gradient at 0.
    distances = tf.sqrt(tf.where(squares > 0, squares, tf.ones_like(squares))) * tf.to_float(squares > 0)
    is_pair = tf.to_float(labels)
    missing = tf.maximum(margin - distances, 0.0)
    return tf.reduce_mean(is_pair * squares + (1.0 - is_pair) * tf.square(missing), name="contrastive_loss")


def triplet_semihard_loss(labels: Any, embeddings: Any, margin: float = 1.0) -> tf.Tensor:
    """Bring each example nearer to those of its class than to the nearest other that is farther than they are.

    For a pair of one class, the other is the nearest of those that are farther away than the pair is; where there is
    none, the farthest.

    Args:
        labels: the class of each, B.
        embeddings: of length 1, B x size.
        margin: by how much nearer.

    Source:
        Schroff, Kalenichenko, Philbin: FaceNet, 2015.
    """
    distances = _squared_distances(tf.to_float(embeddings))
    is_same = _is_same(labels)
    others = tf.to_float(~is_same)
    # [i, j, k]: whether k is of another class than i, and farther from i than j is.
    is_semihard = ~is_same[:, None, :] & (distances[:, None, :] > distances[:, :, None])
    infinite = tf.fill(tf.shape(is_semihard), distances.dtype.max)
    all_distances = tf.broadcast_to(distances[:, None, :], tf.shape(is_semihard))
    nearest = tf.reduce_min(tf.where(is_semihard, all_distances, infinite), 2)
    lowest = tf.reduce_min(distances, 1, keepdims=True)
    farthest = tf.reduce_max((distances - lowest) * others, 1, keepdims=True) + lowest
    negatives = tf.where(tf.reduce_any(is_semihard, 2), nearest, tf.broadcast_to(farthest, tf.shape(nearest)))
    pairs = tf.to_float(is_same) - tf.eye(tf.shape(distances)[0])
    lost = tf.maximum((distances - negatives + margin) * pairs, 0.0)
    return tf.truediv(tf.reduce_sum(lost), tf.reduce_sum(pairs), name="triplet_semihard_loss")


def npairs_loss(
    labels: Any, embeddings_anchor: Any, embeddings_positive: Any, reg_lambda: float = 0.002, print_losses: bool = False
) -> tf.Tensor:
    """Classify each anchor among all positives of a batch by scalar products; ``reg_lambda`` weighs squared lengths.

    Shapes:
        labels [B], embeddings [B, size].

    Source:
        Sohn: Improved Deep Metric Learning with Multi-class N-pair Loss Objective, 2016.
    """
    lengths = [tf.reduce_mean(tf.reduce_sum(tf.square(e), 1)) for e in (embeddings_anchor, embeddings_positive)]
    lengths_loss = tf.multiply(0.25 * reg_lambda, lengths[0] + lengths[1], name="l2loss")
    similarity = tf.matmul(embeddings_anchor, embeddings_positive, transpose_b=True)
    targets = tf.to_float(_is_same(labels))
    targets /= tf.reduce_sum(targets, 1, keepdims=True)
    entropy = tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits_v2(labels=targets, logits=similarity))
    if print_losses:
        entropy = tf.Print(entropy, ["cross entropy:", entropy, "l2loss:", lengths_loss])
    return lengths_loss + entropy


def lifted_struct_loss(labels: Any, embeddings: Any, margin: float = 1.0) -> tf.Tensor:
    """Compare each pair of one class with all others of both at once; classes are to be ``margin`` apart.

    Shapes:
        labels [B], embeddings [B, size].

    Source:
        Song, Xiang, Jegelka, Savarese: Deep Metric Learning via Lifted Structured Feature Embedding, 2016.
    """
    embeddings = tf.to_float(embeddings)
    squares = _squared_distances(embeddings)
    distances = tf.sqrt(tf.where(squares > 0, squares, tf.ones_like(squares))) * tf.to_float(squares > 0)
    is_same = _is_same(labels)
    missing = tf.where(is_same, tf.fill(tf.shape(distances), float("-inf")), margin - distances)
    pushed = tf.reduce_logsumexp(missing, 1)
    each = tf.broadcast_to(pushed[:, None], tf.shape(distances))
    both = tf.reduce_logsumexp(tf.stack([each, tf.transpose(each)]), 0)
    pairs = tf.to_float(is_same) - tf.eye(tf.shape(distances)[0])
    lost = tf.square(tf.maximum((both + distances) * pairs, 0.0))
    return tf.truediv(0.25 * tf.reduce_sum(lost), tf.reduce_sum(pairs) / 2.0, name="liftedstruct_loss")


def _is_same(labels: Any) -> tf.Tensor:
    column = tf.reshape(labels, [-1, 1])
    return tf.equal(column, tf.transpose(column))


def _squared_distances(embeddings: tf.Tensor) -> tf.Tensor:
    """Return the squared distance of each two, B x B; 0 of one to itself."""
    lengths = tf.reduce_sum(tf.square(embeddings), 1, keepdims=True)
    squares = lengths - 2.0 * tf.matmul(embeddings, embeddings, transpose_b=True) + tf.transpose(lengths)
    return tf.maximum(squares, 0.0) * (1.0 - tf.eye(tf.shape(embeddings)[0]))
