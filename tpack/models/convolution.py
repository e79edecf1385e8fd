"""The convolution itself: which of TensorFlow's operations computes it where.

Everywhere but on basic CPU kernels (see ``cpu_kernels``) it is one operation. There, groups are convolved one by one,
dilation is done by rearranging space to batch, and where it comes with a stride, by a kernel with zeros between its
elements. Where the padding is given in numbers, the input is padded first: on no CPU have the convolutions that pad by
numbers gradients in all cases, and they are not faster.
"""

from dataclasses import dataclass, replace
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.models.cpu_kernels import has_basic_kernels
from tpack.models.padding import Padding, pad


@dataclass(frozen=True)
class Geometry:
    """What a convolution has beside its kernel."""

    strides: tuple[int, int] = (1, 1)
    dilations: tuple[int, int] = (1, 1)
    padding: Padding = "SAME"
    groups: int = 1


def convolve(x: Any, kernel: Any, geometry: Geometry, data_format: str, name: str | None = None) -> Any:
    """Convolve a feature map, by operations that run and have gradients where they will be placed.

    Args:
        x: the feature map.
        kernel: [height, width, channels / groups, filters].
        geometry: the rest.
        data_format: ``"NHWC"`` or ``"NCHW"``; on basic CPU kernels only the first.
        name: of the operation that gives the result.

    Shapes:
        [batch, height, width, channels] to [batch, new height, new width, filters], or both with the channels first.
    """
    padding = geometry.padding
    if not isinstance(padding, str):
        x, geometry = pad(x, padding, data_format), replace(geometry, padding="VALID")
    is_plain = geometry.groups == 1 and geometry.dilations == (1, 1)
    if not is_plain and has_basic_kernels(x.dtype.base_dtype):
        return _convolve_groups(x, kernel, geometry, name)
    return tf.nn.conv2d(
        x,
        kernel,
        strides=_in_four_dimensions(geometry.strides, data_format),
        dilations=_in_four_dimensions(geometry.dilations, data_format),
        padding=geometry.padding,
        data_format=data_format,
        name=name,
    )


def _convolve_groups(x: Any, kernel: Any, geometry: Geometry, name: str | None) -> Any:
    """Convolve in ``"NHWC"`` with basic kernels."""
    if geometry.groups == 1:
        return _convolve_dilated(x, kernel, geometry, name)
    parts = zip(tf.split(x, geometry.groups, axis=3), tf.split(kernel, geometry.groups, axis=3), strict=True)
    return tf.concat([_convolve_dilated(part, weights, geometry) for part, weights in parts], axis=3, name=name)


def _convolve_dilated(x: Any, kernel: Any, geometry: Geometry, name: str | None = None) -> Any:
    if geometry.strides == (1, 1):
        return tf.nn.convolution(x, kernel, geometry.padding, dilation_rate=geometry.dilations, name=name)
    strides = _in_four_dimensions(geometry.strides, "NHWC")
    return tf.nn.conv2d(x, _spread(kernel, geometry.dilations), strides=strides, padding=geometry.padding, name=name)


def _spread(kernel: Any, dilations: tuple[int, int]) -> Any:
    """Return a kernel with zeros between its elements, which does without dilation what it did with it."""
    if dilations == (1, 1):
        return kernel
    (down, right), (height, width, channels, filters) = dilations, kernel.shape.as_list()
    kernel = tf.reshape(kernel, [height, 1, width, 1, channels, filters])
    kernel = tf.pad(kernel, [[0, 0], [0, down - 1], [0, 0], [0, right - 1], [0, 0], [0, 0]])
    kernel = tf.reshape(kernel, [height * down, width * right, channels, filters])
    return kernel[: (height - 1) * down + 1, : (width - 1) * right + 1]


def _in_four_dimensions(sizes: tuple[int, int], data_format: str) -> list[int]:
    return [1, 1, *sizes] if data_format == "NCHW" else [1, *sizes, 1]
