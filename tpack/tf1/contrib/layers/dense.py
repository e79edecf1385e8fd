"""Fully connected layers."""

import functools
import operator
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError, WrongTypeError
from tpack.tf1.contrib.framework.scoping import add_arg_scope
from tpack.tf1.contrib.layers.initializers import XAVIER, ZEROS
from tpack.tf1.contrib.layers.layer_weights import Ending, Weights
from tpack.tf1.contrib.layers.utils import last_dimension
from tpack.utils.validation import shown


@add_arg_scope
def fully_connected(
    inputs: Any,
    num_outputs: int,
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
    """Multiply by a matrix and add a bias or normalise.

    Args:
        inputs: of at least two dimensions, the last of them known.
        num_outputs: the size of the last dimension of the output.
        activation_fn: the last function; None for none.
        normalizer_fn: such as `batch_norm`: takes the place of the bias.
        normalizer_params: its arguments.
        weights_initializer: of the matrix.
        weights_regularizer: of the matrix.
        biases_initializer: of the bias; None for no bias.
        biases_regularizer: of the bias.
        reuse: of the variable scope.
        variables_collections: where the variables go: a list, or a dict of lists by name.
        outputs_collections: where the output goes.
        trainable: whether optimizers change the variables.
        scope: the variable scope, ``fully_connected`` by default.

    Shapes:
        [..., n] to [..., num_outputs].

    Creates:
        ``weights`` [n, num_outputs] and ``biases`` [num_outputs].

    Raises:
        ConfigError: The input has too few dimensions or its last one is unknown, or ``num_outputs`` is no integer.
    """
    num_outputs = _integer("num_outputs", num_outputs)
    ending = Ending(activation_fn, normalizer_fn, normalizer_params, outputs_collections)
    with tf.variable_scope(scope, "fully_connected", [inputs], reuse=reuse) as sc:
        inputs = tf.convert_to_tensor(inputs)
        num_inputs = last_dimension(inputs.shape, min_rank=2)
        weights = Weights(variables_collections, trainable, inputs.dtype.base_dtype)
        matrix = weights.make("weights", [num_inputs, num_outputs], weights_initializer, weights_regularizer, "kernel")
        bias = None
        if normalizer_fn is None and biases_initializer is not None:
            bias = weights.make("biases", [num_outputs], biases_initializer, biases_regularizer, "bias")
        outputs = _multiply(inputs, matrix)
        if bias is not None:
            outputs = tf.nn.bias_add(outputs, bias)
        return ending.apply(outputs, sc)


def _multiply(inputs: tf.Tensor, matrix: tf.Variable) -> tf.Tensor:
    if inputs.shape.rank == 2:
        return tf.matmul(inputs, matrix)
    return tf.tensordot(inputs, tf.convert_to_tensor(matrix), [[inputs.shape.rank - 1], [0]])


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
    """Multiply by a matrix and add a bias, under the names of the first layers of ``tf.contrib``.

    Args:
        x: of at least two dimensions, the last of them known.
        num_output_units: the size of the last dimension of the output.
        activation_fn: the last function; None for none.
        weight_init: of the matrix.
        bias_init: of the bias; None for no bias.
        name: the variable scope, ``fully_connected`` by default.
        weight_collections: where the matrix goes, besides GLOBAL_VARIABLES.
        bias_collections: where the bias goes, besides GLOBAL_VARIABLES.
        output_collections: where the output goes.
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
        options = {"dtype": x.dtype.base_dtype, "trainable": trainable}
        matrix = tf.get_variable(
            "weights",
            [num_inputs, num_output_units],
            initializer=weight_init,
            regularizer=weight_regularizer,
            collections=_with_globals(weight_collections),
            **options,
        )
        outputs = tf.matmul(rows, matrix)
        if bias_init is not None:
            bias = tf.get_variable(
                "bias",
                [num_output_units],
                initializer=bias_init,
                regularizer=bias_regularizer,
                collections=_with_globals(bias_collections),
                **options,
            )
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


def _with_globals(collections: Any) -> list[str]:
    return list(dict.fromkeys([*(collections or ()), tf.GraphKeys.GLOBAL_VARIABLES]))


def _integer(name: str, value: Any) -> int:
    try:
        number = operator.index(value)
    except TypeError as error:
        raise WrongTypeError(f"{name} is to be an integer, got {shown(value)}") from error
    if number < 1:
        raise ConfigError(f"{name} is to be at least 1, got {number}")
    return number
