"""Losses of tensorpack's symbolic functions that later versions left to other libraries, by their formulas."""

from typing import Any

import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError
from tpack.legacy.code.renamed import older_function


@older_function("shapeless_placeholder", "tf.TensorSpec")
def shapeless_placeholder(x: tf.Tensor, axis: int | list[int], name: str) -> tf.Tensor:
    """Return a placeholder with a tensor as default, whose dimensions ``axis``, one or several, are unknown.

    Raises:
        ConfigError: The size of such a dimension is unknown already.
    """
    shape = x.shape.as_list()
    for each in axis if isinstance(axis, list | tuple) else [axis]:
        if shape[each] is None:
            raise ConfigError(f"shapeless_placeholder got axis={each}, unknown already in {x.name}: {shape}")
        shape[each] = None
    return tf.placeholder_with_default(x, shape, name=name)


@older_function("huber_loss", "tf.losses.huber_loss")
def huber_loss(x: tf.Tensor, delta: float = 1, name: str = "huber_loss") -> tf.Tensor:
    """Return ``x^2 / 2`` where x is at most ``delta``, and ``delta (|x| - delta / 2)`` beyond, elementwise."""
    size = tf.abs(x)
    is_small = size < delta
    return tf.where(is_small, 0.5 * tf.square(x), delta * (size - 0.5 * delta), name=name)


@older_function("class_balanced_cross_entropy", "class_balanced_sigmoid_cross_entropy, which takes logits")
def class_balanced_cross_entropy(pred: tf.Tensor, label: tf.Tensor, name: str = "cross_entropy_loss") -> tf.Tensor:
    """Return the cross entropy of probabilities ``pred`` and labels of 0 and 1, with classes weighted by rarity."""
    smallest = 1e-12
    truth = tf.cast(label, tf.float32)
    share_of_ones = tf.reduce_mean(truth)
    ones = truth * tf.log(pred + smallest)
    zeros = (1 - truth) * tf.log(1 - pred + smallest)
    return -tf.reduce_mean((1 - share_of_ones) * ones + share_of_ones * zeros, name=name)


@older_function("contrastive_loss", "its formula")
def contrastive_loss(
    left: tf.Tensor,
    right: tf.Tensor,
    y: tf.Tensor,
    margin: float,
    extra: bool = False,
    scope: str = "constrastive_loss",
) -> Any:
    """Return a loss that pulls pairs with ``y == 0`` together, and pushes others ``margin`` apart.

    Args:
        left: features [batch, N].
        right: the features to compare with.
        y: 0 for equal pairs, 1 for others.
        margin: the sufficient distance.
        extra: also return the mean distances of the two kinds.
        scope: a name scope.

    Source:
        Hadsell et al., "Dimensionality Reduction by Learning an Invariant Mapping", CVPR 2006
    """
    with tf.name_scope(scope):
        unlike = tf.cast(y, tf.float32)
        squared = tf.reduce_sum(tf.squared_difference(left, right), axis=1)
        distance = tf.sqrt(squared + 1e-10)
        pulled, pushed = (1 - unlike) * squared, unlike * tf.square(tf.maximum(0.0, margin - distance))
        loss = tf.reduce_mean(pulled + pushed) / 2
        if not extra:
            return loss
        num_unlike = tf.count_nonzero(unlike, dtype=tf.float32)
        near = tf.reduce_sum((1 - unlike) * distance) / (tf.cast(tf.size(unlike), tf.float32) - num_unlike + 1e-10)
        far = tf.reduce_sum(unlike * distance) / (num_unlike + 1e-10)
        return loss, near, far


def _cosine(left: tf.Tensor, right: tf.Tensor) -> tf.Tensor:
    return tf.reduce_sum(tf.nn.l2_normalize(left, 1, 1e-10) * tf.nn.l2_normalize(right, 1, 1e-10), axis=1)


@older_function("siamese_cosine_loss", "its formula")
def siamese_cosine_loss(left: tf.Tensor, right: tf.Tensor, y: tf.Tensor, scope: str = "cosine_loss") -> tf.Tensor:
    """Return the mean squared difference of cosines and labels, which are 1 for equal pairs, else -1."""
    with tf.name_scope(scope):
        return tf.reduce_mean(tf.square(tf.cast(y, tf.float32) - _cosine(left, right)), name="loss") / 2


cosine_loss = siamese_cosine_loss


@older_function("triplet_loss", "its formula")
def triplet_loss(
    anchor: tf.Tensor,
    positive: tf.Tensor,
    negative: tf.Tensor,
    margin: float,
    extra: bool = False,
    scope: str = "triplet_loss",
) -> Any:
    """Return a loss by which positives come nearer to the anchor than negatives, by ``margin``.

    Source:
        Schroff et al., "FaceNet", https://arxiv.org/abs/1503.03832
    """
    with tf.name_scope(scope):
        near = tf.reduce_sum(tf.squared_difference(anchor, positive), axis=1)
        far = tf.reduce_sum(tf.squared_difference(anchor, negative), axis=1)
        loss = tf.reduce_mean(tf.maximum(0.0, margin + near - far))
        if not extra:
            return loss
        return loss, tf.reduce_mean(tf.sqrt(near + 1e-10)), tf.reduce_mean(tf.sqrt(far + 1e-10))


@older_function("soft_triplet_loss", "its formula")
def soft_triplet_loss(
    anchor: tf.Tensor, positive: tf.Tensor, negative: tf.Tensor, extra: bool = True, scope: str = "soft_triplet_loss"
) -> Any:
    """Return a triplet loss on shares of ``exp(distance)``, without a margin.

    Source:
        Hoffer and Ailon, "Deep metric learning using Triplet network", https://arxiv.org/abs/1412.6622
    """
    with tf.name_scope(scope):
        near = tf.sqrt(tf.reduce_sum(tf.squared_difference(anchor, positive), axis=1) + 1e-10)
        far = tf.sqrt(tf.reduce_sum(tf.squared_difference(anchor, negative), axis=1) + 1e-10)
        shares = tf.nn.softmax(tf.stack([near, far], axis=1))
        loss = tf.reduce_mean(tf.square(shares[:, 0])) + tf.reduce_mean(tf.square(shares[:, 1] - 1))
        return (loss, tf.reduce_mean(near), tf.reduce_mean(far)) if extra else loss


@older_function("center_loss", "its formula")
def center_loss(
    embedding: tf.Tensor, label: tf.Tensor, num_classes: int, alpha: float = 0.1, scope: str = "center_loss"
) -> tf.Tensor:
    """Return the mean squared distance to the centre of the class, which follows its members by ``alpha`` a step.

    Source:
        Wen et al., "A Discriminative Feature Learning Approach for Deep Face Recognition", ECCV 2016
    """
    with tf.variable_scope(scope):
        size = embedding.shape.as_list()[1]
        centers = tf.get_variable("centers", [num_classes, size], initializer=tf.zeros_initializer, trainable=False)
        centers_of_batch = tf.gather(centers, tf.reshape(label, [-1]))
        loss = tf.reduce_mean(tf.square(embedding - centers_of_batch))
        difference = alpha * (tf.stop_gradient(embedding) - centers_of_batch)
        with tf.control_dependencies([tf.scatter_add(centers, tf.reshape(label, [-1]), difference)]):
            return tf.identity(loss, name="loss")
