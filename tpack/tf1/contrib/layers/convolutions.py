"""Convolutions of one to three dimensions: plain, separable, in one plane and transposed."""

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError
from tpack.models.data_format import runs_on_cpu, sizes_of
from tpack.tf1.contrib.framework.scoping import add_arg_scope
from tpack.tf1.contrib.layers.layer_weights import XAVIER, ZEROS, LayerParts
from tpack.tf1.contrib.layers.utils import channel_dimension, n_positive_integers, two_element_tuple
from tpack.tf1.signatures import like
from tpack.utils.validation import shown

Operation = Callable[[tf.Tensor, str], tf.Tensor]

_FORMATS = (None, "NWC", "NCW", "NHWC", "NCHW", "NDHWC", "NCDHW")
_OPERATIONS = {1: "conv1d", 2: "Conv2D", 3: "Conv3D"}


@add_arg_scope
def convolution(
    inputs: Any,
    num_outputs: int,
    kernel_size: Any,
    stride: Any = 1,
    padding: str = "SAME",
    data_format: str | None = None,
    rate: Any = 1,
    activation_fn: Any = tf.nn.relu,
    normalizer_fn: Any = None,
    normalizer_params: Any = None,
    weights_initializer: Any = XAVIER,
    weights_regularizer: Any = None,
    biases_initializer: Any = ZEROS,
    biases_regularizer: Any = None,
    reuse: Any = None,
    variables_collections: Any = None,
    outputs_collections: Any = None,
    trainable: bool = True,
    scope: Any = None,
    conv_dims: int | None = None,
) -> tf.Tensor:
    """Convolve over one to three dimensions, and add a bias or normalise.

    Args:
        inputs: of three to five dimensions, the number of channels known.
        num_outputs: the number of channels of the output.
        kernel_size: the size of the kernel: one for each dimension, or one for all, like ``stride`` and ``rate``.
        stride: the distance of outputs in the input.
        padding: ``"SAME"`` or ``"VALID"``.
        data_format: channels last, or first if it begins with ``"NC"``.
        rate: the distance of the kernel's elements in the input; with a stride of 1.
        activation_fn: the last function; None for none.
        normalizer_fn: such as `batch_norm`: takes the place of the bias.
        normalizer_params: its arguments.
        weights_initializer: of the kernel.
        weights_regularizer: of the kernel.
        biases_initializer: of the bias; None for no bias.
        biases_regularizer: of the bias.
        reuse: of the variable scope.
        variables_collections: those of the variables: a list, or a dict of lists by name.
        outputs_collections: those of the output.
        trainable: whether optimizers change the variables.
        scope: the variable scope, ``Conv`` by default.
        conv_dims: the number of dimensions to convolve over; None for those of the input.

    Creates:
        ``weights`` [kernel size..., channels, num_outputs] and ``biases`` [num_outputs].

    Raises:
        ConfigError: The input has another number of dimensions or an unknown number of channels, or both a stride and
            a rate are above 1.
    """
    parts = {name: value for name, value in locals().items() if name in LayerParts.ARGUMENTS}
    inputs = tf.convert_to_tensor(inputs)
    check_format(data_format, _FORMATS)
    check_rank(inputs, range(3, 6) if conv_dims is None else [conv_dims + 2])
    spatial = inputs.shape.rank - 2
    kernel_size = n_positive_integers(spatial, kernel_size)
    strides, dilations = n_positive_integers(spatial, stride), n_positive_integers(spatial, rate)
    if max(strides) > 1 and max(dilations) > 1:
        raise ConfigError(f"a convolution got stride={stride} and rate={rate}: expected one of them to be 1")
    with tf.variable_scope(scope, "Conv", [inputs], reuse=reuse) as sc:
        channels = channel_dimension(inputs.shape, data_format or "NHWC", min_rank=3)
        layer = LayerParts(inputs.dtype, **parts)
        kernel = layer.kernel([*kernel_size, channels, int(num_outputs)], "kernel")
        bias = layer.bias(int(num_outputs), "bias")

        def operation(x: tf.Tensor, short: str) -> tf.Tensor:
            name = _OPERATIONS[spatial]
            options = {"strides": strides} if max(dilations) == 1 else {"dilation_rate": dilations}
            return tf.nn.convolution(x, kernel, padding.upper(), data_format=short, name=name, **options)

        return layer.end(_with_bias(operation, inputs, bias, data_format), sc)


_convolve = convolution.__wrapped__  # type: ignore[attr-defined]


@add_arg_scope
@like(convolution, without="conv_dims")
def convolution1d(**given: Any) -> tf.Tensor:
    """Convolve over one dimension; see `convolution`."""
    return _convolve(**given, conv_dims=1)


@add_arg_scope
@like(convolution, without="conv_dims")
def convolution2d(**given: Any) -> tf.Tensor:
    """Convolve over height and width; see `convolution`."""
    return _convolve(**given, conv_dims=2)


@add_arg_scope
@like(convolution, without="conv_dims")
def convolution3d(**given: Any) -> tf.Tensor:
    """Convolve over three dimensions; see `convolution`."""
    return _convolve(**given, conv_dims=3)


@add_arg_scope
@like(convolution, without="num_outputs data_format rate conv_dims")
def convolution2d_in_plane(
    inputs: Any, kernel_size: Any, stride: Any, padding: str, reuse: Any, scope: Any, **given: Any
) -> tf.Tensor:
    """Convolve each channel of a feature map, channels last, with one and the same kernel; see `convolution`.

    Creates:
        ``weights`` [height, width, 1, 1] and ``biases`` [channels], in the scope ``ConvInPlane``.
    """
    inputs = tf.convert_to_tensor(inputs)
    height, width = two_element_tuple(kernel_size)
    strides = [1, *two_element_tuple(stride), 1]
    with tf.variable_scope(scope, "ConvInPlane", [inputs], reuse=reuse) as sc:
        channels = channel_dimension(inputs.shape, "NHWC", min_rank=4)
        layer = LayerParts(inputs.dtype, **given)
        kernel = layer.kernel([height, width, 1, 1])
        outputs = tf.nn.depthwise_conv2d(inputs, tf.tile(kernel, [1, 1, channels, 1]), strides, padding)
        bias = layer.bias(channels)
        return layer.end(outputs if bias is None else tf.nn.bias_add(outputs, bias), sc)


@add_arg_scope
@like(
    convolution,
    without="conv_dims",
    after={"kernel_size": {"depth_multiplier": 1}, "weights_initializer": {"pointwise_initializer": None}},
    data_format="NHWC",
)
def separable_convolution2d(
    inputs: Any,
    num_outputs: int | None,
    kernel_size: Any,
    depth_multiplier: int,
    stride: Any,
    padding: str,
    data_format: str,
    rate: Any,
    pointwise_initializer: Any,
    reuse: Any,
    scope: Any,
    **given: Any,
) -> tf.Tensor:
    """Convolve each channel with kernels of its own, and then the channels of each position.

    Args:
        inputs: a feature map.
        num_outputs: the number of channels of the output; None to leave out the second convolution.
        kernel_size: of the first convolution, like ``stride``, ``padding`` and ``rate``.
        depth_multiplier: the number of kernels of each channel.
        stride: see `convolution`.
        padding: see `convolution`.
        data_format: ``"NHWC"`` or ``"NCHW"``.
        rate: see `convolution`.
        pointwise_initializer: of the second kernel; None for ``weights_initializer``, that of the first.
        reuse: of the variable scope.
        scope: the variable scope, ``SeparableConv2d`` by default.
        **given: see `convolution`.

    Creates:
        ``depthwise_weights`` [height, width, channels, depth_multiplier], ``pointwise_weights`` [1, 1, channels *
        depth_multiplier, num_outputs] and ``biases``.

    Raises:
        ConfigError: The input has no four dimensions or an unknown number of channels, or the format is unknown.
    """
    inputs = tf.convert_to_tensor(inputs)
    check_format(data_format)
    height, width = two_element_tuple(kernel_size)
    with tf.variable_scope(scope, "SeparableConv2d", [inputs], reuse=reuse) as sc:
        channels = channel_dimension(inputs.shape, data_format, min_rank=4)
        layer = LayerParts(inputs.dtype, **given)
        is_separable = num_outputs is not None
        loss_of = "depthwise_kernel" if is_separable else None
        kernels = [layer.kernel([height, width, channels, depth_multiplier], loss_of, "depthwise_weights")]
        count = channels * depth_multiplier
        if is_separable:
            shape, count = [1, 1, count, int(num_outputs)], int(num_outputs)  # type: ignore[arg-type]
            kernels.append(layer.kernel(shape, "pointwise_kernel", "pointwise_weights", pointwise_initializer))
        bias = layer.bias(count, "bias" if is_separable else None)
        strides, dilations = two_element_tuple(stride), two_element_tuple(rate)

        def operation(x: tf.Tensor, short: str) -> tf.Tensor:
            steps = [1, 1, *strides] if short == "NCHW" else [1, *strides, 1]
            function = tf.nn.separable_conv2d if is_separable else tf.nn.depthwise_conv2d
            values = map(tf.convert_to_tensor, kernels)
            return function(x, *values, strides=steps, padding=padding.upper(), rate=dilations, data_format=short)

        return layer.end(_with_bias(operation, inputs, bias, data_format), sc)


@add_arg_scope
@like(convolution, without="rate conv_dims", data_format="NHWC")
def convolution2d_transpose(**given: Any) -> tf.Tensor:
    """Convolve a feature map the other way round, so that a stride makes it larger; see `convolution`.

    Creates:
        ``weights`` [height, width, num_outputs, channels] and ``biases`` [num_outputs], in the scope
        ``Conv2d_transpose``.
    """
    return _transposed(2, **given)


@add_arg_scope
@like(convolution, without="rate conv_dims", data_format="NDHWC")
def convolution3d_transpose(**given: Any) -> tf.Tensor:
    """Convolve over three dimensions the other way round; see `convolution2d_transpose`.

    Creates:
        ``weights`` [depth, height, width, num_outputs, channels] and ``biases`` [num_outputs], in the scope
        ``Conv3d_transpose``.
    """
    return _transposed(3, **given)


def _transposed(
    spatial: int,
    *,
    inputs: Any,
    num_outputs: int,
    kernel_size: Any,
    stride: Any,
    padding: str,
    data_format: str,
    reuse: Any,
    scope: Any,
    **given: Any,
) -> tf.Tensor:
    check_format(data_format, ("NHWC", "NCHW") if spatial == 2 else ("NDHWC", "NCDHW"))
    padding = padding.upper()
    with tf.variable_scope(scope, f"Conv{spatial}d_transpose", [inputs], reuse=reuse) as sc:
        inputs = tf.convert_to_tensor(inputs)
        count, kernel_size = int(num_outputs), n_positive_integers(spatial, kernel_size)
        check_rank(inputs, [spatial + 2])
        layer = LayerParts(inputs.dtype, **given)
        kernel = layer.kernel([*kernel_size, count, channel_dimension(inputs.shape, data_format)], "kernel")
        bias = layer.bias(count, "bias")
        strides = n_positive_integers(spatial, stride)
        transpose = tf.nn.conv2d_transpose if spatial == 2 else tf.nn.conv3d_transpose
        weights = tf.convert_to_tensor(kernel)

        def operation(x: tf.Tensor, short: str) -> tf.Tensor:
            is_last = short.endswith("C")
            batch, *others = sizes_of(x)
            larger = [
                size * step + (max(length - step, 0) if padding == "VALID" else 0)
                for size, step, length in zip(others[:-1] if is_last else others[1:], strides, kernel_size, strict=True)
            ]
            shape = [batch, *larger, count] if is_last else [batch, count, *larger]
            steps = [1, *strides, 1] if is_last else [1, 1, *strides]
            outputs = transpose(x, weights, tf.stack(shape), steps, padding, short)
            outputs.set_shape([None if tf.is_tensor(size) else size for size in shape])
            return outputs

        return layer.end(_with_bias(operation, inputs, bias, data_format), sc)


def check_format(data_format: str | None, formats: Sequence[str | None] = ("NHWC", "NCHW")) -> None:
    """Raise ConfigError if a data format is none of ``formats``."""
    if data_format not in formats:
        raise ConfigError(f"got data_format={shown(data_format)}: expected one of {', '.join(map(str, formats))}")


def check_rank(inputs: tf.Tensor, ranks: Sequence[int]) -> None:
    """Raise ConfigError if the number of dimensions of an input is none of ``ranks``."""
    if inputs.shape.rank not in ranks:
        raise ConfigError(
            f"got an input of the shape {inputs.shape}: expected {' or '.join(map(str, ranks))} dimensions"
        )


def in_format(operation: Operation, inputs: tf.Tensor, data_format: str) -> tf.Tensor:
    """Return the result of an operation on a feature map, computed with the channels last where the CPU needs that.

    Args:
        operation: takes the feature map and a format with a letter for each dimension.
        inputs: the feature map.
        data_format: that of the feature map.
    """
    rank = inputs.shape.rank
    letters = {3: "W", 4: "HW", 5: "DHW"}[rank]
    if not data_format.startswith("NC"):
        return operation(inputs, f"N{letters}C")
    if not runs_on_cpu():
        return operation(inputs, f"NC{letters}")
    spatial = list(range(2, rank))
    outputs = operation(tf.transpose(inputs, [0, *spatial, 1]), f"N{letters}C")
    return tf.transpose(outputs, [0, rank - 1, *range(1, rank - 1)])


def _with_bias(operation: Operation, inputs: tf.Tensor, bias: tf.Variable | None, data_format: Any) -> tf.Tensor:
    def with_bias(x: tf.Tensor, short: str) -> tf.Tensor:
        outputs = operation(x, short)
        if bias is None:
            return outputs
        return tf.nn.bias_add(outputs, bias, data_format="N..C" if short.endswith("C") else "NC..")

    return in_format(with_bias, inputs, data_format or "NHWC")


conv1d = convolution1d
conv2d = convolution2d
conv3d = convolution3d
conv2d_in_plane = convolution2d_in_plane
separable_conv2d = separable_convolution2d
conv2d_transpose = convolution2d_transpose
conv3d_transpose = convolution3d_transpose
