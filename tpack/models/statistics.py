"""Mean and variance of the channels of a batch, and their moving averages, for evaluation.

The batch is a tower's, groups of its inputs, or that of all towers together.

The averages are updated with every training step: by operations in the collection UPDATE_OPS, which the callback
`RunUpdateOps` runs, or inside the layer. Of towers that share the variables only the first updates them.
"""

from typing import Any, NamedTuple

import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError
from tpack.models.arguments import layer_error, layer_name
from tpack.models.channels import Channels
from tpack.models.steps import OUTPUT
from tpack.reduction.cross_replica import stack_over_towers
from tpack.tower.context import add_model_variable, get_current_tower_context, is_in_control_flow
from tpack.tower.getters import full_precision

UPDATES = ("default", "collection", "internal", "skip")


def unbiased(variance: tf.Tensor, number: tf.Tensor) -> tf.Tensor:
    """Return a variance of ``number`` values times ``number / (number - 1)``, as TensorFlow's fused operation does."""
    return variance * (number / tf.maximum(number - 1, 1))


class BatchStatistics(NamedTuple):
    """Statistics of a batch.

    Attributes:
        mean: for each channel.
        variance: the mean square distance from the mean, for normalising the batch.
        unbiased: the variance times n / (n - 1), an estimate for the data that the batch of n numbers was drawn from.
    """

    mean: tf.Tensor
    variance: tf.Tensor
    unbiased: tf.Tensor


def tower_statistics(wide: tf.Tensor, channels: Channels) -> BatchStatistics:
    """Return the statistics [C] of this tower's batch, in float32 or wider."""
    mean, variance = tf.nn.moments(wide, channels.other_axes)
    return BatchStatistics(mean, variance, unbiased(variance, numbers_per_channel(wide, channels)))


def statistics_over_towers(wide: tf.Tensor, channels: Channels) -> BatchStatistics:
    """Return the statistics [C] of all training towers' batches as one; to be called in each tower.

    The batches may differ in size. Each tower's variance is taken around its own mean, and the means' around the mean
    of all, so that nothing is lost where the mean is much larger than the deviation.

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


def group_statistics(grouped: tf.Tensor, channels: Channels) -> BatchStatistics:
    """Return the statistics of each group of inputs.

    Shapes:
        [groups, inputs in a group, ...] to [groups, 1, ...], which broadcasts; ``channels`` does not count the groups.
    """
    axes = [axis + 1 for axis in channels.other_axes]
    mean, variance = tf.nn.moments(grouped, axes, keep_dims=True)
    number = tf.cast(tf.size(grouped) // (tf.shape(grouped)[0] * channels.count), grouped.dtype)
    return BatchStatistics(mean, variance, unbiased(variance, number))


def numbers_per_channel(wide: tf.Tensor, channels: Channels) -> tf.Tensor:
    """Return the number of values of each channel of an input, as a scalar of the input's dtype."""
    return tf.cast(tf.size(wide, out_type=tf.int64) // channels.count, wide.dtype)


class MovingStatistics:
    """The variables ``mean/EMA`` and ``variance/EMA`` of a layer, made in the current scope.

    Args:
        count: the number of channels.
        dtype: the dtype of the variables, whatever the model computes in.
        momentum: the share of the old average in the new one.
    """

    def __init__(self, count: int, dtype: tf.DType, momentum: float | tf.Tensor) -> None:
        self._momentum = momentum
        # Under a distribution strategy each tower has its own averages, whose mean is evaluated and saved.
        options: dict[str, Any] = {
            "trainable": False,
            "synchronization": tf.VariableSynchronization.ON_READ,
            "aggregation": tf.VariableAggregation.MEAN,
        }
        with full_precision():
            self.mean = tf.get_variable("mean/EMA", [count], dtype, tf.zeros_initializer(), **options)
            self.variance = tf.get_variable("variance/EMA", [count], dtype, tf.ones_initializer(), **options)
        add_model_variable(self.mean)
        add_model_variable(self.variance)

    def update(self, mean: tf.Tensor, variance: tf.Tensor, outputs: tf.Tensor, how: str) -> tf.Tensor:
        """Add the statistics of a batch to the averages, if this tower updates them.

        Args:
            mean: the batch's, for each channel.
            variance: the same.
            outputs: the output of the layer.
            how: ``"collection"``, ``"internal"`` or ``"skip"``.

        Returns:
            The output; with ``"internal"``, only after the update.

        Raises:
            ConfigError: Updates are collected in a loop or condition, where they cannot run.
        """
        if how == "skip" or not updates_statistics():
            return outputs
        if how == "collection" and is_in_control_flow():
            raise ConfigError(
                f"{layer_name('a layer')} got ema_update='collection' in a loop, condition or function of TensorFlow, "
                "where updates cannot be collected: expected 'internal' or 'skip'"
            )
        updates = [self._move(self.mean, mean), self._move(self.variance, variance)]
        if how == "internal":
            with tf.control_dependencies(updates):
                return tf.identity(outputs, name=OUTPUT)
        for update in updates:
            tf.add_to_collection(tf.GraphKeys.UPDATE_OPS, update)
        return outputs

    def _move(self, average: tf.Variable, value: tf.Tensor) -> tf.Operation:
        with tf.name_scope("moving_average"):
            rate = tf.cast(1.0 - self._momentum, average.dtype.base_dtype)
            return average.assign_sub((average - value) * rate, read_value=False)


def updates_statistics() -> bool:
    """Tell whether the current tower updates moving averages: in training, once for each set of variables."""
    tower = get_current_tower_context()
    return tower is None or tower.updates_variables


def parse_update(kind: str, ema_update: str, internal_update: bool | None) -> str:
    """Return the way of updating moving averages.

    Args:
        kind: the name of the layer's function, for the message.
        ema_update: one of `UPDATES`.
        internal_update: an older form of it, or None.

    Raises:
        ConfigError: ``ema_update`` is unknown, or both are given.
    """
    if ema_update not in UPDATES:
        raise layer_error(kind, "ema_update", ema_update, f"one of {', '.join(UPDATES)}")
    if internal_update is not None:
        if ema_update != "default":
            expected = f"None beside ema_update={ema_update!r}"
            raise layer_error(kind, "internal_update", internal_update, expected)
        return "internal" if internal_update else "collection"
    return "collection" if ema_update == "default" else ema_update
