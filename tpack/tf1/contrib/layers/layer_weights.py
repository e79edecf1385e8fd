"""The beginning and end of each layer of ``tf.contrib``: variables, normalisation, activation and collections.

The variance of initial values depends on the numbers of inputs and outputs; regularizers are functions of a tensor.
"""

import math
import numbers
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError, WrongTypeError
from tpack.tf1.contrib.framework.variables import model_variable, parts_of
from tpack.tf1.contrib.layers.utils import collect_named_outputs, get_variable_collections
from tpack.tower.context import get_current_tower_context
from tpack.tower.getters import full_precision
from tpack.utils.validation import shown

Function = Callable[..., tf.Tensor]


@dataclass(frozen=True)
class Weights:
    """The options of a layer's variables.

    Attributes:
        collections: for all variables, or for each by its name.
        trainable: whether optimizers change them.
        dtype: of all.
    """

    collections: Any
    trainable: bool
    dtype: tf.DType

    def make(
        self, name: str, shape: Any, initializer: Any, regularizer: Function | None = None, loss_of: str | None = None
    ) -> tf.Variable:
        """Make or find a variable in the current scope.

        Args:
            name: of the variable.
            shape: of the variable.
            initializer: of the variable.
            regularizer: makes its loss; None for that of the variable scope.
            loss_of: the variable's name in that of the loss, where it differs.

        Creates:
            The variable, and its loss in REGULARIZATION_LOSSES: with the variable, and once in each training tower that
            shares it, so that the mean of the towers' gradients has it once.
        """
        made: list[tf.Variable] = []
        variable = model_variable(
            name,
            shape=shape,
            dtype=self.dtype,
            initializer=initializer,
            # Records the variables, or parts of one, and gives no loss to TensorFlow.
            regularizer=None if regularizer is None else made.append,
            trainable=self.trainable,
            collections=get_variable_collections(self.collections, name),
        )
        if regularizer is not None:
            tower = get_current_tower_context()
            is_shared = tower is not None and tower.is_training and not tower.is_main_tower
            _regularize(name, made or (parts_of(variable) if is_shared else []), regularizer, loss_of)
        return variable

    def make_average(self, name: str, shape: Any, initializer: Any) -> tf.Variable:
        """Make or find a moving average of a statistic of each tower."""
        with full_precision():
            return model_variable(
                name,
                shape=shape,
                dtype=self.dtype,
                initializer=initializer,
                trainable=False,
                collections=get_variable_collections(self.collections, name),
                synchronization=tf.VariableSynchronization.ON_READ,
                aggregation=tf.VariableAggregation.MEAN,
            )


class LayerParts:
    """The kernels, the bias and the end of a layer, from the arguments that most layers have.

    Args:
        dtype: of the variables.
        **given: the arguments in `ARGUMENTS`.
    """

    ARGUMENTS = (
        "activation_fn",
        "normalizer_fn",
        "normalizer_params",
        "weights_initializer",
        "weights_regularizer",
        "biases_initializer",
        "biases_regularizer",
        "variables_collections",
        "outputs_collections",
        "trainable",
    )

    def __init__(self, dtype: tf.DType, **given: Any) -> None:
        self._weights = Weights(given["variables_collections"], given["trainable"], dtype.base_dtype)
        self._given = given

    def kernel(
        self, shape: Sequence[int], loss_of: str | None = None, name: str = "weights", initializer: Any = None
    ) -> tf.Variable:
        """Make a kernel."""
        initializer = initializer or self._given["weights_initializer"]
        return self._weights.make(name, shape, initializer, self._given["weights_regularizer"], loss_of)

    def bias(self, size: int, loss_of: str | None = None) -> tf.Variable | None:
        """Make the bias, unless there is none or a normalisation in its place."""
        initializer = self._given["biases_initializer"]
        if initializer is None or self._given["normalizer_fn"] is not None:
            return None
        return self._weights.make("biases", [size], initializer, self._given["biases_regularizer"], loss_of)

    def end(self, outputs: tf.Tensor, scope: tf.VariableScope) -> tf.Tensor:
        """Return the output of the layer in this scope: normalised, activated and in its collections."""
        if self._given["normalizer_fn"] is not None:
            outputs = self._given["normalizer_fn"](outputs, **(self._given["normalizer_params"] or {}))
        return activate(outputs, self._given["activation_fn"], self._given["outputs_collections"], scope)


def activate(
    outputs: tf.Tensor, activation_fn: Function | None, outputs_collections: Any, scope: tf.VariableScope
) -> tf.Tensor:
    """Return the output of a layer in this scope, after its activation and in its collections."""
    if activation_fn is not None:
        outputs = activation_fn(outputs)
    return collect_named_outputs(outputs_collections, scope.name, outputs)


def _regularize(name: str, variables: Sequence[tf.Variable], regularizer: Function, loss_of: str | None) -> None:
    """Add the losses of variables, or parts of one, unless the tower has them or predicts."""
    tower = get_current_tower_context()
    if tower is not None and not tower.is_training:
        return
    full_name = f"{tf.get_variable_scope().name}/{name}"
    losses = tf.get_collection(tf.GraphKeys.REGULARIZATION_LOSSES)
    if any(getattr(loss, "regularized_variable_name", None) == full_name for loss in losses):
        return
    scope = full_name if loss_of is None else f"{tf.get_default_graph().get_name_scope()}/{loss_of}".lstrip("/")
    for variable in variables:
        # Like the variable, outside of loops and conditions.
        with tf.init_scope(), tf.name_scope(f"{scope}/Regularizer/"):
            loss = regularizer(variable)
        if loss is not None:
            loss = tf.convert_to_tensor(loss)
            loss.regularized_variable_name = full_name
            tf.add_to_collection(tf.GraphKeys.REGULARIZATION_LOSSES, loss)


Initializer = Callable[..., tf.Tensor]

# TensorFlow's factor restores the deviation of a normal distribution cut at two deviations.
_CUT = 1.3


def xavier_initializer(uniform: bool = True, seed: int | None = None, dtype: tf.DType = tf.float32) -> Initializer:
    """Return an initializer with a variance of 2 / (inputs + outputs).

    Source:
        Glorot and Bengio, "Understanding the difficulty of training deep feedforward neural networks"
    """
    return variance_scaling_initializer(1.0, "FAN_AVG", uniform, seed, dtype)


xavier_initializer_conv2d = xavier_initializer


def variance_scaling_initializer(
    factor: float = 2.0,
    mode: str = "FAN_IN",
    uniform: bool = False,
    seed: int | None = None,
    dtype: tf.DType = tf.float32,
) -> Initializer:
    """Return an initializer whose variance is a factor divided by the inputs, the outputs, or their mean.

    Args:
        factor: the numerator.
        mode: ``"FAN_IN"``, ``"FAN_OUT"`` or ``"FAN_AVG"``.
        uniform: draw from a uniform distribution, else from a normal one cut at two deviations.
        seed: of the random numbers.
        dtype: of the values.

    Raises:
        WrongTypeError: The mode is unknown, or the dtype is not floating-point.
    """
    if not dtype.is_floating:
        raise WrongTypeError(f"got dtype={shown(dtype)}: expected a floating-point dtype")
    if mode not in ("FAN_IN", "FAN_OUT", "FAN_AVG"):
        raise WrongTypeError(f"got mode={shown(mode)}: expected FAN_IN, FAN_OUT or FAN_AVG")

    def initializer(shape: Sequence[int], dtype: tf.DType = dtype, partition_info: Any = None) -> tf.Tensor:
        whole = shape if partition_info is None else partition_info.full_shape
        variance = factor / _fan(mode, list(whole))
        if uniform:
            limit = math.sqrt(3.0 * variance)
            return tf.random_uniform(shape, -limit, limit, dtype, seed=seed)
        return tf.truncated_normal(shape, 0.0, math.sqrt(_CUT * variance), dtype, seed=seed)

    return initializer


def _fan(mode: str, shape: list[int]) -> float:
    """Return the divisor of the variance, for a weight with inputs and outputs as its last dimensions."""
    fan_in = float(shape[-2] if len(shape) > 1 else shape[-1]) if shape else 1.0
    fan_out = float(shape[-1]) if shape else 1.0
    positions = math.prod(shape[:-2])
    fans = {"FAN_IN": fan_in, "FAN_OUT": fan_out, "FAN_AVG": (fan_in + fan_out) / 2.0}
    return fans[mode] * positions


XAVIER = xavier_initializer()
ZEROS = tf.zeros_initializer()


Regularizer = Callable[..., tf.Tensor | None]


def l1_regularizer(scale: float, scope: str | None = None) -> Regularizer:
    """Return a function that computes ``scale`` times the sum of absolute values; None if ``scale`` is 0.

    Raises:
        ConfigError: ``scale`` is an integer or negative.
    """
    return _scaled("l1_regularizer", scale, scope, lambda weights: tf.reduce_sum(tf.abs(weights)))


def l2_regularizer(scale: float, scope: str | None = None) -> Regularizer:
    """Return a function that computes ``scale`` times half of the sum of squares; None if ``scale`` is 0.

    Raises:
        ConfigError: ``scale`` is an integer or negative.
    """
    return _scaled("l2_regularizer", scale, scope, tf.nn.l2_loss)


def l1_l2_regularizer(scale_l1: float = 1.0, scale_l2: float = 1.0, scope: str | None = None) -> Regularizer:
    """Return the sum of both regularizers; one alone if the other's scale is 0.

    Raises:
        ConfigError: A scale is an integer or negative.
    """
    _check_scale(scale_l1, "scale_l1")
    _check_scale(scale_l2, "scale_l2")
    scope = scope or "l1_l2_regularizer"
    if scale_l1 == 0.0:
        return l2_regularizer(scale_l2, scope)
    if scale_l2 == 0.0:
        return l1_regularizer(scale_l1, scope)
    return sum_regularizer([l1_regularizer(scale_l1), l2_regularizer(scale_l2)], scope)  # type: ignore[return-value]


def sum_regularizer(regularizer_list: Sequence[Regularizer | None], scope: str | None = None) -> Regularizer | None:
    """Return a function that adds several regularizers up; None without any."""
    regularizers = [regularizer for regularizer in regularizer_list if regularizer is not None]
    if not regularizers:
        return None

    def regularize(weights: tf.Tensor) -> tf.Tensor | None:
        with tf.name_scope(scope, "sum_regularizer", [weights]) as name:
            losses = [loss for loss in (regularizer(weights) for regularizer in regularizers) if loss is not None]
            return tf.add_n(losses, name=name) if losses else None

    return regularize


def apply_regularization(regularizer: Regularizer, weights_list: Sequence[Any] | None = None) -> tf.Tensor:
    """Return the sum of a regularizer over several tensors.

    Args:
        regularizer: a function of one.
        weights_list: the tensors; None for the collection WEIGHTS.

    Creates:
        The sum in REGULARIZATION_LOSSES.

    Raises:
        ConfigError: There are no tensors, or a loss is not a scalar.
    """
    if weights_list is None:
        weights_list = tf.get_collection(tf.GraphKeys.WEIGHTS)
    if not weights_list:
        raise ConfigError("apply_regularization got no weights: expected at least one tensor")
    with tf.name_scope("get_regularization_penalty", values=weights_list) as scope:
        found = [regularizer(weights) for weights in weights_list]
        penalties = [tf.constant(0.0) if penalty is None else penalty for penalty in found]
        for penalty in penalties:
            if penalty.shape.rank != 0:
                raise ConfigError(f"a regularizer returned {penalty}: expected a scalar")
        total = tf.add_n(penalties, name=scope)
        tf.add_to_collection(tf.GraphKeys.REGULARIZATION_LOSSES, total)
        return total


def _scaled(kind: str, scale: float, scope: str | None, size_of: Callable[[tf.Tensor], tf.Tensor]) -> Regularizer:
    _check_scale(scale, "scale")
    if scale == 0.0:
        return lambda weights, name=None: None

    def regularize(weights: tf.Tensor, name: str | None = None) -> tf.Tensor:
        with tf.name_scope(scope, kind, [weights]) as inner:
            factor = tf.convert_to_tensor(scale, dtype=weights.dtype.base_dtype, name="scale")
            return tf.multiply(factor, size_of(weights), name=name or inner)

    return regularize


def _check_scale(scale: Any, name: str) -> None:
    if isinstance(scale, numbers.Integral):
        raise ConfigError(f"got {name}={shown(scale)}: expected a float")
    if isinstance(scale, numbers.Real) and not float(scale) >= 0.0:
        raise ConfigError(f"got {name}={shown(scale)}: expected at least 0")
