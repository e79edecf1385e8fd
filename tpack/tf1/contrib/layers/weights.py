"""The beginning and end of each layer of ``tf.contrib``: its variables, and what is done with its output."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.tf1.contrib.framework.variables import model_variable
from tpack.tf1.contrib.layers.utils import collect_named_outputs, get_variable_collections
from tpack.tower.getters import full_precision

Function = Callable[..., tf.Tensor]


@dataclass(frozen=True)
class Weights:
    """What the variables of a layer have in common.

    Attributes:
        collections: for all of them, or for each by its name.
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
            regularizer: what makes a loss of it; None for that of the variable scope.
            loss_of: the name that the loss has for the variable, where that is another.

        Creates:
            The variable, and its loss in REGULARIZATION_LOSSES.
        """
        if regularizer is not None and loss_of is not None:
            regularizer = _named(regularizer, loss_of)
        return model_variable(
            name,
            shape=shape,
            dtype=self.dtype,
            initializer=initializer,
            regularizer=regularizer,
            trainable=self.trainable,
            collections=get_variable_collections(self.collections, name),
        )

    def make_average(self, name: str, shape: Any, initializer: Any) -> tf.Variable:
        """Make or find a variable that follows a statistic of each tower's own."""
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


@dataclass(frozen=True)
class Ending:
    """What is done with the result of a layer's operation.

    Attributes:
        activation_fn: the last function, or None.
        normalizer_fn: what takes the place of the bias, or None.
        normalizer_params: its arguments.
        outputs_collections: where the output goes.
    """

    activation_fn: Function | None
    normalizer_fn: Function | None
    normalizer_params: Mapping[str, Any] | None
    outputs_collections: Any

    def apply(self, outputs: tf.Tensor, scope: tf.VariableScope) -> tf.Tensor:
        """Return the output of the layer in this scope."""
        if self.normalizer_fn is not None:
            outputs = self.normalizer_fn(outputs, **(self.normalizer_params or {}))
        return activate(outputs, self.activation_fn, self.outputs_collections, scope)


def activate(
    outputs: tf.Tensor, activation_fn: Function | None, outputs_collections: Any, scope: tf.VariableScope
) -> tf.Tensor:
    """Return the output of a layer in this scope, after its activation and in its collections."""
    if activation_fn is not None:
        outputs = activation_fn(outputs)
    return collect_named_outputs(outputs_collections, scope.name, outputs)


def _named(regularizer: Function, variable: str) -> Function:
    """Return a regularizer whose losses have the names that they had in TensorFlow 1.15."""
    scope = "/".join(filter(None, [tf.get_default_graph().get_name_scope(), variable, "Regularizer"]))
    # TensorFlow asks once for a loss to see whether there is one, and then again.
    losses: dict[Any, tf.Tensor] = {}

    def regularize(weights: tf.Tensor) -> tf.Tensor:
        key = weights.ref()
        if key not in losses:
            with tf.name_scope(f"{scope}/"):
                losses[key] = regularizer(weights)
        return losses[key]

    return regularize
