"""Separable convolutions in one and two dimensions: each channel by itself, and then all channels of each place.

Kernels for the CPU know the first half in channels-last format only, and there a layer in the other one transposes.
"""

from typing import Any

import tensorflow.compat.v1 as tf

from tpack.models.data_format import runs_on_cpu
from tpack.tf1.layers.arguments import (
    Constraint,
    Initializer,
    Regularizer,
    constraint_of,
    count_of,
    initializer_of,
    regularizer_of,
)
from tpack.tf1.layers.convolutional import Conv, in_format
from tpack.tf1.layers.functions import layer_function
from tpack.tf1.signatures import like, parameter

__all__ = ["SeparableConv1D", "SeparableConv2D", "separable_conv1d", "separable_conv2d"]


def _of_both(kind: str, annotation: Any) -> dict[str, Any]:
    names = (f"depthwise_{kind}", f"pointwise_{kind}")
    return {name: parameter(name, annotation, None) for name in names}


class SeparableConv(Conv):
    """A separable convolution in ``num_axes`` dimensions; other arguments are those of `Conv`.

    Args:
        depth_multiplier: the number of channels that the first half makes of each.
        depthwise_initializer: of the first kernel; None for that of the scope, or Glorot's uniform one.
        pointwise_initializer: of the second kernel; the same.
        depthwise_regularizer: a function of the first kernel that returns a loss for REGULARIZATION_LOSSES.
        pointwise_regularizer: the same for the second kernel.
        depthwise_constraint: applied by optimizers to the first kernel after each update.
        pointwise_constraint: the same for the second kernel.

    Creates:
        ``depthwise_kernel`` [*kernel_size, channels, depth_multiplier], ``pointwise_kernel`` [1, ..., channels *
        depth_multiplier, filters] and ``bias`` [filters].
    """

    @like(
        Conv.__init__,
        without="kernel_initializer kernel_regularizer kernel_constraint",
        after={
            "dilation_rate": {"depth_multiplier": 1},
            "use_bias": _of_both("initializer", Initializer),
            "bias_initializer": _of_both("regularizer", Regularizer),
            "activity_regularizer": _of_both("constraint", Constraint),
        },
    )
    def __init__(
        self,
        depth_multiplier: int,
        depthwise_initializer: Initializer,
        pointwise_initializer: Initializer,
        depthwise_regularizer: Regularizer,
        pointwise_regularizer: Regularizer,
        depthwise_constraint: Constraint,
        pointwise_constraint: Constraint,
        **given: Any,
    ) -> None:
        super().__init__(**given)
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
        shape = [*self.kernel_size, channels, self.depth_multiplier]
        self.depthwise_kernel = self._add("depthwise_kernel", shape, "depthwise")
        shape = [*(1 for _ in self.kernel_size), channels * self.depth_multiplier, self.filters]
        self.pointwise_kernel = self._add("pointwise_kernel", shape, "pointwise")
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
