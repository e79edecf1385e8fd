"""Convolutions in one, two and three dimensions: plain, transposed, and separable ones.

A separable one convolves each channel by itself, and then all channels of each place; kernels for the CPU know the
first half in channels-last format only.

Where the kernels of this machine need channels last, a layer in channels-first format transposes around its operation,
like those of ``tpack.models``.
"""

import inspect
from collections.abc import Sequence
from typing import Any, ClassVar

import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError
from tpack.models.data_format import runs_on_cpu
from tpack.tf1.layers.arguments import (
    CHANNELS_FIRST,
    CHANNELS_LAST,
    Constraint,
    Initializer,
    InputSpec,
    Regularizer,
    Sizes,
    check_data_format,
    check_padding,
    count_of,
    layer_function,
    set_parts,
    sizes_of,
)
from tpack.tf1.layers.core import WeightedLayer, in_format
from tpack.tf1.signatures import like, parameter

_SIZES = ("strides", "dilation_rate")


class Conv(WeightedLayer):
    """A convolution in ``num_axes`` dimensions.

    Args:
        kernel_size: a number for each dimension, or one for all, like ``strides`` and ``dilation_rate``.
        strides: the distance of outputs in the input.
        padding: ``"valid"`` or ``"same"`` in any case; in one dimension also ``"causal"``.
        dilation_rate: the distance of the kernel's elements in the input. Either it or ``strides`` is 1.
        activation: a function of the result, such as ``tf.nn.relu``; None for none.
        bias_initializer: of the bias.
        kernel_regularizer: a function of the kernel that returns a loss for REGULARIZATION_LOSSES.
        bias_regularizer: the same for the bias.
        activity_regularizer: the same for the output; it is divided by the batch size.
        kernel_constraint: applied by optimizers to the kernel after each update.
        bias_constraint: the same for the bias.

    Creates:
        ``kernel`` [*kernel_size, channels, filters] and ``bias`` [filters].

    Raises:
        ConfigError: An argument is out of range, or neither ``strides`` nor ``dilation_rate`` is 1.
    """

    num_axes: ClassVar[int] = 0

    def __init_subclass__(cls) -> None:
        # As TensorFlow 1 shows it: the default of sizes is a number for each dimension.
        _, *parameters = inspect.signature(cls.__init__).parameters.values()
        ones = 1 if cls.num_axes == 1 else (1,) * cls.num_axes
        cls.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
            [p.replace(default=ones) if p.name in _SIZES and p.default == 1 else p for p in parameters]
        )

    @like(
        WeightedLayer.__init__,
        after={
            "self": {
                "filters": parameter("filters", int),
                "kernel_size": parameter("kernel_size", Sizes),
                "strides": parameter("strides", Sizes, 1),
                "padding": "valid",
                "data_format": CHANNELS_LAST,
                "dilation_rate": parameter("dilation_rate", Sizes, 1),
            }
        },
    )
    def __init__(
        self,
        filters: int,
        kernel_size: Sizes,
        strides: Sizes,
        padding: str,
        data_format: str,
        dilation_rate: Sizes,
        **given: Any,
    ) -> None:
        super().__init__(**given)
        self.filters = count_of(self, "filters", filters)
        self.kernel_size = sizes_of(self, "kernel_size", kernel_size, self.num_axes)
        self.strides = sizes_of(self, "strides", strides, self.num_axes)
        self.padding = check_padding(self, padding, *(["causal"] if self.num_axes == 1 else []))
        self.data_format = check_data_format(self, data_format)
        self.dilation_rate = sizes_of(self, "dilation_rate", dilation_rate, self.num_axes)
        self.input_spec = InputSpec(ndim=self.num_axes + 2)
        if max(self.strides) > 1 and max(self.dilation_rate) > 1:
            raise ConfigError(
                f"{self.name} got strides {self.strides} and dilation_rate {self.dilation_rate}: expected one of "
                "them to "
                "be 1"
            )

    def build(self, input_shape: Any) -> None:
        """Make ``kernel`` and ``bias``."""
        channels = self._channels_of(input_shape)
        self.kernel = self._add("kernel", [*self.kernel_size, channels, self.filters], "kernel")
        self._make_bias(self.filters)
        self.built = True

    def call(self, inputs: tf.Tensor, *args: Any, **kwargs: Any) -> tf.Tensor:
        """Return the output."""
        return self._activate(in_format(self, inputs, self._convolve_with_bias))

    def compute_output_shape(self, input_shape: Any) -> tf.TensorShape:
        """Return the shape of the output for one of the input."""
        shape = tf.TensorShape(input_shape).with_rank(self.num_axes + 2).as_list()
        first = 2 if self.data_format == CHANNELS_FIRST else 1
        sizes = [self._output_size(size, axis) for axis, size in enumerate(shape[first : first + self.num_axes])]
        return self._in_order(shape[0], sizes)

    def _in_order(self, batch_size: int | None, sizes: Sequence[int | None]) -> tf.TensorShape:
        channels_first = self.data_format == CHANNELS_FIRST
        return tf.TensorShape([batch_size, *([self.filters, *sizes] if channels_first else [*sizes, self.filters])])

    def _output_size(self, size: int | None, axis: int) -> int | None:
        if size is None:
            return None
        if self.padding == "valid":
            size -= (self.kernel_size[axis] - 1) * self.dilation_rate[axis]
        return -(-size // self.strides[axis])

    def _channels_of(self, input_shape: Any) -> int:
        """Return the number of channels, and require it of all later inputs."""
        self._check_floating()
        axis = 1 if self.data_format == CHANNELS_FIRST else -1
        shape = tf.TensorShape(input_shape)
        channels = shape.as_list()[axis] if shape.rank else None
        if channels is None:
            raise ConfigError(
                f"{self.name} got inputs of shape {shape}: expected a known number of channels, in dimension {axis} "
                f"({self.data_format})"
            )
        self.input_spec = InputSpec(ndim=self.num_axes + 2, axes={axis: channels})
        return int(channels)

    def _convolve_with_bias(self, inputs: tf.Tensor, data_format: str) -> tf.Tensor:
        outputs = self._convolve(inputs, data_format)
        return tf.nn.bias_add(outputs, self.bias, data_format=data_format) if self.use_bias else outputs

    def _convolve(self, inputs: tf.Tensor, data_format: str) -> tf.Tensor:
        padding = self.padding.upper()
        if padding == "CAUSAL":
            inputs, padding = self._pad_before(inputs, data_format), "VALID"
        return tf.nn.convolution(
            inputs,
            self.kernel,
            padding,
            strides=self.strides,
            dilation_rate=self.dilation_rate,
            data_format=data_format,
            name="conv1d" if self.num_axes == 1 else f"Conv{self.num_axes}D",
        )

    def _pad_before(self, inputs: tf.Tensor, data_format: str) -> tf.Tensor:
        """Pad a sequence so that no output depends on later inputs."""
        amount = [self.dilation_rate[0] * (self.kernel_size[0] - 1), 0]
        none = [0, 0]
        return tf.pad(inputs, [none, none, amount] if data_format == "NCW" else [none, amount, none])


class Conv1D(Conv):
    """A convolution of a sequence, with the arguments of `Conv`.

    Shapes:
        [batch, length, channels] to [batch, new length, filters], or both with the channels first.
    """

    num_axes = 1


class Conv2D(Conv):
    """A convolution of a feature map, with the arguments of `Conv`.

    Shapes:
        [batch, height, width, channels] to [batch, new height, new width, filters], or both with the channels first.
    """

    num_axes = 2


class Conv3D(Conv):
    """A convolution of a volume, with the arguments of `Conv`.

    Shapes:
        [batch, depth, height, width, channels] to [batch, new depth, new height, new width, filters], or both with the
        channels first.
    """

    num_axes = 3


conv1d = layer_function("conv1d", Conv1D)
conv2d = layer_function("conv2d", Conv2D)
conv3d = layer_function("conv3d", Conv3D)


class ConvTranspose(Conv):
    """A transposed convolution in ``num_axes`` dimensions, with the arguments of `Conv` except the dilation.

    Creates:
        ``kernel`` [*kernel_size, filters, channels] and ``bias`` [filters].
    """

    @like(Conv.__init__, without="dilation_rate")
    def __init__(self, **given: Any) -> None:
        super().__init__(**given)

    def build(self, input_shape: Any) -> None:
        """Make ``kernel`` and ``bias``."""
        channels = self._channels_of(input_shape)
        self.kernel = self._add("kernel", [*self.kernel_size, self.filters, channels], "kernel")
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
        """Return the size of an axis of the output: a number or a tensor, like that of the input."""
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
    def __init__(self, depth_multiplier: int, **given: Any) -> None:
        parts = {name: given.pop(name) for name in list(given) if name.startswith(("depthwise_", "pointwise_"))}
        super().__init__(**given)
        self.depth_multiplier = count_of(self, "depth_multiplier", depth_multiplier)
        set_parts(self, parts)
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
