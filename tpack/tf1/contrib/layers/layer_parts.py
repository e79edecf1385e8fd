"""Layers without weights of their own, and those that call other layers: flattening, dropout, repetition."""

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError, WrongTypeError
from tpack.tf1.contrib.framework.scoping import add_arg_scope
from tpack.tf1.contrib.framework.tensors import smart_cond
from tpack.tf1.contrib.framework.variables import model_variable
from tpack.tf1.contrib.layers.convolutions import check_format, check_rank
from tpack.tf1.contrib.layers.layer_weights import ZEROS, Weights, activate
from tpack.tf1.contrib.layers.utils import (
    channel_dimension,
    collect_named_outputs,
    get_variable_collections,
    last_dimension,
)
from tpack.utils.validation import shown


@add_arg_scope
def bias_add(
    inputs: Any,
    activation_fn: Any = None,
    initializer: Any = ZEROS,
    regularizer: Any = None,
    reuse: Any = None,
    variables_collections: Any = None,
    outputs_collections: Any = None,
    trainable: bool = True,
    data_format: str = "NHWC",
    scope: Any = None,
) -> tf.Tensor:
    """Add a number to each channel.

    Args:
        inputs: of at least two dimensions, the number of channels known.
        activation_fn: the last function; None for none.
        initializer: of the numbers.
        regularizer: of the numbers.
        reuse: of the variable scope.
        variables_collections: those of the variable: a list, or a dict of lists by name.
        outputs_collections: those of the output.
        trainable: whether optimizers change the variable.
        data_format: ``"NHWC"``, or ``"NCHW"`` for channels first.
        scope: the variable scope, ``BiasAdd`` by default.

    Creates:
        ``biases`` [C].

    Raises:
        ConfigError: The number of channels is unknown, or the format.
    """
    check_format(data_format)
    with tf.variable_scope(scope, "BiasAdd", [inputs], reuse=reuse) as sc:
        inputs = tf.convert_to_tensor(inputs)
        channels = channel_dimension(inputs.shape, data_format, min_rank=2)
        weights = Weights(variables_collections, trainable, inputs.dtype.base_dtype)
        biases = weights.make("biases", [channels], initializer, regularizer)
        outputs = tf.nn.bias_add(inputs, biases, data_format="NC.." if data_format == "NCHW" else "N..C")
        return activate(outputs, activation_fn, outputs_collections, sc)


@add_arg_scope
def dropout(
    inputs: Any,
    keep_prob: Any = 0.5,
    noise_shape: Any = None,
    is_training: Any = True,
    outputs_collections: Any = None,
    scope: Any = None,
    seed: int | None = None,
) -> tf.Tensor:
    """Set some elements to zero in training, and divide the others by the probability to be kept.

    Args:
        inputs: of any shape.
        keep_prob: this probability, above 0.
        noise_shape: of the decisions, which broadcasts with the input; None for one per element.
        is_training: False to return the input; may be a tensor.
        outputs_collections: those of the output.
        scope: the variable scope, ``Dropout`` by default.
        seed: of the random numbers.

    Raises:
        ConfigError: ``keep_prob`` is not above 0 and at most 1.
    """
    with tf.variable_scope(scope, "Dropout", [inputs]) as sc:
        inputs = tf.convert_to_tensor(inputs)
        if isinstance(keep_prob, int | float) and not 0 < keep_prob <= 1:
            raise ConfigError(f"dropout got keep_prob={shown(keep_prob)}: expected above 0 and at most 1")

        def dropped() -> tf.Tensor:
            return tf.nn.dropout(inputs, rate=1 - keep_prob, noise_shape=noise_shape, seed=seed)

        outputs = smart_cond(is_training, dropped, lambda: tf.identity(inputs))
        return collect_named_outputs(outputs_collections, sc.name, outputs)


@add_arg_scope
def flatten(inputs: Any, outputs_collections: Any = None, scope: str | None = None) -> tf.Tensor:
    """Join all dimensions but the first.

    Args:
        inputs: of at least one dimension.
        outputs_collections: those of the output.
        scope: the name scope, ``Flatten`` by default.

    Raises:
        ConfigError: The input has no dimension, or an unknown number.
    """
    with tf.name_scope(scope, "Flatten", [inputs]) as sc:
        inputs = tf.convert_to_tensor(inputs)
        if not inputs.shape.rank:
            raise ConfigError(f"flatten got an input of the shape {inputs.shape}: expected at least one dimension")
        batch, *others = inputs.shape.as_list()
        count = None if None in others else math.prod(others)
        first = tf.shape(inputs)[0] if batch is None and count is None else -1 if batch is None else batch
        with tf.name_scope("flatten"):
            outputs = tf.reshape(inputs, [first, -1 if count is None else count])
        outputs.set_shape([batch, count])
        return collect_named_outputs(outputs_collections, sc, outputs)


@add_arg_scope
def one_hot_encoding(
    labels: Any,
    num_classes: int,
    on_value: float = 1.0,
    off_value: float = 0.0,
    outputs_collections: Any = None,
    scope: str | None = None,
) -> tf.Tensor:
    """Turn class numbers into one-hot vectors, in the name scope ``OneHotEncoding``."""
    with tf.name_scope(scope, "OneHotEncoding", [labels, num_classes]) as sc:
        labels = tf.convert_to_tensor(labels)
        if labels.dtype == tf.int32:
            labels = tf.cast(labels, tf.int64)
        outputs = tf.one_hot(labels, num_classes, on_value=on_value, off_value=off_value)
        return collect_named_outputs(outputs_collections, sc, outputs)


@add_arg_scope
def maxout(inputs: Any, num_units: int, axis: int = -1, scope: str | None = None) -> tf.Tensor:
    """Return the maxima over groups of channels, so that ``num_units`` are left, in the name scope ``MaxOut``.

    Raises:
        ConfigError: ``num_units`` does not divide the number of channels, or that is unknown.
    """
    with tf.name_scope(scope, "MaxOut", [inputs]):
        inputs = tf.convert_to_tensor(inputs)
        shape = inputs.shape.as_list()
        if shape[axis] is None or shape[axis] % num_units:
            raise ConfigError(
                f"maxout got num_units={num_units} for {inputs.shape}: expected a divisor of the number of channels"
            )
        place = axis % len(shape)
        dynamic = tf.shape(inputs)
        sizes = [dynamic[at] if size is None else size for at, size in enumerate(shape)]
        split = [*sizes[:place], num_units, shape[place] // num_units, *sizes[place + 1 :]]
        outputs = tf.reduce_max(tf.reshape(inputs, split), place + 1)
        outputs.set_shape([*shape[:place], num_units, *shape[place + 1 :]])
        return outputs


@add_arg_scope
def softmax(logits: Any, scope: Any = None) -> tf.Tensor:
    """Return the softmax over the last dimension, in the scope ``softmax``."""
    with tf.variable_scope(scope, "softmax", [logits]):
        logits = tf.convert_to_tensor(logits)
        classes = last_dimension(logits.shape, min_rank=2)
        outputs = tf.reshape(tf.nn.softmax(tf.reshape(logits, [-1, classes])), tf.shape(logits))
        outputs.set_shape(logits.shape)
        return outputs


@add_arg_scope
def unit_norm(inputs: Any, dim: int, epsilon: float = 1e-7, scope: Any = None) -> tf.Tensor:
    """Divide by the length over one dimension, in the scope ``UnitNorm``.

    Raises:
        ConfigError: The input has an unknown number of dimensions, or not this one.
    """
    with tf.variable_scope(scope, "UnitNorm", [inputs]):
        inputs = tf.convert_to_tensor(inputs)
        if inputs.shape.rank is None or not 0 <= dim < inputs.shape.rank:
            raise ConfigError(f"unit_norm got dim={dim}: expected a dimension of the shape {inputs.shape}")
        lengths = tf.sqrt(tf.reduce_sum(tf.square(inputs), dim, keepdims=True) + epsilon)
        return tf.divide(inputs, lengths)


@add_arg_scope
def spatial_softmax(
    features: Any,
    temperature: Any = None,
    name: str | None = None,
    variables_collections: Any = None,
    trainable: bool = True,
    data_format: str = "NHWC",
) -> tf.Tensor:
    """Return the mean position of each channel of a feature map, by a softmax over positions from -1 to 1.

    Args:
        features: a feature map, with known sizes but the batch.
        temperature: the initial divisor of features; None for 1.
        name: the scope, ``spatial_softmax`` by default.
        variables_collections: those of the variable.
        trainable: whether optimizers change the variable.
        data_format: ``"NHWC"`` or ``"NCHW"``.

    Shapes:
        [batch, height, width, C] to [batch, 2 C]: the vertical and horizontal position of each channel.

    Creates:
        ``temperature`` [].

    Raises:
        ConfigError: The format is unknown, or a size.
    """
    check_format(data_format)
    features = tf.convert_to_tensor(features)
    with tf.variable_scope(name, "spatial_softmax"):
        if data_format == "NHWC":
            features = tf.transpose(features, [0, 3, 1, 2])
        _, channels, height, width = features.shape.as_list()
        if None in (channels, height, width):
            raise ConfigError(
                f"spatial_softmax got {features.shape} with channels first: expected known sizes but the batch"
            )
        rows, columns = tf.meshgrid(tf.lin_space(-1.0, 1.0, height), tf.lin_space(-1.0, 1.0, width), indexing="ij")
        first = tf.ones_initializer() if temperature is None else tf.constant_initializer(temperature)
        collections = get_variable_collections(variables_collections, "temperature")
        temperature = model_variable("temperature", [], tf.float32, first, collections=collections, trainable=trainable)
        weights = tf.nn.softmax(tf.reshape(features, [-1, height * width]) / temperature)
        means = [tf.reduce_sum(tf.reshape(axis, [-1]) * weights, 1, keepdims=True) for axis in (rows, columns)]
        return tf.reshape(tf.concat(means, 1), [-1, channels * 2])


@add_arg_scope
def images_to_sequence(
    inputs: Any, data_format: str = "NHWC", outputs_collections: Any = None, scope: str | None = None
) -> tf.Tensor:
    """Turn images into one sequence of columns for each row, in the name scope ``ImagesToSequence``.

    Shapes:
        [batch, height, width, C] to [width, batch * height, C].

    Raises:
        ConfigError: The input has no four dimensions, or the format is unknown.
    """
    check_format(data_format)
    with tf.name_scope(scope, "ImagesToSequence", [inputs]) as sc:
        inputs = _of_rank(inputs, 4)
        if data_format == "NCHW":
            inputs = tf.transpose(inputs, [0, 2, 3, 1])
        batch, height, width, channels = inputs.shape.as_list()
        columns = tf.transpose(inputs, [2, 0, 1, 3])
        # One of the two sizes may be what is left.
        first = -1 if width is None else width
        second = tf.shape(columns)[1] * tf.shape(columns)[2] if width is None else -1
        outputs = tf.reshape(columns, [first, second, tf.shape(columns)[3] if channels is None else channels])
        outputs.set_shape([width, batch * height if batch and height else None, channels])
        return collect_named_outputs(outputs_collections, sc, outputs)


@add_arg_scope
def sequence_to_images(
    inputs: Any,
    height: int,
    output_data_format: str = "channels_last",
    outputs_collections: Any = None,
    scope: str | None = None,
) -> tf.Tensor:
    """Turn sequences of columns, one for each row, into images, in the name scope ``SequenceToImages``.

    Shapes:
        [width, batch * height, C] to [batch, height, width, C].

    Raises:
        ConfigError: The input has no three dimensions, or the format is unknown.
    """
    if output_data_format not in ("channels_first", "channels_last"):
        raise ConfigError(
            f"got output_data_format={shown(output_data_format)}: expected channels_first or channels_last"
        )
    with tf.name_scope(scope, "SequenceToImages", [inputs]) as sc:
        inputs = _of_rank(inputs, 3)
        width, rows, channels = inputs.shape.as_list()
        dynamic = tf.shape(inputs)
        sizes = [dynamic[0] if width is None else width, -1, height, dynamic[2] if channels is None else channels]
        images = tf.reshape(inputs, sizes)
        images.set_shape([width, None if rows is None else rows // height, height, channels])
        order = [1, 3, 2, 0] if output_data_format == "channels_first" else [1, 2, 0, 3]
        return collect_named_outputs(outputs_collections, sc, tf.transpose(images, order))


def repeat(inputs: Any, repetitions: int, layer: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Apply a layer several times in succession.

    Args:
        inputs: of the first.
        repetitions: the number of layers.
        layer: takes the input and a ``scope``, that of all followed by a number.
        *args: arguments of all.
        **kwargs: the same by name; ``scope``, ``Repeat`` by default, is around them.
    """
    scope = kwargs.pop("scope", None)
    with tf.variable_scope(scope, "Repeat", [inputs]):
        inputs = tf.convert_to_tensor(inputs)
        prefix = scope or _name_of(layer)
        outputs = inputs
        for number in range(1, repetitions + 1):
            outputs = layer(outputs, *args, **{**kwargs, "scope": f"{prefix}_{number}"})
        return outputs


def stack(inputs: Any, layer: Callable[..., Any], stack_args: Sequence[Any], **kwargs: Any) -> Any:
    """Apply a layer in succession, each time with other arguments.

    Args:
        inputs: of the first.
        layer: takes the input, the arguments and a ``scope``, that of all followed by a number.
        stack_args: for each, its argument or the tuple of its arguments.
        **kwargs: arguments of all; ``scope``, ``Stack`` by default, is around them.

    Raises:
        WrongTypeError: ``stack_args`` is not a list.
    """
    scope = kwargs.pop("scope", None)
    if not isinstance(stack_args, list | tuple):
        raise WrongTypeError(f"stack got stack_args={shown(stack_args)}: expected a list of arguments")
    with tf.variable_scope(scope, "Stack", [inputs]):
        outputs = tf.convert_to_tensor(inputs)
        prefix = scope or _name_of(layer)
        for number, given in enumerate(stack_args, 1):
            args = given if isinstance(given, list | tuple) else (given,)
            outputs = layer(outputs, *args, **{**kwargs, "scope": f"{prefix}_{number}"})
        return outputs


def _name_of(layer: Any) -> str:
    while isinstance(layer, functools.partial):
        layer = layer.func
    return getattr(layer, "__name__", "repeat")


def _of_rank(inputs: Any, rank: int) -> tf.Tensor:
    inputs = tf.convert_to_tensor(inputs)
    check_rank(inputs, [rank])
    return inputs
