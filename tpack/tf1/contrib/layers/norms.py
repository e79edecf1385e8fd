"""Normalisation without averages: over the features of each input, over each channel of it, or over groups of them."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError
from tpack.models.data_format import sizes_of
from tpack.tf1.contrib.framework.scoping import add_arg_scope
from tpack.tf1.contrib.layers.convolutions import check_format
from tpack.tf1.contrib.layers.initializers import ZEROS
from tpack.tf1.contrib.layers.layer_weights import Weights, activate
from tpack.tf1.contrib.layers.utils import channel_dimension

ONES = tf.ones_initializer()


@add_arg_scope
def layer_norm(
    inputs: Any,
    center: bool = True,
    scale: bool = True,
    activation_fn: Any = None,
    reuse: Any = None,
    variables_collections: Any = None,
    outputs_collections: Any = None,
    trainable: bool = True,
    begin_norm_axis: int = 1,
    begin_params_axis: int = -1,
    scope: Any = None,
) -> tf.Tensor:
    """Normalise each input by the mean and variance of all that it has.

    Args:
        inputs: of a known number of dimensions.
        center: whether ``beta`` is added.
        scale: whether ``gamma`` is multiplied with.
        activation_fn: the last function; None for none.
        reuse: of the variable scope.
        variables_collections: where the variables go: a list, or a dict of lists by name.
        outputs_collections: where the output goes.
        trainable: whether optimizers change the variables.
        begin_norm_axis: mean and variance are over this dimension and all behind.
        begin_params_axis: ``beta`` and ``gamma`` have this dimension and all behind.
        scope: the variable scope, ``LayerNorm`` by default.

    Shapes:
        As the input.

    Creates:
        ``beta`` and ``gamma``.

    Raises:
        ConfigError: The input has too few dimensions, or those of the variables are unknown.

    Source:
        Ba, Kiros and Hinton, "Layer Normalization", https://arxiv.org/abs/1607.06450
    """
    with tf.variable_scope(scope, "LayerNorm", [inputs], reuse=reuse) as sc:
        inputs = tf.convert_to_tensor(inputs)
        rank = _known_rank(inputs)
        norm_axis = begin_norm_axis + rank if begin_norm_axis < 0 else begin_norm_axis
        if begin_params_axis >= rank or norm_axis >= rank:
            raise ConfigError(
                f"begin_params_axis ({begin_params_axis}) and begin_norm_axis ({norm_axis}) must be less than the "
                f"number of dimensions of {inputs.shape}"
            )
        shape = _known_shape(inputs, inputs.shape[begin_params_axis:])
        weights = Weights(variables_collections, trainable, inputs.dtype.base_dtype)
        beta = weights.make("beta", shape, ZEROS) if center else None
        gamma = weights.make("gamma", shape, ONES) if scale else None
        mean, variance = tf.nn.moments(inputs, list(range(norm_axis, rank)), keep_dims=True)
        epsilon = 1e-3 if inputs.dtype.base_dtype == tf.float16 else 1e-12
        outputs = tf.nn.batch_normalization(inputs, mean, variance, beta, gamma, epsilon)
        outputs.set_shape(inputs.shape)
        return activate(outputs, activation_fn, outputs_collections, sc)


@add_arg_scope
def instance_norm(
    inputs: Any,
    center: bool = True,
    scale: bool = True,
    epsilon: float = 1e-6,
    activation_fn: Any = None,
    param_initializers: Any = None,
    reuse: Any = None,
    variables_collections: Any = None,
    outputs_collections: Any = None,
    trainable: bool = True,
    data_format: str = "NHWC",
    scope: Any = None,
) -> tf.Tensor:
    """Normalise each channel of each input by its mean and variance.

    Args:
        inputs: of a known number of dimensions, the number of channels known.
        center: see `layer_norm`.
        scale: see `layer_norm`.
        epsilon: added to the variance.
        activation_fn: see `layer_norm`.
        param_initializers: of ``beta`` and ``gamma``.
        reuse: see `layer_norm`.
        variables_collections: see `layer_norm`.
        outputs_collections: see `layer_norm`.
        trainable: see `layer_norm`.
        data_format: ``"NHWC"``, or ``"NCHW"`` for channels that come first.
        scope: the variable scope, ``InstanceNorm`` by default.

    Creates:
        ``beta`` and ``gamma`` [C].

    Raises:
        ConfigError: The number of dimensions or of channels is unknown, or the format.
    """
    check_format(data_format)
    inputs = tf.convert_to_tensor(inputs)
    rank = _known_rank(inputs)
    with tf.variable_scope(scope, "InstanceNorm", [inputs], reuse=reuse) as sc:
        axis = 1 if data_format == "NCHW" else rank - 1
        channels = channel_dimension(inputs.shape, data_format)
        beta, gamma = _channel_parameters(
            Weights(variables_collections, trainable, inputs.dtype.base_dtype),
            channels,
            (center, scale),
            param_initializers or {},
            [channels if other == axis else 1 for other in range(rank)],
        )
        mean, variance = tf.nn.moments(inputs, [other for other in range(1, rank) if other != axis], keep_dims=True)
        outputs = tf.nn.batch_normalization(inputs, mean, variance, beta, gamma, epsilon, name="instancenorm")
        outputs.set_shape(inputs.shape)
        return activate(outputs, activation_fn, outputs_collections, sc)


@add_arg_scope
def group_norm(
    inputs: Any,
    groups: int = 32,
    channels_axis: int = -1,
    reduction_axes: Sequence[int] = (-3, -2),
    center: bool = True,
    scale: bool = True,
    epsilon: float = 1e-6,
    activation_fn: Any = None,
    param_initializers: Any = None,
    reuse: Any = None,
    variables_collections: Any = None,
    outputs_collections: Any = None,
    trainable: bool = True,
    scope: Any = None,
    mean_close_to_zero: bool = False,
) -> tf.Tensor:
    """Normalise groups of channels of each input by their mean and variance.

    Args:
        inputs: of a known number of dimensions, the number of channels known.
        groups: how many, which divides the number of channels.
        channels_axis: that of the channels.
        reduction_axes: over which the mean is, besides the channels of a group.
        center: see `layer_norm`.
        scale: see `layer_norm`.
        epsilon: added to the variance.
        activation_fn: see `layer_norm`.
        param_initializers: of ``beta`` and ``gamma``.
        reuse: see `layer_norm`.
        variables_collections: see `layer_norm`.
        outputs_collections: see `layer_norm`.
        trainable: see `layer_norm`.
        scope: the variable scope, ``GroupNorm`` by default.
        mean_close_to_zero: compute the variance from sums and squares, which is quicker and loses digits otherwise.

    Creates:
        ``beta`` and ``gamma`` [C].

    Raises:
        ConfigError: The number of dimensions or of channels is unknown, or the groups do not divide them.

    Source:
        Wu and He, "Group Normalization", https://arxiv.org/abs/1803.08494
    """
    inputs = tf.convert_to_tensor(inputs)
    rank = _known_rank(inputs)
    axis = channels_axis % rank
    reduced = sorted(other % rank for other in reduction_axes)
    if axis in reduced:
        raise ConfigError(f"channels_axis {channels_axis} cannot be among the reduction_axes {tuple(reduction_axes)}")
    (channels,) = _known_shape(inputs, inputs.shape[axis : axis + 1])
    if channels % groups:
        raise ConfigError(f"{channels} channels cannot be divided into {groups} groups")
    with tf.variable_scope(scope, "GroupNorm", [inputs], reuse=reuse) as sc:
        sizes = sizes_of(inputs)
        grouped = tf.reshape(inputs, [*sizes[:axis], groups, channels // groups, *sizes[axis + 1 :]])
        beta, gamma = _channel_parameters(
            Weights(variables_collections, trainable, inputs.dtype.base_dtype),
            channels,
            (center, scale),
            param_initializers or {},
            [*[1] * axis, groups, channels // groups, *[1] * (rank - axis - 1)],
        )
        axes = [other if other < axis else other + 1 for other in reduced] + [axis + 1]
        mean, variance = (_raw_moments if mean_close_to_zero else _moments)(grouped, axes)
        factor = tf.rsqrt(variance + epsilon) * (1.0 if gamma is None else gamma)
        shift = -mean * factor if beta is None else beta - mean * factor
        outputs = tf.reshape(grouped * factor + shift, tf.shape(inputs))
        outputs.set_shape(inputs.shape)
        return activate(outputs, activation_fn, outputs_collections, sc)


def _moments(x: tf.Tensor, axes: list[int]) -> tuple[tf.Tensor, tf.Tensor]:
    return tf.nn.moments(x, axes, keep_dims=True)


def _raw_moments(x: tf.Tensor, axes: list[int]) -> tuple[tf.Tensor, tf.Tensor]:
    count, total, squares, _ = tf.nn.sufficient_statistics(x, axes, keep_dims=True)
    return tf.nn.normalize_moments(count, total, squares, shift=None)


def _channel_parameters(
    weights: Weights, channels: int, wanted: tuple[bool, bool], initializers: Any, shape: list[int]
) -> list[tf.Tensor | None]:
    """Make ``beta`` and ``gamma``, those that are wanted; return them in a shape that broadcasts with the input."""
    defaults: dict[str, Callable[..., tf.Tensor]] = {"beta": ZEROS, "gamma": ONES}
    made = [
        weights.make(name, [channels], initializers.get(name, default)) if is_wanted else None
        for is_wanted, (name, default) in zip(wanted, defaults.items(), strict=True)
    ]
    is_plain = math.prod(shape[:-1]) == 1
    return [variable if variable is None or is_plain else tf.reshape(variable, shape) for variable in made]


def _known_rank(inputs: tf.Tensor) -> int:
    if inputs.shape.rank is None:
        raise ConfigError(f"the number of dimensions of {inputs.name} has to be known")
    return inputs.shape.rank


def _known_shape(inputs: tf.Tensor, shape: tf.TensorShape) -> list[int]:
    if not shape.is_fully_defined():
        raise ConfigError(f"the sizes {shape} of {inputs.name} have to be known, its shape is {inputs.shape}")
    return shape.as_list()
