"""Batch renormalisation: training nearly as in inference, for small batches."""

import tensorflow.compat.v1 as tf

from tpack.models.arguments import layer_error
from tpack.models.channels import channels_of, normalize, wide_dtype
from tpack.models.data_format import CHANNELS_LAST
from tpack.models.registry import layer_register
from tpack.models.statistics import MovingStatistics, tower_statistics
from tpack.models.variables import AffineOptions, Initializer, VariableHolder
from tpack.tower.context import current_tower_context
from tpack.utils.validation import check_arguments

__all__ = ["BatchRenorm"]


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
