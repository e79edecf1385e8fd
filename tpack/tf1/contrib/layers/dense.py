"""Fully connected layers."""

import functools
import operator
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError, WrongTypeError
from tpack.tf1.contrib.framework.scoping import add_arg_scope
from tpack.tf1.contrib.layers.convolutions import convolution
from tpack.tf1.contrib.layers.initializers import XAVIER, ZEROS
from tpack.tf1.contrib.layers.layer_weights import LayerParts
from tpack.tf1.contrib.layers.utils import last_dimension
from tpack.tf1.signatures import like
from tpack.utils.validation import shown


@add_arg_scope
@like(convolution, without="kernel_size stride padding data_format rate conv_dims")
def fully_connected(inputs: Any, num_outputs: int, reuse: Any, scope: Any, **given: Any) -> tf.Tensor:
    """Multiply by a matrix and add a bias or normalise; other arguments are those of `convolution`.

    Args:
        inputs: of at least two dimensions, the last of them known.
        num_outputs: the size of the last dimension of the output.
        reuse: of the variable scope.
        scope: the variable scope, ``fully_connected`` by default.
        **given: those of `convolution`; ``weights`` are the matrix.

    Shapes:
        [..., n] to [..., num_outputs].

    Creates:
        ``weights`` [n, num_outputs] and ``biases`` [num_outputs].

    Raises:
        ConfigError: The input has too few dimensions or its last one is unknown, or ``num_outputs`` is below 1.
        WrongTypeError: ``num_outputs`` is not an integer.
    """
    num_outputs = _integer("num_outputs", num_outputs)
    with tf.variable_scope(scope, "fully_connected", [inputs], reuse=reuse) as sc:
        inputs = tf.convert_to_tensor(inputs)
        num_inputs = last_dimension(inputs.shape, min_rank=2)
        layer = LayerParts(inputs.dtype, **given)
        matrix = layer.kernel([num_inputs, num_outputs], "kernel")
        bias = layer.bias(num_outputs, "bias")
        if inputs.shape.rank == 2:
            outputs = tf.matmul(inputs, matrix)
        else:
            outputs = tf.tensordot(inputs, tf.convert_to_tensor(matrix), [[inputs.shape.rank - 1], [0]])
        return layer.end(outputs if bias is None else tf.nn.bias_add(outputs, bias), sc)


relu = functools.partial(fully_connected, activation_fn=tf.nn.relu)
relu6 = functools.partial(fully_connected, activation_fn=tf.nn.relu6)
elu = functools.partial(fully_connected, activation_fn=tf.nn.elu)
linear = functools.partial(fully_connected, activation_fn=None)


def legacy_fully_connected(
    x: Any,
    num_output_units: int,
    activation_fn: Any = None,
    weight_init: Any = XAVIER,
    bias_init: Any = ZEROS,
    name: str | None = None,
    weight_collections: Any = (tf.GraphKeys.WEIGHTS,),
    bias_collections: Any = (tf.GraphKeys.BIASES,),
    output_collections: Any = (tf.GraphKeys.ACTIVATIONS,),
    trainable: bool = True,
    weight_regularizer: Any = None,
    bias_regularizer: Any = None,
) -> tf.Tensor:
    """Multiply by a matrix and add a bias, with the argument names of the first layers of ``tf.contrib``.

    Args:
        x: of at least two dimensions, the last of them known.
        num_output_units: the size of the last dimension of the output.
        activation_fn: the last function; None for none.
        weight_init: of the matrix.
        bias_init: of the bias; None for no bias.
        name: the variable scope, ``fully_connected`` by default.
        weight_collections: those of the matrix, besides GLOBAL_VARIABLES.
        bias_collections: those of the bias, besides GLOBAL_VARIABLES.
        output_collections: those of the output.
        trainable: whether optimizers change the variables.
        weight_regularizer: of the matrix.
        bias_regularizer: of the bias.

    Creates:
        ``weights`` [n, num_output_units] and ``bias`` [num_output_units].

    Raises:
        ConfigError: The input has too few dimensions, or its last one is unknown.
    """
    num_output_units = _integer("num_output_units", num_output_units)
    with tf.variable_scope(name, "fully_connected", [x]):
        x = tf.convert_to_tensor(x)
        num_inputs = last_dimension(x.shape, min_rank=2)
        rows = x if x.shape.rank == 2 else tf.reshape(x, [-1, num_inputs])

        def make(name: str, shape: list[int], initializer: Any, regularizer: Any, collections: Any) -> tf.Variable:
            keys = list(dict.fromkeys([*(collections or ()), tf.GraphKeys.GLOBAL_VARIABLES]))
            options = {"trainable": trainable, "collections": keys, "regularizer": regularizer}
            return tf.get_variable(name, shape, x.dtype.base_dtype, initializer, **options)

        matrix = make("weights", [num_inputs, num_output_units], weight_init, weight_regularizer, weight_collections)
        outputs = tf.matmul(rows, matrix)
        if bias_init is not None:
            bias = make("bias", [num_output_units], bias_init, bias_regularizer, bias_collections)
            outputs = tf.nn.bias_add(outputs, bias)
        if x.shape.rank != 2:
            sizes = [tf.shape(x)[:-1], [num_output_units]]
            outputs = tf.reshape(outputs, tf.concat(sizes, 0))
            outputs.set_shape([*x.shape.as_list()[:-1], num_output_units])
        if activation_fn is not None:
            outputs = activation_fn(outputs)
        for key in dict.fromkeys(output_collections or ()):
            tf.add_to_collection(key, outputs)
        return outputs


legacy_linear = functools.partial(legacy_fully_connected, activation_fn=None)
legacy_relu = functools.partial(legacy_fully_connected, activation_fn=tf.nn.relu)


def _integer(name: str, value: Any) -> int:
    try:
        number = operator.index(value)
    except TypeError as error:
        raise WrongTypeError(f"got {name}={shown(value)}: expected an integer") from error
    if number < 1:
        raise ConfigError(f"got {name}={number}: expected at least 1")
    return number
