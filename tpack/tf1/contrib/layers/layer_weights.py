"""The beginning and end of each layer of ``tf.contrib``: its variables, and what is done with its output."""

from collections.abc import Callable, Mapping, Sequence
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
            The variable, and its loss in REGULARIZATION_LOSSES: where the variable is made, and once in each training
            tower that shares it, so that the mean of the towers' gradients has it once.
        """
        made: list[tf.Variable] = []
        variable = model_variable(
            name,
            shape=shape,
            dtype=self.dtype,
            initializer=initializer,
            # It learns which variables, or parts of one, are made, and gives no loss to TensorFlow.
            regularizer=None if regularizer is None else made.append,
            trainable=self.trainable,
            collections=get_variable_collections(self.collections, name),
        )
        if regularizer is not None:
            _regularize(name, made or (parts_of(variable) if _is_shared() else []), regularizer, loss_of)
        return variable

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


def _is_shared() -> bool:
    """Tell whether this is a training tower that uses the variables of another."""
    tower = get_current_tower_context()
    return tower is not None and tower.is_training and not tower.is_main_tower


def _regularize(name: str, variables: Sequence[tf.Variable], regularizer: Function, loss_of: str | None) -> None:
    """Add the losses of variables, or parts of one, unless this tower has them or is one for prediction."""
    tower = get_current_tower_context()
    if tower is not None and not tower.is_training:
        return
    full_name = f"{tf.get_variable_scope().name}/{name}"
    losses = tf.get_collection(tf.GraphKeys.REGULARIZATION_LOSSES)
    if any(getattr(loss, "regularized_variable_name", None) == full_name for loss in losses):
        return
    scope = full_name if loss_of is None else f"{tf.get_default_graph().get_name_scope()}/{loss_of}".lstrip("/")
    for variable in variables:
        # A variable is made outside of loops and conditions, and so is its loss.
        with tf.init_scope(), tf.name_scope(f"{scope}/Regularizer/"):
            loss = regularizer(variable)
        if loss is not None:
            loss = tf.convert_to_tensor(loss)
            loss.regularized_variable_name = full_name
            tf.add_to_collection(tf.GraphKeys.REGULARIZATION_LOSSES, loss)
