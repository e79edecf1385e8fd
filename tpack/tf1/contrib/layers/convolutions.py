"""Convolutions of one to three dimensions, those of each channel alone, and separable ones."""

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError
from tpack.models.data_format import runs_on_cpu
from tpack.tf1.contrib.framework.scoping import add_arg_scope
from tpack.tf1.contrib.layers.initializers import XAVIER, ZEROS
from tpack.tf1.contrib.layers.layer_weights import Ending, Weights
from tpack.tf1.contrib.layers.utils import channel_dimension, n_positive_integers, two_element_tuple
from tpack.utils.validation import shown

_FORMATS = (None, "NWC", "NCW", "NHWC", "NCHW", "NDHWC", "NCDHW")
_OPERATIONS = {1: "conv1d", 2: "Conv2D", 3: "Conv3D"}


def convolve(
    inputs: Any,
    num_outputs: int,
    kernel_size: Any,
    stride: Any,
    padding: str,
    data_format: str | None,
    rate: Any,
    activation_fn: Any,
    normalizer_fn: Any,
    normalizer_params: Any,
    weights_initializer: Any,
    weights_regularizer: Any,
    biases_initializer: Any,
    biases_regularizer: Any,
    reuse: Any,
    variables_collections: Any,
    outputs_collections: Any,
    trainable: bool,
    scope: Any,
    conv_dims: int | None,
) -> tf.Tensor:
    """Do what `convolution` says.

    Raises:
        ConfigError: The input has another number of dimensions, or the stride and the rate are above 1.
    """
    inputs = tf.convert_to_tensor(inputs)
    spatial = _spatial_rank(inputs, data_format, conv_dims)
    kernel_size = n_positive_integers(spatial, kernel_size)
    strides, dilations = n_positive_integers(spatial, stride), n_positive_integers(spatial, rate)
    if max(strides) > 1 and max(dilations) > 1:
        raise ConfigError(f"a convolution has a stride or a rate above 1, got stride={stride} and rate={rate}")
    ending = Ending(activation_fn, normalizer_fn, normalizer_params, outputs_collections)
    with tf.variable_scope(scope, "Conv", [inputs], reuse=reuse) as sc:
        channels = channel_dimension(inputs.shape, data_format or "NHWC", min_rank=3)
        weights = Weights(variables_collections, trainable, inputs.dtype.base_dtype)
        shape = [*kernel_size, channels, int(num_outputs)]
        kernel = weights.make("weights", shape, weights_initializer, weights_regularizer, "kernel")
        bias = None
        if normalizer_fn is None and biases_initializer is not None:
            bias = weights.make("biases", [int(num_outputs)], biases_initializer, biases_regularizer, "bias")

        def operation(x: tf.Tensor, short: str) -> tf.Tensor:
            name = _OPERATIONS[spatial]
            options = {"strides": strides} if max(dilations) == 1 else {"dilation_rate": dilations}
            return tf.nn.convolution(x, kernel, padding.upper(), data_format=short, name=name, **options)

        return ending.apply(_with_bias(operation, inputs, bias, data_format), sc)


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
        kernel_size: the size of the kernel: one for each dimension, or one for all; so are ``stride`` and ``rate``.
        stride: how far apart the outputs are in the input.
        padding: ``"SAME"`` or ``"VALID"``.
        data_format: where the channels are: last, or first if it begins with ``"NC"``.
        rate: how far apart the elements of the kernel are in the input; with a stride of 1.
        activation_fn: the last function; None for none.
        normalizer_fn: such as `batch_norm`: takes the place of the bias.
        normalizer_params: its arguments.
        weights_initializer: of the kernel.
        weights_regularizer: of the kernel.
        biases_initializer: of the bias; None for no bias.
        biases_regularizer: of the bias.
        reuse: of the variable scope.
        variables_collections: where the variables go: a list, or a dict of lists by name.
        outputs_collections: where the output goes.
        trainable: whether optimizers change the variables.
        scope: the variable scope, ``Conv`` by default.
        conv_dims: over how many dimensions; None for those that the input has.

    Creates:
        ``weights`` [kernel size..., channels, num_outputs] and ``biases`` [num_outputs].

    Raises:
        ConfigError: The input has another number of dimensions or an unknown number of channels, or an argument cannot
            work.
    """
    return convolve(**locals())


@add_arg_scope
def convolution1d(
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
) -> tf.Tensor:
    """Convolve over one dimension; see `convolution`."""
    return convolve(**locals(), conv_dims=1)


@add_arg_scope
def convolution2d(
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
) -> tf.Tensor:
    """Convolve over height and width; see `convolution`."""
    return convolve(**locals(), conv_dims=2)


@add_arg_scope
def convolution3d(
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
) -> tf.Tensor:
    """Convolve over three dimensions; see `convolution`."""
    return convolve(**locals(), conv_dims=3)


@add_arg_scope
def convolution2d_in_plane(
    inputs: Any,
    kernel_size: Any,
    stride: Any = 1,
    padding: str = "SAME",
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
) -> tf.Tensor:
    """Convolve each channel of a feature map, channels last, with one and the same kernel; see `convolution`.

    Creates:
        ``weights`` [height, width, 1, 1] and ``biases`` [channels], in the scope ``ConvInPlane``.
    """
    inputs = tf.convert_to_tensor(inputs)
    height, width = two_element_tuple(kernel_size)
    strides = [1, *two_element_tuple(stride), 1]
    ending = Ending(activation_fn, normalizer_fn, normalizer_params, outputs_collections)
    with tf.variable_scope(scope, "ConvInPlane", [inputs], reuse=reuse) as sc:
        channels = channel_dimension(inputs.shape, "NHWC", min_rank=4)
        weights = Weights(variables_collections, trainable, inputs.dtype.base_dtype)
        kernel = weights.make("weights", [height, width, 1, 1], weights_initializer, weights_regularizer)
        outputs = tf.nn.depthwise_conv2d(inputs, tf.tile(kernel, [1, 1, channels, 1]), strides, padding)
        if normalizer_fn is None and biases_initializer is not None:
            bias = weights.make("biases", [channels], biases_initializer, biases_regularizer)
            outputs = tf.nn.bias_add(outputs, bias)
        return ending.apply(outputs, sc)


@add_arg_scope
def separable_convolution2d(
    inputs: Any,
    num_outputs: int | None,
    kernel_size: Any,
    depth_multiplier: int = 1,
    stride: Any = 1,
    padding: str = "SAME",
    data_format: str = "NHWC",
    rate: Any = 1,
    activation_fn: Any = tf.nn.relu,
    normalizer_fn: Any = None,
    normalizer_params: Any = None,
    weights_initializer: Any = XAVIER,
    pointwise_initializer: Any = None,
    weights_regularizer: Any = None,
    biases_initializer: Any = ZEROS,
    biases_regularizer: Any = None,
    reuse: Any = None,
    variables_collections: Any = None,
    outputs_collections: Any = None,
    trainable: bool = True,
    scope: Any = None,
) -> tf.Tensor:
    """Convolve each channel with kernels of its own, and then the channels of each position; see `convolution`.

    Args:
        inputs: a feature map.
        num_outputs: the number of channels of the output; None to leave out the second convolution.
        kernel_size: of the first convolution.
        depth_multiplier: how many kernels each channel has.
        stride: of the first convolution.
        padding: of the first convolution.
        data_format: ``"NHWC"`` or ``"NCHW"``.
        rate: of the first convolution.
        activation_fn: see `convolution`.
        normalizer_fn: see `convolution`.
        normalizer_params: see `convolution`.
        weights_initializer: of the first kernels.
        pointwise_initializer: of the second kernel; None for the same.
        weights_regularizer: of all kernels.
        biases_initializer: see `convolution`.
        biases_regularizer: see `convolution`.
        reuse: see `convolution`.
        variables_collections: see `convolution`.
        outputs_collections: see `convolution`.
        trainable: see `convolution`.
        scope: the variable scope, ``SeparableConv2d`` by default.

    Creates:
        ``depthwise_weights`` [height, width, channels, depth_multiplier], ``pointwise_weights`` [1, 1, channels *
        depth_multiplier, num_outputs] and ``biases``.

    Raises:
        ConfigError: The input has no four dimensions or an unknown number of channels, or an argument cannot work.
    """
    inputs = tf.convert_to_tensor(inputs)
    check_format(data_format)
    height, width = two_element_tuple(kernel_size)
    ending = Ending(activation_fn, normalizer_fn, normalizer_params, outputs_collections)
    with tf.variable_scope(scope, "SeparableConv2d", [inputs], reuse=reuse) as sc:
        channels = channel_dimension(inputs.shape, data_format, min_rank=4)
        weights = Weights(variables_collections, trainable, inputs.dtype.base_dtype)
        is_separable = num_outputs is not None
        shape = [height, width, channels, depth_multiplier]
        loss_of = "depthwise_kernel" if is_separable else None
        kernels = [weights.make("depthwise_weights", shape, weights_initializer, weights_regularizer, loss_of)]
        count = channels * depth_multiplier
        if is_separable:
            initializer = pointwise_initializer or weights_initializer
            shape, count = [1, 1, count, int(num_outputs)], int(num_outputs)  # type: ignore[arg-type]
            kernels.append(
                weights.make("pointwise_weights", shape, initializer, weights_regularizer, "pointwise_kernel")
            )
        bias = None
        if normalizer_fn is None and biases_initializer is not None:
            loss_of = "bias" if is_separable else None
            bias = weights.make("biases", [count], biases_initializer, biases_regularizer, loss_of)
        operation = _separable(kernels, two_element_tuple(stride), two_element_tuple(rate), padding)
        return ending.apply(_with_bias(operation, inputs, bias, data_format), sc)


def _separable(
    kernels: Sequence[tf.Variable], strides: tuple[int, ...], rate: tuple[int, ...], padding: str
) -> Callable[[tf.Tensor, str], tf.Tensor]:
    def operation(x: tf.Tensor, short: str) -> tf.Tensor:
        steps = [1, 1, *strides] if short == "NCHW" else [1, *strides, 1]
        function = tf.nn.separable_conv2d if len(kernels) == 2 else tf.nn.depthwise_conv2d
        values = map(tf.convert_to_tensor, kernels)
        return function(x, *values, strides=steps, padding=padding.upper(), rate=rate, data_format=short)

    return operation


def check_format(data_format: str, formats: Sequence[str | None] = ("NHWC", "NCHW")) -> None:
    """Raise an error if a data format is not one of some.

    Raises:
        ConfigError: It is something else.
    """
    if data_format not in formats:
        raise ConfigError(f"data_format has to be one of {', '.join(map(str, formats))}, got {shown(data_format)}")


def in_format(operation: Callable[[tf.Tensor, str], tf.Tensor], inputs: tf.Tensor, data_format: str) -> tf.Tensor:
    """Return what an operation makes of a feature map, with the channels last inside where the CPU knows no other way.

    Args:
        operation: takes the feature map and a format with as many letters as it has dimensions.
        inputs: the feature map.
        data_format: where its channels are.
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


def _with_bias(
    operation: Callable[[tf.Tensor, str], tf.Tensor], inputs: tf.Tensor, bias: tf.Variable | None, data_format: Any
) -> tf.Tensor:
    def with_bias(x: tf.Tensor, short: str) -> tf.Tensor:
        outputs = operation(x, short)
        if bias is None:
            return outputs
        return tf.nn.bias_add(outputs, bias, data_format="N..C" if short.endswith("C") else "NC..")

    return in_format(with_bias, inputs, data_format or "NHWC")


def _spatial_rank(inputs: tf.Tensor, data_format: str | None, conv_dims: int | None) -> int:
    check_format(data_format, _FORMATS)  # type: ignore[arg-type]
    rank = inputs.shape.rank
    wanted = range(3, 6) if conv_dims is None else [conv_dims + 2]
    if rank not in wanted:
        raise ConfigError(
            f"expected an input of {' or '.join(map(str, wanted))} dimensions, got the shape {inputs.shape}"
        )
    return rank - 2


conv1d = convolution1d
conv2d = convolution2d
conv3d = convolution3d
conv2d_in_plane = convolution2d_in_plane
separable_conv2d = separable_convolution2d
