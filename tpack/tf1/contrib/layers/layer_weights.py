"""The beginning and end of each layer of ``tf.contrib``: variables, normalisation, activation and collections."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.tf1.contrib.framework.variables import model_variable, parts_of
from tpack.tf1.contrib.layers.utils import collect_named_outputs, get_variable_collections
from tpack.tower.context import get_current_tower_context
from tpack.tower.getters import full_precision

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
