"""Parts that normalisation layers share: one number for each channel, in either data format and sufficient precision.

16-bit inputs are normalised in float32, since means of many numbers and differences of nearly equal ones need more than
8 or 11 bits. The variables are float32 then, also in a model that computes in 16 bits.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import tensorflow.compat.v1 as tf

from tpack.models.arguments import check_floating, check_rank, static_channels
from tpack.models.data_format import channel_axis, is_channels_first
from tpack.models.steps import OUTPUT, Step


@dataclass(frozen=True)
class Channels:
    """The channels of a layer's input.

    Attributes:
        axis: their axis, counted from the front.
        rank: the number of dimensions of the input.
        count: the number of channels.
    """

    axis: int
    rank: int
    count: int

    @property
    def is_first(self) -> bool:
        """Whether height and width come after the channels."""
        return self.rank == 4 and self.axis == 1

    @property
    def other_axes(self) -> list[int]:
        """All axes but the channels': batch, height and width."""
        return [axis for axis in range(self.rank) if axis != self.axis]

    def spread(self, vector: tf.Tensor) -> tf.Tensor:
        """Return one number for each channel in a shape that broadcasts with the input: [C] to [1, ..., C, ..., 1]."""
        if self.axis == self.rank - 1:
            return vector
        shape = [1] * self.rank
        shape[self.axis] = self.count
        return tf.reshape(vector, shape)

    def spread_all(self, vectors: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """Return each of several vectors as `spread` does."""
        return {name: self.spread(vector) for name, vector in vectors.items()}


def channels_of(kind: str, inputs: tf.Tensor, data_format: str, *ranks: int) -> Channels:
    """Return the channels of a layer's input.

    Args:
        kind: the name of the layer's function, for messages.
        inputs: the input.
        data_format: the format of four-dimensional inputs.
        *ranks: the accepted numbers of dimensions.

    Raises:
        ConfigError: The input is not floating-point, has another rank or an unknown number of channels.
    """
    check_floating(kind, inputs)
    is_channels_first(data_format)
    rank = check_rank(kind, inputs, *ranks)
    return Channels(channel_axis(data_format, rank), rank, static_channels(kind, inputs, data_format))


def wide_dtype(inputs: tf.Tensor) -> tf.DType:
    """Return the dtype of computation and variables: float32 for 16-bit inputs, else that of the input."""
    dtype = inputs.dtype.base_dtype
    return tf.float32 if dtype.size < 4 else dtype


def normalize(
    inputs: tf.Tensor,
    mean: tf.Tensor,
    variance: tf.Tensor,
    affine: Mapping[str, tf.Tensor],
    epsilon: float,
    *,
    name: str | None = OUTPUT,
) -> tf.Tensor:
    """Return ``(inputs - mean) / sqrt(variance + epsilon) * gamma + beta`` in the dtype of the input.

    Args:
        inputs: the layer's input.
        mean: of the wide dtype, in a shape that broadcasts with the input, as are all statistics here.
        variance: the variance.
        affine: ``gamma`` and ``beta``, or one or none of them.
        epsilon: added to the variance.
        name: the name of the result.
    """
    factor = tf.rsqrt(variance + epsilon)
    if "gamma" in affine:
        factor *= affine["gamma"]
    # The mean is subtracted first: otherwise a mean much larger than the deviation costs the last digits.
    centered = tf.cast(inputs, wide_dtype(inputs)) - mean
    steps: list[Step] = [lambda x, name: tf.multiply(x, factor, name=name)]
    if "beta" in affine:
        steps.append(lambda x, name: tf.add(x, affine["beta"], name=name))
    if inputs.dtype.base_dtype != centered.dtype:
        steps.append(lambda x, name: tf.cast(x, inputs.dtype, name=name))
    for step in steps[:-1]:
        centered = step(centered, None)
    return steps[-1](centered, name)
