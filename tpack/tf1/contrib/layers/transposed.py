"""Transposed convolutions of two and three dimensions: what turns convolutions around."""

from typing import Any

import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError
from tpack.models.data_format import sizes_of
from tpack.tf1.contrib.framework.scoping import add_arg_scope
from tpack.tf1.contrib.layers.convolutions import check_format, in_format
from tpack.tf1.contrib.layers.initializers import XAVIER, ZEROS
from tpack.tf1.contrib.layers.layer_weights import Ending, Weights
from tpack.tf1.contrib.layers.utils import channel_dimension, n_positive_integers


@add_arg_scope
def convolution2d_transpose(
    inputs: Any,
    num_outputs: int,
    kernel_size: Any,
    stride: Any = 1,
    padding: str = "SAME",
    data_format: str = "NHWC",
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
    """Convolve a feature map the other way round, so that a stride makes it larger; see `convolution`.

    Creates:
        ``weights`` [height, width, num_outputs, channels] and ``biases`` [num_outputs], in the scope
        ``Conv2d_transpose``.
    """
    check_format(data_format)
    ending = Ending(activation_fn, normalizer_fn, normalizer_params, outputs_collections)
    has_bias = normalizer_fn is None and biases_initializer is not None
    with tf.variable_scope(scope, "Conv2d_transpose", [inputs], reuse=reuse) as sc:
        inputs = tf.convert_to_tensor(inputs)
        weights = Weights(variables_collections, trainable, inputs.dtype.base_dtype)
        layer = _Transposed(inputs, int(num_outputs), n_positive_integers(2, kernel_size), data_format, weights)
        kernel = layer.kernel(weights_initializer, weights_regularizer)
        bias = layer.bias(biases_initializer, biases_regularizer) if has_bias else None
        return ending.apply(layer.outputs(kernel, bias, n_positive_integers(2, stride), padding), sc)


@add_arg_scope
def convolution3d_transpose(
    inputs: Any,
    num_outputs: int,
    kernel_size: Any,
    stride: Any = 1,
    padding: str = "SAME",
    data_format: str = "NDHWC",
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
    """Convolve over three dimensions the other way round; see `convolution2d_transpose`.

    Creates:
        ``weights`` [depth, height, width, num_outputs, channels] and ``biases`` [num_outputs], in the scope
        ``Conv3d_transpose``.
    """
    check_format(data_format, ("NDHWC", "NCDHW"))
    ending = Ending(activation_fn, normalizer_fn, normalizer_params, outputs_collections)
    has_bias = normalizer_fn is None and biases_initializer is not None
    with tf.variable_scope(scope, "Conv3d_transpose", [inputs], reuse=reuse) as sc:
        inputs = tf.convert_to_tensor(inputs)
        weights = Weights(variables_collections, trainable, inputs.dtype.base_dtype)
        layer = _Transposed(inputs, int(num_outputs), n_positive_integers(3, kernel_size), data_format, weights)
        kernel = layer.kernel(weights_initializer, weights_regularizer)
        bias = layer.bias(biases_initializer, biases_regularizer) if has_bias else None
        return ending.apply(layer.outputs(kernel, bias, n_positive_integers(3, stride), padding), sc)


class _Transposed:
    """A transposed convolution in the current scope.

    Args:
        inputs: the feature map.
        num_outputs: the number of channels of the output.
        kernel_size: for each dimension.
        data_format: where the channels are.
        weights: makes the variables.
    """

    def __init__(
        self, inputs: tf.Tensor, num_outputs: int, kernel_size: tuple[int, ...], data_format: str, weights: Weights
    ) -> None:
        rank = len(kernel_size) + 2
        if inputs.shape.rank != rank:
            raise ConfigError(f"expected an input of {rank} dimensions, got the shape {inputs.shape}")
        self._inputs, self._num_outputs, self._kernel_size = inputs, num_outputs, kernel_size
        self._format, self._weights = data_format, weights

    def kernel(self, initializer: Any, regularizer: Any) -> tf.Variable:
        """Make the kernel."""
        channels = channel_dimension(self._inputs.shape, self._format)
        shape = [*self._kernel_size, self._num_outputs, channels]
        return self._weights.make("weights", shape, initializer, regularizer, "kernel")

    def bias(self, initializer: Any, regularizer: Any) -> tf.Variable:
        """Make the bias."""
        return self._weights.make("biases", [self._num_outputs], initializer, regularizer, "bias")

    def outputs(
        self, kernel: tf.Variable, bias: tf.Variable | None, strides: tuple[int, ...], padding: str
    ) -> tf.Tensor:
        """Return the convolution with its bias."""
        padding = padding.upper()
        transpose = tf.nn.conv2d_transpose if len(strides) == 2 else tf.nn.conv3d_transpose
        weights = tf.convert_to_tensor(kernel)

        def operation(x: tf.Tensor, short: str) -> tf.Tensor:
            is_last = short.endswith("C")
            batch, *others = sizes_of(x)
            extras = [
                max(size - step, 0) if padding == "VALID" else 0
                for size, step in zip(self._kernel_size, strides, strict=True)
            ]
            inner = others[:-1] if is_last else others[1:]
            larger = [size * step + extra for size, step, extra in zip(inner, strides, extras, strict=True)]
            shape = [batch, *larger, self._num_outputs] if is_last else [batch, self._num_outputs, *larger]
            steps = [1, *strides, 1] if is_last else [1, 1, *strides]
            outputs = transpose(x, weights, tf.stack(shape), steps, padding, short)
            outputs.set_shape([None if tf.is_tensor(size) else size for size in shape])
            if bias is None:
                return outputs
            return tf.nn.bias_add(outputs, bias, data_format="N..C" if is_last else "NC..")

        return in_format(operation, self._inputs, self._format)


conv2d_transpose = convolution2d_transpose
conv3d_transpose = convolution3d_transpose
