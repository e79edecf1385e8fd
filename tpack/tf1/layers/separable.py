"""Separable convolutions in one and two dimensions: each channel by itself, and then all channels of each place.

Kernels for the CPU know the first half in channels-last format only, and there a layer in the other one transposes.
"""

from typing import Any

import tensorflow.compat.v1 as tf

from tpack.models.data_format import runs_on_cpu
from tpack.tf1.layers.arguments import (
    CHANNELS_LAST,
    ZEROS,
    Activation,
    Constraint,
    Sizes,
    constraint_of,
    count_of,
    initializer_of,
    regularizer_of,
)
from tpack.tf1.layers.base import Initializer, Regularizer
from tpack.tf1.layers.convolutional import Conv, in_format
from tpack.tf1.layers.functions import layer_function

__all__ = ["SeparableConv1D", "SeparableConv2D", "separable_conv1d", "separable_conv2d"]


class SeparableConv(Conv):
    """A separable convolution in ``num_axes`` dimensions.

    Args:
        filters: how many channels come out.
        kernel_size: a number for each dimension, or one for all; so are ``strides`` and ``dilation_rate``.
        strides: how far apart the outputs are in the input.
        padding: ``"valid"`` or ``"same"`` in any case; in one dimension also ``"causal"``.
        data_format: ``"channels_last"`` or ``"channels_first"``.
        dilation_rate: how far apart the kernel's elements are in the input. Either it or ``strides`` is 1.
        depth_multiplier: how many channels the first half makes of each.
        activation: a function of the result, such as ``tf.nn.relu``; None for none.
        use_bias: whether there is a bias.
        depthwise_initializer: of the first kernel; None for that of the scope, or Glorot's uniform one.
        pointwise_initializer: of the second kernel; the same.
        bias_initializer: of the bias.
        depthwise_regularizer: a function of the first kernel that returns a loss for REGULARIZATION_LOSSES.
        pointwise_regularizer: the same for the second kernel.
        bias_regularizer: the same for the bias.
        activity_regularizer: the same for the output; it is divided by the batch size.
        depthwise_constraint: what optimizers do to the first kernel after each update.
        pointwise_constraint: the same for the second kernel.
        bias_constraint: the same for the bias.
        trainable: whether the variables are trained.
        name: of the layer.
        **kwargs: as for `Layer`.

    Creates:
        ``depthwise_kernel`` [*kernel_size, channels, depth_multiplier], ``pointwise_kernel`` [1, ..., channels *
        depth_multiplier, filters] and ``bias`` [filters].
    """

    def __init__(
        self,
        filters: int,
        kernel_size: Sizes,
        strides: Sizes = 1,
        padding: str = "valid",
        data_format: str = CHANNELS_LAST,
        dilation_rate: Sizes = 1,
        depth_multiplier: int = 1,
        activation: Activation = None,
        use_bias: bool = True,
        depthwise_initializer: Initializer = None,
        pointwise_initializer: Initializer = None,
        bias_initializer: Initializer = ZEROS,
        depthwise_regularizer: Regularizer = None,
        pointwise_regularizer: Regularizer = None,
        bias_regularizer: Regularizer = None,
        activity_regularizer: Regularizer = None,
        depthwise_constraint: Constraint = None,
        pointwise_constraint: Constraint = None,
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
            dilation_rate,
            activation=activation,
            use_bias=use_bias,
            bias_initializer=bias_initializer,
            bias_regularizer=bias_regularizer,
            activity_regularizer=activity_regularizer,
            bias_constraint=bias_constraint,
            trainable=trainable,
            name=name,
            **kwargs,
        )
        self.depth_multiplier = count_of(self, "depth_multiplier", depth_multiplier)
        self.depthwise_initializer = initializer_of(self, depthwise_initializer)
        self.pointwise_initializer = initializer_of(self, pointwise_initializer)
        self.depthwise_regularizer = regularizer_of(self, depthwise_regularizer)
        self.pointwise_regularizer = regularizer_of(self, pointwise_regularizer)
        self.depthwise_constraint = constraint_of(self, depthwise_constraint)
        self.pointwise_constraint = constraint_of(self, pointwise_constraint)
        self.depthwise_kernel: Any = None
        self.pointwise_kernel: Any = None

    def build(self, input_shape: Any) -> None:
        """Make ``depthwise_kernel``, ``pointwise_kernel`` and ``bias``."""
        channels = self._channels_of(input_shape)
        self.depthwise_kernel = self.add_weight(
            "depthwise_kernel",
            [*self.kernel_size, channels, self.depth_multiplier],
            initializer=self.depthwise_initializer,
            regularizer=self.depthwise_regularizer,
            constraint=self.depthwise_constraint,
        )
        self.pointwise_kernel = self.add_weight(
            "pointwise_kernel",
            [*(1 for _ in self.kernel_size), channels * self.depth_multiplier, self.filters],
            initializer=self.pointwise_initializer,
            regularizer=self.pointwise_regularizer,
            constraint=self.pointwise_constraint,
        )
        self._make_bias(self.filters)
        self.built = True

    def call(self, inputs: tf.Tensor, *args: Any, **kwargs: Any) -> tf.Tensor:
        """Return the output."""
        return self._activate(in_format(self, inputs, self._convolve_with_bias, is_last_only=runs_on_cpu()))


class SeparableConv1D(SeparableConv):
    """A separable convolution of a sequence, with the arguments of `SeparableConv`.

    Shapes:
        [batch, length, channels] to [batch, new length, filters], or both with the channels first.
    """

    num_axes = 1

    def _convolve_with_bias(self, inputs: tf.Tensor, data_format: str) -> tf.Tensor:
        """Convolve a feature map of the height 1."""
        padding = self.padding.upper()
        if padding == "CAUSAL":
            inputs, padding = self._pad_before(inputs, data_format), "VALID"
        channels_first = data_format == "NCW"
        height_axis = 2 if channels_first else 1
        stride = self.strides[0]
        outputs = tf.nn.separable_conv2d(
            tf.expand_dims(inputs, height_axis),
            tf.expand_dims(self.depthwise_kernel, 0),
            tf.expand_dims(self.pointwise_kernel, 0),
            [1, 1, stride, stride] if channels_first else [1, stride, stride, 1],
            padding,
            rate=[1, *self.dilation_rate],
            data_format="NCHW" if channels_first else "NHWC",
        )
        if self.use_bias:
            outputs = tf.nn.bias_add(outputs, self.bias, data_format="NCHW" if channels_first else "NHWC")
        return tf.squeeze(outputs, [height_axis])


class SeparableConv2D(SeparableConv):
    """A separable convolution of a feature map, with the arguments of `SeparableConv`.

    Shapes:
        [batch, height, width, channels] to [batch, new height, new width, filters], or both with the channels first.
    """

    num_axes = 2

    def _convolve(self, inputs: tf.Tensor, data_format: str) -> tf.Tensor:
        return tf.nn.separable_conv2d(
            inputs,
            self.depthwise_kernel,
            self.pointwise_kernel,
            [1, 1, *self.strides] if data_format == "NCHW" else [1, *self.strides, 1],
            self.padding.upper(),
            rate=self.dilation_rate,
            data_format=data_format,
        )


separable_conv1d = layer_function("separable_conv1d", SeparableConv1D)
separable_conv2d = layer_function("separable_conv2d", SeparableConv2D)
