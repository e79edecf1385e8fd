"""Where the channels of a feature map are, and checks of the shapes that layers need to know.

The two formats go by the names of Keras (``"channels_last"``, ``"channels_first"``) and by those of TensorFlow
(``"NHWC"``, ``"NCHW"``); layers take either. A layer that has variables must know the number of channels while the
graph is built.

Layers that only rearrange.
"""

from collections.abc import Sequence
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError
from tpack.models.registry import layer_register
from tpack.utils.argtools import get_data_format, shape2d

__all__ = ["ConcatWith"]


CHANNELS_FIRST = "channels_first"
CHANNELS_LAST = "channels_last"


def is_channels_first(data_format: str) -> bool:
    """Tell whether the channels come before height and width.

    Raises:
        ConfigError: It is not the name of a data format.
    """
    return get_data_format(data_format) == CHANNELS_FIRST


def channel_axis(data_format: str, rank: int = 4) -> int:
    """Return the axis of the channels, counted from the front; of two dimensions it is always the second."""
    return 1 if rank == 2 or is_channels_first(data_format) else rank - 1


def spatial_axes(data_format: str) -> list[int]:
    """Return the axes of height and width of a feature map."""
    return [2, 3] if is_channels_first(data_format) else [1, 2]


def sizes_of(x: Any) -> list[Any]:
    """Return the sizes of a tensor of known rank: numbers where they are known, else scalar tensors."""
    known = x.shape.as_list()
    if None not in known:
        return list(known)
    dynamic = tf.shape(x)
    return [n if n is not None else dynamic[axis] for axis, n in enumerate(known)]


def layer_name(kind: str) -> str:
    """Return what messages call the layer that is being built: its kind, and the current variable scope.

    Args:
        kind: the name of its function.
    """
    scope = tf.get_variable_scope().name
    return f"{kind} {scope!r}" if scope else kind


def check_rank(kind: str, inputs: Any, *ranks: int) -> int:
    """Return the rank of a layer's input if it is one of those that the layer takes.

    Args:
        kind: the name of the layer's function, for the message.
        inputs: the input.
        *ranks: the ranks that it may have.

    Raises:
        ConfigError: It has another rank, or an unknown one.
    """
    rank = inputs.shape.rank
    if rank not in ranks:
        wanted = " or ".join(f"{r}" for r in ranks)
        raise ConfigError(
            f"{layer_name(kind)} wants an input of {wanted} dimensions, got shape {inputs.shape} ({inputs.name})"
        )
    return int(rank)


def check_sizes(kind: str, argument: str, sizes: int | Sequence[int]) -> tuple[int, int]:
    """Return height and width of a kernel, window or stride.

    Args:
        kind: the name of the layer's function, for the message.
        argument: what the layer calls them.
        sizes: one number for both, or two.

    Raises:
        ConfigError: They are not one or two integers, or not positive.
    """
    try:
        height, width = shape2d(sizes)
    except ConfigError as error:
        raise ConfigError(f"{layer_name(kind)} wants one or two integers as its {argument}, got {sizes!r}") from error
    if height < 1 or width < 1:
        raise ConfigError(f"{layer_name(kind)} wants a positive {argument}, got {sizes!r}")
    return height, width


def check_floating(kind: str, inputs: Any) -> Any:
    """Return the dtype of a layer's input, which its variables will have too.

    Args:
        kind: the name of the layer's function, for the message.
        inputs: the input.

    Raises:
        ConfigError: It is not a floating-point dtype.
    """
    dtype = inputs.dtype.base_dtype
    if not dtype.is_floating:
        raise ConfigError(
            f"{layer_name(kind)} wants a floating-point input, got {dtype.name} ({inputs.name}): cast it before"
        )
    return dtype


def static_channels(kind: str, inputs: Any, data_format: str = CHANNELS_LAST) -> int:
    """Return the number of channels of a layer's input.

    Args:
        kind: the name of the layer's function, for the message.
        inputs: the input, of known rank.
        data_format: where the channels are.

    Raises:
        ConfigError: The number is unknown while the graph is built.
    """
    axis = channel_axis(data_format, inputs.shape.rank)
    channels = inputs.shape[axis]
    if channels is None:
        raise ConfigError(
            f"{layer_name(kind)} wants a known number of channels, the size of dimension {axis} "
            f"({get_data_format(data_format)}), got shape {inputs.shape} ({inputs.name}): say it with set_shape, or in "
            "the input signature"
        )
    return int(channels)


@layer_register(use_scope=None)
def ConcatWith(x: Any, tensor: Any | Sequence[Any], dim: int) -> Any:  # noqa: N802
    """Join a tensor and others along a dimension, as a step of a `LinearWrap`.

    Args:
        x: the first tensor.
        tensor: the tensor that follows it, or a list of them.
        dim: the dimension.

    Shapes:
        The inputs differ in the size of ``dim`` only; the output has the sum of them.
    """
    others = list(tensor) if isinstance(tensor, list | tuple) else [tensor]
    return tf.concat([x, *others], dim)
