"""Mean and variance of the channels of a batch: of a tower's, of groups of its inputs, or of all towers' together."""

from typing import Any, NamedTuple

import tensorflow.compat.v1 as tf

from tpack.models.channels import Channels
from tpack.reduction.cross_tower import stack_over_towers


class BatchStatistics(NamedTuple):
    """Statistics of a batch.

    Attributes:
        mean: for each channel.
        variance: the mean square distance from the mean, which the batch is normalised by.
        unbiased: the variance times n / (n - 1), an estimate for the data that the batch of n numbers was drawn from.
    """

    mean: Any
    variance: Any
    unbiased: Any


def tower_statistics(wide: Any, channels: Channels) -> BatchStatistics:
    """Return the statistics of this tower's batch.

    Args:
        wide: the input, float32 or wider.
        channels: where its channels are.

    Shapes:
        [C] each.
    """
    mean, variance = tf.nn.moments(wide, channels.other_axes)
    return BatchStatistics(mean, variance, unbiased(variance, numbers_per_channel(wide, channels)))


def statistics_over_towers(wide: Any, channels: Channels) -> BatchStatistics:
    """Return the statistics of all training towers' batches as one; to be called in each tower.

    The batches need not be of one size. Each tower's variance is taken around its own mean, and the means' around the
    mean of all, so that nothing is lost where the mean is much larger than the deviation.

    Args:
        wide: this tower's input, float32 or wider.
        channels: where its channels are.

    Shapes:
        [C] each.

    Raises:
        TowerMismatchError: Not all towers call it.
    """
    count = channels.count
    own_mean, own_variance = tf.nn.moments(wide, channels.other_axes)
    own = tf.concat([own_mean, own_variance, [numbers_per_channel(wide, channels)]], 0)
    means, variances, numbers = tf.split(stack_over_towers(own), [count, count, 1], axis=1)
    total = tf.reduce_sum(numbers)
    mean = tf.reduce_sum(means * numbers, 0) / total
    variance = tf.reduce_sum((variances + tf.squared_difference(means, mean)) * numbers, 0) / total
    return BatchStatistics(mean, variance, unbiased(variance, total))


def group_statistics(grouped: Any, channels: Channels) -> BatchStatistics:
    """Return the statistics of each group of inputs.

    Args:
        grouped: the inputs in groups.
        channels: where the channels of the inputs are without the dimension of groups.

    Shapes:
        [groups, inputs in a group, ...] to [groups, 1, ...], which broadcasts.
    """
    axes = [axis + 1 for axis in channels.other_axes]
    mean, variance = tf.nn.moments(grouped, axes, keep_dims=True)
    number = tf.cast(tf.size(grouped) // (tf.shape(grouped)[0] * channels.count), grouped.dtype)
    return BatchStatistics(mean, variance, unbiased(variance, number))


def numbers_per_channel(wide: Any, channels: Channels) -> Any:
    """Return the number of values that each channel of an input has, as a scalar of the input's dtype."""
    return tf.cast(tf.size(wide, out_type=tf.int64) // channels.count, wide.dtype)


def unbiased(variance: Any, number: Any) -> Any:
    """Return a variance of ``number`` values times ``number / (number - 1)``, as TensorFlow's fused operation does."""
    return variance * (number / tf.maximum(number - 1, 1))
