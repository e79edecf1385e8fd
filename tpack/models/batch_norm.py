"""Batch normalisation: fused where possible, and over all towers if requested; and batch renormalisation.

The averages are updated with every training step: by operations in the collection UPDATE_OPS, which the callback
`RunUpdateOps` runs, or inside the layer. Of towers that share the variables only the first updates them.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError
from tpack.models.arguments import layer_error, layer_name
from tpack.models.channels import Channels, channels_of, normalize, wide_dtype
from tpack.models.data_format import CHANNELS_FIRST, CHANNELS_LAST
from tpack.models.registry import argument_aliases, layer_register
from tpack.models.steps import OUTPUT
from tpack.models.variables import AffineOptions, Initializer, VariableHolder
from tpack.reduction.cross_replica import stack_over_towers, stack_over_workers, worker_exchange
from tpack.tower.context import add_model_variable, current_tower_context, get_current_tower_context, is_in_control_flow
from tpack.tower.getters import full_precision
from tpack.utils.renames import on_unknown_name
from tpack.utils.validation import check_arguments, is_number, mismatch

__all__ = ["BatchNorm", "BatchRenorm"]

__getattr__ = on_unknown_name(__name__)


UPDATES = ("default", "collection", "internal", "skip")


def unbiased(variance: tf.Tensor, number: tf.Tensor) -> tf.Tensor:
    """Return a variance of ``number`` values times ``number / (number - 1)``, as TensorFlow's fused operation does."""
    return variance * (number / tf.maximum(number - 1, 1))


class BatchStatistics(NamedTuple):
    """Statistics of a batch of n numbers a channel; ``unbiased`` is the variance times n / (n - 1)."""

    mean: tf.Tensor
    variance: tf.Tensor
    unbiased: tf.Tensor


def tower_statistics(wide: tf.Tensor, channels: Channels) -> BatchStatistics:
    """Return the statistics [C] of this tower's batch, in float32 or wider."""
    mean, variance = tf.nn.moments(wide, channels.other_axes)
    return BatchStatistics(mean, variance, unbiased(variance, numbers_per_channel(wide, channels)))


def statistics_over_towers(
    wide: tf.Tensor, channels: Channels, stack: Callable[[tf.Tensor], tf.Tensor] = stack_over_towers
) -> BatchStatistics:
    """Return the statistics [C] of all training towers' batches, of any sizes, as one; to be called in each tower.

    The towers are those of this process, or with `stack_over_workers` for ``stack`` those of all workers.

    Each tower's variance is taken around its own mean, and the means' around the mean of all: nothing is lost where the
    mean is much larger than the deviation.

    Raises:
        TowerMismatchError: Not all towers call it.
    """
    count = channels.count
    own_mean, own_variance = tf.nn.moments(wide, channels.other_axes)
    own = tf.concat([own_mean, own_variance, [numbers_per_channel(wide, channels)]], 0)
    means, variances, numbers = tf.split(stack(own), [count, count, 1], axis=1)
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
        """Add the mean and variance of a batch to the averages, if this tower updates them; return the output.

        With ``"internal"`` for ``how``, instead of ``"collection"`` or ``"skip"``, the output comes after the update.

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
    """Return the way of updating moving averages, of `UPDATES`, from ``ema_update`` or its older form.

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


_SYNCHRONISED = (True, "towers", "nccl", "workers")


@layer_register()
@argument_aliases(
    use_bias="center", use_scale="scale", gamma_init="gamma_initializer", decay="momentum", use_local_stat="training"
)
@check_arguments
def BatchNorm(  # noqa: N802
    inputs: tf.Tensor,
    axis: int | None = None,
    *,
    training: bool | np.bool_ | None = None,
    momentum: float | tf.Tensor = 0.9,
    epsilon: float = 1e-5,
    center: bool = True,
    scale: bool = True,
    beta_initializer: Initializer | None = None,
    gamma_initializer: Initializer | None = None,
    virtual_batch_size: int | None = None,
    data_format: str = CHANNELS_LAST,
    ema_update: str = "default",
    sync_statistics: bool | str | None = None,
    internal_update: bool | None = None,
) -> tf.Tensor:
    """Normalise each channel by the mean and variance of the batch, or by their moving averages.

    The moving variance is that of ``variance * n / (n - 1)`` for a batch of n numbers a channel, as in TensorFlow's
    fused operation, for inputs of two and four dimensions and over towers alike.

    With ``sync_statistics`` the batches of all training towers of this process are normalised as one: outputs,
    gradients and averages are those of one tower with the whole batch, with every builder and on every device. Of
    several workers each normalises its own towers' batches, and the averages are those of worker 0; with ``"workers"``
    the batches of the towers of all of them are one, for two small exchanges a layer in each step. Towers that update
    shared variables asynchronously still compute each step at the same time; there the first tower updates the
    averages, from the statistics of all. Without it, the averages of shared variables are those of the first tower's
    batches.

    Args:
        inputs: features of two dimensions, or a feature map of four.
        axis: the axis of the channels, by default according to ``data_format``.
        training: normalise by the batch and update the averages, or by the averages as they are; None follows the
            current tower. False in a training tower keeps pretrained averages and trains the layers around them.
        momentum: the share of the old average in the new one.
        epsilon: added to the variance.
        center: add ``beta``.
        scale: multiply by ``gamma``.
        beta_initializer: None for zeros.
        gamma_initializer: None for ones.
        virtual_batch_size: in training, normalise groups of this size, each by its own statistics; it divides the
            batch. The averages get the mean of the groups.
        data_format: ``"channels_last"`` or ``"channels_first"``, for inputs of four dimensions.
        ema_update: the update of the averages in training: ``"collection"``, the default, by operations in UPDATE_OPS
            that the callback `RunUpdateOps` runs with each step; ``"internal"``, with each computation of the output;
            ``"skip"``, not at all. A tower for prediction updates nothing, unlike tensorpack's.
        sync_statistics: None for the batch of each tower alone; ``True``, ``"towers"`` or ``"nccl"``, which are the
            same here, for the batches of all towers of this process; ``"workers"`` for those of all workers of
            `MultiWorkerTrainerReplicated`. tensorpack's ``"horovod"`` does not exist.
        internal_update: an older form of ``ema_update="internal"`` or ``"collection"``.

    Shapes:
        As the input.

    Creates:
        ``gamma``, ``beta``, ``mean/EMA`` and ``variance/EMA`` [C], in float32 for inputs of 16 bits, as attributes of
        the output's ``variables``.

    Raises:
        ConfigError: The input has another rank or an unknown number of channels, or an option is invalid, or statistics
            are to be synchronised over several workers that exchange nothing in a step.
        TowerError: ``training`` is None outside of a tower.
        TowerMismatchError: Statistics are synchronised, and not all towers have the layer.

    Source:
        Ioffe and Szegedy, "Batch Normalization", https://arxiv.org/abs/1502.03167
    """
    channels = channels_of("BatchNorm", inputs, _format_of_axis(inputs, axis, data_format), 2, 4)
    how = parse_update("BatchNorm", ema_update, internal_update)
    if is_number(momentum) and not 0 <= momentum <= 1:
        raise ConfigError(mismatch("BatchNorm", "momentum", momentum, "a number in [0, 1]"))
    synchronised = _is_synchronised(sync_statistics, virtual_batch_size)
    _check_virtual_batch_size(inputs, virtual_batch_size)
    by_batch = _is_by_batch(training)
    dtype = wide_dtype(inputs)
    affine = AffineOptions(center, scale, beta_initializer, gamma_initializer).create(channels.count, dtype)
    moving = MovingStatistics(channels.count, dtype, momentum)
    # The name belongs to the last operation.
    is_last = not (by_batch and how == "internal" and updates_statistics())
    layer = _Layer(channels, affine, epsilon, name=OUTPUT if is_last else None)
    if not by_batch:
        outputs = layer.by_averages(inputs, moving)
    else:
        if synchronised:
            outputs, mean, unbiased = layer.over_towers(inputs, of_workers=sync_statistics == "workers")
        elif virtual_batch_size is not None:
            outputs, mean, unbiased = layer.in_groups(inputs, virtual_batch_size)
        else:
            outputs, mean, unbiased = layer.by_batch(inputs)
        outputs = moving.update(mean, unbiased, outputs, how)
    outputs.variables = VariableHolder(mean=moving.mean, variance=moving.variance, **affine)
    return outputs


class _Normalized(NamedTuple):
    """The output, and the statistics for the moving averages."""

    outputs: tf.Tensor
    mean: tf.Tensor
    unbiased: tf.Tensor


class _Layer:
    """The ways to normalise an input."""

    def __init__(
        self, channels: Channels, affine: Mapping[str, tf.Variable], epsilon: float, *, name: str | None
    ) -> None:
        self._name = name
        self._channels = channels
        self._affine = affine
        self._epsilon = epsilon

    def by_averages(self, inputs: tf.Tensor, moving: MovingStatistics) -> tf.Tensor:
        if wide_dtype(inputs) == tf.float32:
            mean, variance = tf.identity(moving.mean), tf.identity(moving.variance)
            return self._fused(inputs, mean, variance, is_training=False).outputs
        return self._normalize(inputs, moving.mean, moving.variance)

    def by_batch(self, inputs: tf.Tensor) -> _Normalized:
        if wide_dtype(inputs) == tf.float32:
            nothing = tf.constant([], tf.float32)
            return self._fused(inputs, nothing, nothing, is_training=True)
        mean, variance, unbiased = tower_statistics(inputs, self._channels)
        return _Normalized(self._normalize(inputs, mean, variance), mean, unbiased)

    def over_towers(self, inputs: tf.Tensor, *, of_workers: bool) -> _Normalized:
        tower = get_current_tower_context()
        if tower is None or not tower.is_training:
            return self.by_batch(inputs)
        of_workers = of_workers and worker_exchange(layer_name("BatchNorm")) is not None
        if tower.total == 1 and not of_workers:
            return self.by_batch(inputs)
        wide = tf.cast(inputs, wide_dtype(inputs))
        stack = stack_over_workers if of_workers else stack_over_towers
        mean, variance, unbiased = statistics_over_towers(wide, self._channels, stack)
        return _Normalized(self._normalize(inputs, mean, variance), mean, unbiased)

    def in_groups(self, inputs: tf.Tensor, size: int) -> _Normalized:
        shape = tf.shape(inputs)
        wide = tf.cast(inputs, wide_dtype(inputs))
        grouped = tf.reshape(wide, tf.concat([[-1, size], shape[1:]], 0))
        grouped.set_shape([None, size, *inputs.shape[1:]])
        statistics = group_statistics(grouped, self._channels)
        affine = self._channels.spread_all(self._affine)
        normalized = normalize(grouped, statistics.mean, statistics.variance, affine, self._epsilon, name=None)
        outputs = tf.reshape(tf.cast(normalized, inputs.dtype), shape, name=self._name)
        outputs.set_shape(inputs.shape)
        mean, _, unbiased = (tf.reshape(tf.reduce_mean(value, 0), [self._channels.count]) for value in statistics)
        return _Normalized(outputs, mean, unbiased)

    def _normalize(self, inputs: tf.Tensor, mean: tf.Tensor, variance: tf.Tensor) -> tf.Tensor:
        spread, affine = self._channels.spread, self._channels.spread_all(self._affine)
        return normalize(inputs, spread(mean), spread(variance), affine, self._epsilon, name=self._name)

    def _fused(self, inputs: tf.Tensor, mean: tf.Tensor, variance: tf.Tensor, *, is_training: bool) -> _Normalized:
        """Return the output, the mean and the unbiased variance."""
        count, is_flat = self._channels.count, self._channels.rank == 2
        gamma, beta = self._affine.get("gamma"), self._affine.get("beta")
        result = tf.raw_ops.FusedBatchNormV3(
            x=tf.reshape(inputs, [-1, 1, 1, count]) if is_flat else inputs,
            scale=tf.ones([count]) if gamma is None else gamma,
            offset=tf.zeros([count]) if beta is None else beta,
            mean=mean,
            variance=variance,
            epsilon=self._epsilon,
            data_format="NCHW" if self._channels.is_first else "NHWC",
            is_training=is_training,
            name=None if is_flat else self._name,
        )
        outputs = tf.reshape(result.y, [-1, count], name=self._name) if is_flat else result.y
        if is_flat:
            outputs.set_shape(inputs.shape)
        return _Normalized(outputs, result.batch_mean, result.batch_variance)


def _format_of_axis(inputs: tf.Tensor, axis: int | None, data_format: str) -> str:
    rank = inputs.shape.rank
    if axis is None or rank is None:
        return data_format
    place = axis + rank if axis < 0 else axis
    if place == rank - 1:
        return CHANNELS_LAST
    if place == 1 and rank == 4:
        return CHANNELS_FIRST
    raise layer_error("BatchNorm", "axis", axis, f"1 or the last one of shape {inputs.shape}")


def _is_by_batch(training: bool | np.bool_ | None) -> bool:
    if training is None:
        return current_tower_context().is_training
    # Comparisons of numpy numbers give numpy booleans.
    if not isinstance(training, bool | np.bool_):
        raise layer_error("BatchNorm", "training", training, "True, False or None")
    return bool(training)


def _is_synchronised(sync_statistics: bool | str | None, virtual_batch_size: int | None) -> bool:
    if sync_statistics is None or sync_statistics is False:
        return False
    if sync_statistics not in _SYNCHRONISED:
        use = "'workers', or True for the towers of a process" if sync_statistics == "horovod" else ""
        expected = "None, True, 'towers', 'nccl' or 'workers'"
        raise layer_error("BatchNorm", "sync_statistics", sync_statistics, expected, use)
    if virtual_batch_size is not None:
        raise ConfigError(
            f"{layer_name('BatchNorm')} got sync_statistics={sync_statistics!r} and virtual_batch_size="
            f"{virtual_batch_size}: expected one of them"
        )
    return True


def _check_virtual_batch_size(inputs: tf.Tensor, size: int | None) -> None:
    batch = tf.compat.dimension_value(inputs.shape[0])
    if size is not None and (size < 1 or (batch is not None and batch % size)):
        expected = f"a divisor of the batch, for shape {inputs.shape}"
        raise layer_error("BatchNorm", "virtual_batch_size", size, expected)


@layer_register()
@check_arguments
def BatchRenorm(  # noqa: N802
    x: tf.Tensor,
    rmax: float | tf.Tensor,
    dmax: float | tf.Tensor,
    *,
    momentum: float | tf.Tensor = 0.9,
    epsilon: float = 1e-5,
    center: bool = True,
    scale: bool = True,
    gamma_initializer: Initializer | None = None,
    data_format: str = CHANNELS_LAST,
) -> tf.Tensor:
    """Normalise by the batch, and correct the result within limits towards that of the moving averages.

    With ``rmax=1`` and ``dmax=0`` it is batch normalisation; schedules usually begin there and end at 3 and 5. The
    correction uses the averages of inference, as in the paper; TensorFlow's layer, and with it tensorpack's, keeps a
    second pair of averages for it.

    Args:
        x: features of two dimensions, or a feature map of four.
        rmax: the largest factor of the correction, and the inverse of the smallest. A number or a scalar tensor.
        dmax: the largest shift of the correction, up and down.
        momentum: the share of the old average in the new one; this and all that follow are as for `BatchNorm`.
        epsilon: added to the variance.
        center: add ``beta``.
        scale: multiply by ``gamma``.
        gamma_initializer: None for ones.
        data_format: for inputs of four dimensions.

    Shapes:
        As the input.

    Creates:
        The variables of `BatchNorm`.

    Raises:
        ConfigError: The input has another rank or an unknown number of channels, ``rmax`` is below 1 or ``dmax`` below
            0.
        TowerError: There is no current tower.

    Source:
        Ioffe, "Batch Renormalization", https://arxiv.org/abs/1702.03275
    """
    channels = channels_of("BatchRenorm", x, data_format, 2, 4)
    for name, limit, least in (("rmax", rmax, 1), ("dmax", dmax, 0)):
        if not tf.is_tensor(limit) and limit < least:
            raise layer_error("BatchRenorm", name, limit, f"at least {least}")
    dtype = wide_dtype(x)
    affine = AffineOptions(center, scale, gamma_initializer=gamma_initializer).create(channels.count, dtype)
    moving = MovingStatistics(channels.count, dtype, momentum)
    if not current_tower_context().is_training:
        spread = channels.spread_all({"mean": moving.mean, "variance": moving.variance, **affine})
        outputs = normalize(x, spread["mean"], spread["variance"], spread, epsilon)
    else:
        batch = tower_statistics(tf.cast(x, dtype), channels)
        factor, shift = _correction(batch.mean, batch.variance + epsilon, moving, epsilon, (rmax, dmax))
        # The two affine functions, the correction and the layer's own, are one.
        if "gamma" in affine:
            factor, shift = factor * affine["gamma"], shift * affine["gamma"]
        if "beta" in affine:
            shift += affine["beta"]
        vectors = {"mean": batch.mean, "variance": batch.variance, "gamma": factor, "beta": shift}
        spread = channels.spread_all(vectors)
        outputs = normalize(x, spread["mean"], spread["variance"], spread, epsilon)
        outputs = moving.update(batch.mean, batch.unbiased, outputs, "collection")
    outputs.variables = VariableHolder(mean=moving.mean, variance=moving.variance, **affine)
    return outputs


def _correction(
    mean: tf.Tensor,
    variance: tf.Tensor,
    moving: MovingStatistics,
    epsilon: float,
    limits: tuple[float | tf.Tensor, float | tf.Tensor],
) -> tuple[tf.Tensor, tf.Tensor]:
    """Return the constant factor and shift from the batch's normalisation to that of the averages."""
    rmax, dmax = (tf.cast(limit, mean.dtype) for limit in limits)
    deviation = tf.sqrt(moving.variance + epsilon)
    factor = tf.clip_by_value(tf.sqrt(variance) / deviation, 1 / rmax, rmax)
    shift = tf.clip_by_value((mean - moving.mean) / deviation, -dmax, dmax)
    return tf.stop_gradient(factor), tf.stop_gradient(shift)
