"""Transposed convolutions in two and three dimensions: the gradients of convolutions, which enlarge what they get."""

from typing import Any

import tensorflow.compat.v1 as tf

from tpack.tf1.layers.arguments import CHANNELS_LAST, ZEROS, Activation, Constraint, Sizes
from tpack.tf1.layers.base import Initializer, Regularizer
from tpack.tf1.layers.convolutional import Conv, in_format
from tpack.tf1.layers.functions import layer_function

__all__ = ["Conv2DTranspose", "Conv3DTranspose", "conv2d_transpose", "conv3d_transpose"]


class ConvTranspose(Conv):
    """A transposed convolution in ``num_axes`` dimensions, with the arguments of `Conv` but for the dilation.

    Creates:
        ``kernel`` [*kernel_size, filters, channels] and ``bias`` [filters].
    """

    def __init__(
        self,
        filters: int,
        kernel_size: Sizes,
        strides: Sizes = 1,
        padding: str = "valid",
        data_format: str = CHANNELS_LAST,
        activation: Activation = None,
        use_bias: bool = True,
        kernel_initializer: Initializer = None,
        bias_initializer: Initializer = ZEROS,
        kernel_regularizer: Regularizer = None,
        bias_regularizer: Regularizer = None,
        activity_regularizer: Regularizer = None,
        kernel_constraint: Constraint = None,
        bias_constraint: Constraint = None,
        trainable: bool = True,
        name: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            filters,
            kernel_size,
            strides,
            padding,
            data_format,
            activation=activation,
            use_bias=use_bias,
            kernel_initializer=kernel_initializer,
            bias_initializer=bias_initializer,
            kernel_regularizer=kernel_regularizer,
            bias_regularizer=bias_regularizer,
            activity_regularizer=activity_regularizer,
            kernel_constraint=kernel_constraint,
            bias_constraint=bias_constraint,
            trainable=trainable,
            name=name,
            **kwargs,
        )

    def build(self, input_shape: Any) -> None:
        """Make ``kernel`` and ``bias``."""
        channels = self._channels_of(input_shape)
        self._make_kernel([*self.kernel_size, self.filters, channels])
        self._make_bias(self.filters)
        self.built = True

    def call(self, inputs: tf.Tensor, *args: Any, **kwargs: Any) -> tf.Tensor:
        """Return the output."""
        outputs = in_format(self, inputs, self._convolve_with_bias)
        outputs.set_shape(self.compute_output_shape(inputs.shape))
        return self._activate(outputs)

    def _output_size(self, size: int | None, axis: int) -> int | None:
        return None if size is None else self._enlarged(size, axis)

    def _enlarged(self, size: Any, axis: int) -> Any:
        """Return the size of an axis of the output: a number for one, a tensor for one."""
        kernel, stride = self.kernel_size[axis], self.strides[axis]
        return size * stride + (max(kernel - stride, 0) if self.padding == "valid" else 0)

    def _convolve(self, inputs: tf.Tensor, data_format: str) -> tf.Tensor:
        known, shape = inputs.shape.as_list(), tf.shape(inputs)
        sizes = [shape[axis] if size is None else size for axis, size in enumerate(known)]
        channels_first = data_format[1] == "C"
        spatial = sizes[2:] if channels_first else sizes[1:-1]
        enlarged = [self._enlarged(size, axis) for axis, size in enumerate(spatial)]
        operation = tf.nn.conv2d_transpose if self.num_axes == 2 else tf.nn.conv3d_transpose
        ones = [1, 1] if channels_first else [1]
        return operation(
            inputs,
            self.kernel,
            [sizes[0], *([self.filters, *enlarged] if channels_first else [*enlarged, self.filters])],
            [*ones, *self.strides, *([] if channels_first else [1])],
            self.padding.upper(),
            data_format=data_format,
        )


class Conv2DTranspose(ConvTranspose):
    """A transposed convolution of a feature map, with the arguments of `ConvTranspose`.

    Shapes:
        [batch, height, width, channels] to [batch, new height, new width, filters], or both with the channels first.
        A size becomes ``size * stride``, and without padding ``max(kernel_size - stride, 0)`` more.
    """

    num_axes = 2


class Conv3DTranspose(ConvTranspose):
    """A transposed convolution of a volume, with the arguments of `ConvTranspose`.

    Shapes:
        [batch, depth, height, width, channels] to [batch, new depth, new height, new width, filters], or both with the
        channels first; the sizes as for `Conv2DTranspose`.
    """

    num_axes = 3


conv2d_transpose = layer_function("conv2d_transpose", Conv2DTranspose)
conv3d_transpose = layer_function("conv3d_transpose", Conv3DTranspose)
