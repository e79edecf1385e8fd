"""Normalisation without moving averages: over all features of each input, its channels, or groups of channels."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError
from tpack.models.data_format import sizes_of
from tpack.tf1.contrib.framework.scoping import add_arg_scope
from tpack.tf1.contrib.layers.convolutions import check_format
from tpack.tf1.contrib.layers.layer_weights import ZEROS, Weights, activate
from tpack.tf1.contrib.layers.utils import channel_dimension
from tpack.tf1.signatures import like

ONES = tf.ones_initializer()
_PARAMETERS: dict[str, dict[str, Any]] = {"scale": {"epsilon": 1e-6}, "activation_fn": {"param_initializers": None}}


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
    """Normalise each input by the mean and variance of all its features.

    Args:
        inputs: of a known number of dimensions.
        center: whether ``beta`` is added.
        scale: whether ``gamma`` is multiplied with.
        activation_fn: the last function; None for none.
        reuse: of the variable scope.
        variables_collections: those of the variables: a list, or a dict of lists by name.
        outputs_collections: those of the output.
        trainable: whether optimizers change the variables.
        begin_norm_axis: the first dimension that mean and variance are over.
        begin_params_axis: the first dimension of ``beta`` and ``gamma``.
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
                f"layer_norm got begin_params_axis={begin_params_axis} and begin_norm_axis={norm_axis}: expected "
                f"dimensions of the shape {inputs.shape}"
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
@like(
    layer_norm, without="begin_norm_axis begin_params_axis", after={**_PARAMETERS, "trainable": {"data_format": "NHWC"}}
)
def instance_norm(
    inputs: Any, epsilon: float, param_initializers: Any, data_format: str, reuse: Any, scope: Any, **given: Any
) -> tf.Tensor:
    """Normalise each channel of each input by its mean and variance.

    Args:
        inputs: of a known number of dimensions, the number of channels known.
        epsilon: added to the variance.
        param_initializers: of ``beta`` and ``gamma``.
        data_format: ``"NHWC"``, or ``"NCHW"`` for channels that come first.
        reuse: of the variable scope.
        scope: the variable scope, ``InstanceNorm`` by default.
        **given: see `layer_norm`.

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
        shape = [channels if other == axis else 1 for other in range(rank)]
        beta, gamma = _channel_parameters(inputs, channels, shape, param_initializers or {}, given)
        mean, variance = tf.nn.moments(inputs, [other for other in range(1, rank) if other != axis], keep_dims=True)
        outputs = tf.nn.batch_normalization(inputs, mean, variance, beta, gamma, epsilon, name="instancenorm")
        outputs.set_shape(inputs.shape)
        return activate(outputs, given["activation_fn"], given["outputs_collections"], sc)


@add_arg_scope
@like(
    layer_norm,
    without="begin_norm_axis begin_params_axis",
    after={
        "inputs": {"groups": 32, "channels_axis": -1, "reduction_axes": (-3, -2)},
        **_PARAMETERS,
        "scope": {"mean_close_to_zero": False},
    },
)
def group_norm(
    inputs: Any,
    groups: int,
    channels_axis: int,
    reduction_axes: Sequence[int],
    epsilon: float,
    param_initializers: Any,
    reuse: Any,
    scope: Any,
    mean_close_to_zero: bool,
    **given: Any,
) -> tf.Tensor:
    """Normalise groups of channels of each input by mean and variance.

    Args:
        inputs: of a known number of dimensions, the number of channels known.
        groups: the number of groups, which divides that of channels.
        channels_axis: that of the channels.
        reduction_axes: axes of the mean, besides the channels of a group.
        epsilon: added to the variance.
        param_initializers: of ``beta`` and ``gamma``.
        reuse: of the variable scope.
        scope: the variable scope, ``GroupNorm`` by default.
        mean_close_to_zero: compute the variance from sums and squares: faster, and less exact for other means.
        **given: see `layer_norm`.

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
        raise ConfigError(
            f"group_norm got channels_axis={channels_axis} and reduction_axes={tuple(reduction_axes)}: expected others"
        )
    (channels,) = _known_shape(inputs, inputs.shape[axis : axis + 1])
    if channels % groups:
        raise ConfigError(f"group_norm got groups={groups}: expected a divisor of the {channels} channels")
    with tf.variable_scope(scope, "GroupNorm", [inputs], reuse=reuse) as sc:
        sizes = sizes_of(inputs)
        grouped = tf.reshape(inputs, [*sizes[:axis], groups, channels // groups, *sizes[axis + 1 :]])
        shape = [*[1] * axis, groups, channels // groups, *[1] * (rank - axis - 1)]
        beta, gamma = _channel_parameters(inputs, channels, shape, param_initializers or {}, given)
        axes = [other if other < axis else other + 1 for other in reduced] + [axis + 1]
        if mean_close_to_zero:
            count, total, squares, _ = tf.nn.sufficient_statistics(grouped, axes, keep_dims=True)
            mean, variance = tf.nn.normalize_moments(count, total, squares, shift=None)
        else:
            mean, variance = tf.nn.moments(grouped, axes, keep_dims=True)
        factor = tf.rsqrt(variance + epsilon) * (1.0 if gamma is None else gamma)
        shift = -mean * factor if beta is None else beta - mean * factor
        outputs = tf.reshape(grouped * factor + shift, tf.shape(inputs))
        outputs.set_shape(inputs.shape)
        return activate(outputs, given["activation_fn"], given["outputs_collections"], sc)


def _channel_parameters(
    inputs: tf.Tensor, channels: int, shape: list[int], initializers: Mapping[str, Any], given: Mapping[str, Any]
) -> list[tf.Tensor | None]:
    """Make ``beta`` and ``gamma`` where wanted; return them in a shape that broadcasts with the input."""
    weights = Weights(given["variables_collections"], given["trainable"], inputs.dtype.base_dtype)
    made = [
        weights.make(name, [channels], initializers.get(name, default)) if given[option] else None
        for name, option, default in (("beta", "center", ZEROS), ("gamma", "scale", ONES))
    ]
    is_plain = math.prod(shape[:-1]) == 1
    return [variable if variable is None or is_plain else tf.reshape(variable, shape) for variable in made]


def _known_rank(inputs: tf.Tensor) -> int:
    if inputs.shape.rank is None:
        raise ConfigError(f"got {inputs.name} of unknown rank: expected a known number of dimensions")
    return inputs.shape.rank


def _known_shape(inputs: tf.Tensor, shape: tf.TensorShape) -> list[int]:
    if not shape.is_fully_defined():
        raise ConfigError(f"got {inputs.name} of the shape {inputs.shape}: expected the sizes {shape} to be known")
    return shape.as_list()
