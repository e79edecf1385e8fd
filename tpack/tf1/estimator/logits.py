"""Logits of feature columns: of a linear model and of a network of dense layers, as functions of the features."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError
from tpack.estimator.inputs import call_with_accepted
from tpack.estimator.spec import ModeKeys
from tpack.tf1.estimator.heads.base import is_main_tower
from tpack.tf1.layers.core import dense
from tpack.tf1.layers.normalization import batch_normalization
from tpack.utils.validation import check_arguments, check_count, check_number, shown

Features = Mapping[str, Any]
Activation = Callable[[tf.Tensor], tf.Tensor]
Partitioner = Callable[..., Any]

_MIN_SLICE_BYTES = 64 << 20
_MOMENTUM = 0.999


def check_columns(owner: object, feature_columns: Any) -> list[Any]:
    """Return one or several feature columns as a list; raise ConfigError if there are none."""
    columns = list(feature_columns) if isinstance(feature_columns, (list, tuple, set)) else [feature_columns]
    # A column is a tuple too.
    if isinstance(feature_columns, tuple) and hasattr(feature_columns, "_fields"):
        columns = [feature_columns]
    if not columns or None in columns:
        raise ConfigError(
            f"{type(owner).__name__} got feature_columns={shown(feature_columns)}: expected at least one column"
        )
    return columns


def one_part(min_slice_bytes: int = 0) -> Partitioner:
    """Return the partitioner of a machine without parameter servers: one part of any size.

    It shows in the names of the optimizer's slots. ``min_slice_bytes`` is the smallest part; 0 for TensorFlow's
    default.
    """
    size = {"min_slice_size": min_slice_bytes} if min_slice_bytes else {}
    return tf.min_max_variable_partitioner(max_partitions=1, **size)


def input_partitioner() -> Partitioner:
    """Return the default partitioner of inputs."""
    return one_part(_MIN_SLICE_BYTES)


@check_arguments
def linear_logit_fn_builder(
    units: int, feature_columns: Any, sparse_combiner: str = "sum"
) -> Callable[[Features], tf.Tensor]:
    """Return a function that makes linear logits of features.

    Args:
        units: the number of logits.
        feature_columns: the columns.
        sparse_combiner: of the weights of an example's categories: ``"sum"``, ``"mean"`` or ``"sqrtn"``.

    Raises:
        ConfigError: There are no columns, or no units.
    """
    check_count("linear_logit_fn_builder", "units", units)

    def linear_logit_fn(features: Features) -> tf.Tensor:
        made: dict[Any, Any] = {}
        logits = tf.feature_column.linear_model(
            features=features,
            feature_columns=feature_columns,
            units=units,
            sparse_combiner=sparse_combiner,
            cols_to_vars=made,
        )
        if is_main_tower():
            _summarize_linear(made, units)
        return logits

    return linear_logit_fn


@dataclass(frozen=True)
class DnnOptions:
    """Options of a network of dense layers.

    Args:
        hidden_units: the widths of the layers before the logits.
        activation_fn: of these; None for none.
        dropout: the share of each that is dropped in training.
        input_partitioner: for the variables of columns, such as embeddings; None for one part.
        batch_norm: normalise each of them.

    Raises:
        ConfigError: A width is not positive, or the dropout is not from 0 to less than 1.
    """

    hidden_units: tuple[int, ...]
    activation_fn: Activation | None
    dropout: float | None
    input_partitioner: Partitioner | None
    batch_norm: bool

    def __post_init__(self) -> None:
        """Check the numbers."""
        for width in self.hidden_units:
            check_count("a network", "hidden_units", width)
        if self.dropout is not None and not 0 <= check_number("a network", "dropout", self.dropout) < 1:
            raise ConfigError(f"a network got dropout={self.dropout}: expected at least 0 and less than 1")


@check_arguments
def dnn_logit_fn_builder(
    units: int,
    hidden_units: Sequence[int],
    feature_columns: Any,
    activation_fn: Activation | None,
    dropout: float | None,
    input_layer_partitioner: Partitioner | None,
    batch_norm: bool,
) -> Callable[..., tf.Tensor]:
    """Return a function that makes logits of features by dense layers.

    Args:
        units: the number of logits.
        hidden_units: the widths of the layers before.
        feature_columns: the columns, which have to be dense.
        activation_fn: of the hidden layers; None for none.
        dropout: the share of each hidden layer that is dropped in training.
        input_layer_partitioner: for the variables of columns, such as embeddings.
        batch_norm: normalise each hidden layer.

    Raises:
        ConfigError: A width is not positive.
    """
    options = DnnOptions(tuple(hidden_units), activation_fn, dropout, input_layer_partitioner, batch_norm)
    return dnn_logit_fn(units, feature_columns, options)


def dnn_logit_fn(units: int, feature_columns: Any, options: DnnOptions) -> Callable[..., tf.Tensor]:
    """Return a function of ``features`` and ``mode`` that makes logits by dense layers.

    Raises:
        ConfigError: The number of logits is not positive.
    """
    check_count("dnn_logit_fn_builder", "units", units)
    partitioner = options.input_partitioner or input_partitioner()

    def logits_of(features: Features, mode: str) -> tf.Tensor:
        with tf.variable_scope("input_from_feature_columns", partitioner=partitioner):
            net = tf.feature_column.input_layer(features=features, feature_columns=feature_columns)
        for index in range(len(options.hidden_units)):
            net = _hidden_layer(net, index, options, is_training=mode == ModeKeys.TRAIN)
        with tf.variable_scope("logits") as scope:
            logits = _dense(net, units, scope, None)
        summarize_layer(logits, scope.name)
        return logits

    return logits_of


def _hidden_layer(net: tf.Tensor, index: int, options: DnnOptions, *, is_training: bool) -> tf.Tensor:
    with tf.variable_scope(f"hiddenlayer_{index}") as scope:
        net = _dense(net, options.hidden_units[index], scope, options.activation_fn)
        if options.dropout is not None and is_training:
            net = tf.nn.dropout(net, rate=options.dropout)
        if options.batch_norm:
            name = f"batchnorm_{index}"
            net = batch_normalization(net, momentum=_MOMENTUM, name=name, training=is_training)
    summarize_layer(net, scope.name)
    return net


def call_logit_fn(
    logit_fn: Callable[..., Any], features: Features, mode: str, params: Any, config: Any
) -> tf.Tensor | dict[str, tf.Tensor]:
    """Call a function that makes logits, with the arguments that it takes.

    Args:
        logit_fn: takes ``features`` and optionally ``mode``, ``params`` and ``config``.
        features: the input.
        mode: one of `ModeKeys`.
        params: the parameters of the model.
        config: the `RunConfig`.

    Raises:
        ConfigError: It is not a function of features, or returns neither a tensor nor a dict of tensors.
    """
    if not callable(logit_fn) or "features" not in inspect.signature(logit_fn).parameters:
        raise ConfigError(f"got logit_fn={shown(logit_fn)}: expected a function that takes features")
    logits = call_with_accepted(logit_fn, {"mode": mode, "params": params, "config": config}, features=features)
    values = list(logits.values()) if isinstance(logits, dict) else [logits]
    if not all(isinstance(value, tf.Tensor) for value in values):
        raise ConfigError(f"logit_fn returned {shown(logits)}: expected a tensor or a dict of tensors")
    return logits


def _dense(net: tf.Tensor, units: int, scope: tf.VariableScope, activation: Activation | None) -> tf.Tensor:
    return dense(net, units, activation, kernel_initializer=tf.glorot_uniform_initializer(), name=scope)


def _summarize_linear(made: Mapping[Any, Any], units: int) -> None:
    weights = dict(made)
    bias = _whole(weights.pop("bias"))
    if units == 1:
        tf.summary.scalar("bias", bias[0])
    else:
        tf.summary.histogram("bias", bias)
    flat = [tf.reshape(_whole(one), [-1]) for one in weights.values()]
    tf.summary.scalar("fraction_of_zero_weights", tf.math.zero_fraction(tf.concat(flat, 0)))


def _whole(parts: Any) -> tf.Tensor:
    """Return the value of a variable in parts, or of several."""
    parts = list(parts) if isinstance(parts, (list, tuple)) else [parts]
    flat = [tf.reshape(tf.convert_to_tensor(part), [-1]) for part in parts]
    return tf.concat(flat, 0)


def summarize_layer(value: tf.Tensor, name: str) -> None:
    """Add summaries of the values of a layer."""
    if is_main_tower():
        tf.summary.scalar(f"{name}/fraction_of_zero_values", tf.math.zero_fraction(value))
        tf.summary.histogram(f"{name}/activation", value)
