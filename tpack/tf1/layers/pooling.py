"""Pooling in one, two and three dimensions: the maximum or the average over windows."""

from collections.abc import Callable
from typing import Any, ClassVar

import tensorflow.compat.v1 as tf

from tpack.tf1.layers.arguments import (
    CHANNELS_FIRST,
    CHANNELS_LAST,
    InputSpec,
    Sizes,
    check_data_format,
    check_padding,
    layer_function,
    sizes_of,
)
from tpack.tf1.layers.base import Layer
from tpack.tf1.layers.core import in_format


class Pooling(Layer):
    """Pooling in ``num_axes`` dimensions.

    Args:
        pool_size: the size of a window, a number for each dimension or one for all; so are ``strides``.
        strides: how far apart windows are; None for their size.
        padding: ``"valid"`` or ``"same"`` in any case. Padded elements do not count.
    """

    num_axes: ClassVar[int] = 0
    operation: ClassVar[Callable[..., tf.Tensor]]

    def __init_subclass__(cls, num_axes: int | None = None, operation: Any = None, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if num_axes is not None:
            cls.num_axes, cls.operation = num_axes, operation

    def __init__(
        self,
        pool_size: Sizes,
        strides: Sizes,
        padding: str = "valid",
        data_format: str = CHANNELS_LAST,
        name: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(name=name, **kwargs)
        self.pool_size = sizes_of(self, "pool_size", pool_size, self.num_axes)
        self.strides = sizes_of(self, "strides", pool_size if strides is None else strides, self.num_axes)
        self.padding = check_padding(self, padding)
        self.data_format = check_data_format(self, data_format)
        self.input_spec = InputSpec(ndim=self.num_axes + 2)

    def call(self, inputs: tf.Tensor, *args: Any, **kwargs: Any) -> tf.Tensor:
        """Return the output."""
        # There is no pooling of volumes with the channels first.
        return in_format(self, inputs, self._pool, is_last_only=self.num_axes == 3)

    def compute_output_shape(self, input_shape: Any) -> tf.TensorShape:
        """Return the shape of the output for one of the input."""
        shape = tf.TensorShape(input_shape).with_rank(self.num_axes + 2).as_list()
        first = 2 if self.data_format == CHANNELS_FIRST else 1
        for axis, (window, stride) in enumerate(zip(self.pool_size, self.strides, strict=True), first):
            if shape[axis] is not None:
                shape[axis] -= window - 1 if self.padding == "valid" else 0
                shape[axis] = -(-shape[axis] // stride)
        return tf.TensorShape(shape)

    def _pool(self, inputs: tf.Tensor, data_format: str) -> tf.Tensor:
        if self.num_axes > 1:
            return self._pool_windows(inputs, self.pool_size, self.strides, data_format)
        # A sequence is a feature map of the width 1.
        width_axis = 3 if data_format == "NCW" else 2
        inputs = tf.expand_dims(inputs, width_axis)
        outputs = self._pool_windows(inputs, (*self.pool_size, 1), (*self.strides, 1), data_format.replace("W", "HW"))
        return tf.squeeze(outputs, [width_axis])

    def _pool_windows(
        self, inputs: tf.Tensor, window: tuple[int, ...], strides: tuple[int, ...], data_format: str
    ) -> tf.Tensor:
        channels_first = data_format[1] == "C"
        ksize, steps = ([1, 1, *sizes] if channels_first else [1, *sizes, 1] for sizes in (window, strides))
        return type(self).operation(inputs, ksize, steps, self.padding.upper(), data_format=data_format)


class MaxPooling1D(Pooling, num_axes=1, operation=tf.nn.max_pool):
    """The maximum over windows of a sequence, with the arguments of `Pooling`."""


class MaxPooling2D(Pooling, num_axes=2, operation=tf.nn.max_pool):
    """The maximum over windows of a feature map, with the arguments of `Pooling`."""


class MaxPooling3D(Pooling, num_axes=3, operation=tf.nn.max_pool3d):
    """The maximum over windows of a volume, with the arguments of `Pooling`."""


class AveragePooling1D(Pooling, num_axes=1, operation=tf.nn.avg_pool):
    """The average over windows of a sequence, with the arguments of `Pooling`."""


class AveragePooling2D(Pooling, num_axes=2, operation=tf.nn.avg_pool):
    """The average over windows of a feature map, with the arguments of `Pooling`."""


class AveragePooling3D(Pooling, num_axes=3, operation=tf.nn.avg_pool3d):
    """The average over windows of a volume, with the arguments of `Pooling`."""


max_pooling1d, max_pooling2d, max_pooling3d = (
    layer_function(f"max_pooling{layer.num_axes}d", layer, has_variables=False)
    for layer in (MaxPooling1D, MaxPooling2D, MaxPooling3D)
)
average_pooling1d, average_pooling2d, average_pooling3d = (
    layer_function(f"average_pooling{layer.num_axes}d", layer, has_variables=False)
    for layer in (AveragePooling1D, AveragePooling2D, AveragePooling3D)
)
