"""Layers as rows of operations, of which the last has the name of the layer's output.

Scripts fetch ``conv0/output``. Depending on the call, the last operation is the convolution, its bias or its
activation. It gets the name itself: an extra identity would cost one operation for each layer.
"""

import inspect
from collections.abc import Callable, Sequence
from typing import TypeAlias

import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError
from tpack.models.variables import Regularizer, VariableHolder
from tpack.tower.context import get_current_tower_context
from tpack.utils.validation import mismatch

Activation: TypeAlias = Callable[..., tf.Tensor]
"""A function of a tensor, which may have an argument ``name``."""
Step: TypeAlias = Callable[[tf.Tensor, str | None], tf.Tensor]
"""A function of a tensor and the name of the resulting operation, or None."""

OUTPUT = "output"


def run_steps(inputs: tf.Tensor, steps: Sequence[Step], variables: VariableHolder | None = None) -> tf.Tensor:
    """Run the steps one after the other, and name the result ``output`` in the current name scope.

    Args:
        inputs: the input of the first step.
        steps: at least one. An identity follows a last step that does not use its name.
        variables: the layer's variables, if any, which become the result's attribute ``variables``.
    """
    result = inputs
    for step in steps[:-1]:
        result = step(result, None)
    result = steps[-1](result, OUTPUT)
    scope = tf.get_default_graph().get_name_scope()
    if result.name != f"{scope}/{OUTPUT}:0".lstrip("/"):
        result = tf.identity(result, name=OUTPUT)
    if variables is not None:
        result.variables = variables
    return result


def with_bias(
    operation: Callable[[tf.Tensor, str, str | None], tf.Tensor], variables: VariableHolder
) -> Callable[[str], list[Step]]:
    """Return a function from a data format to an operation's steps in it.

    Args:
        operation: takes a feature map, the data format ``"NHWC"`` or ``"NCHW"``, and a name.
        variables: the layer's variables; the bias ``b`` is added if there is one.
    """

    def make_steps(data_format: str) -> list[Step]:
        steps: list[Step] = [lambda x, name: operation(x, data_format, name)]
        if hasattr(variables, "b"):
            steps.append(lambda x, name: tf.nn.bias_add(x, variables.b, data_format=data_format, name=name))
        return steps

    return make_steps


def activation_steps(activation: Activation | None, activity_regularizer: Regularizer | None = None) -> list[Step]:
    """Return the last steps of a layer: its activation, and the loss of its output.

    Args:
        activation: a function of a tensor, which may have an argument ``name``; None for none.
        activity_regularizer: a function from the output to a loss, which is added to the collection
            REGULARIZATION_LOSSES except in a tower for prediction; None for none.

    Raises:
        ConfigError: One of them is not a function, such as Keras's name of one.
    """
    for argument, value in (("activation", activation), ("activity_regularizer", activity_regularizer)):
        if value is not None and not callable(value):
            where = tf.get_variable_scope().name or "a layer"
            raise ConfigError(mismatch(where, argument, value, "a function or None"))
    steps: list[Step] = []
    if activation is not None:
        steps.append(_with_name(activation))
    if activity_regularizer is None:
        return steps
    last = steps.pop() if steps else tf.identity

    def regularized(x: tf.Tensor, name: str | None) -> tf.Tensor:
        output = last(x, name)
        _add_loss(activity_regularizer, output)
        return output

    return [regularized]


def _with_name(activation: Activation) -> Step:
    def step(x: tf.Tensor, name: str | None) -> tf.Tensor:
        return activation(x, name=name) if _takes_name(activation) else activation(x)

    return step


def _takes_name(function: Activation) -> bool:
    try:
        parameter = inspect.signature(function).parameters.get("name")
    except (ValueError, TypeError):
        return False
    return parameter is not None and parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)


def _add_loss(regularizer: Regularizer, output: tf.Tensor) -> None:
    tower = get_current_tower_context()
    if tower is not None and not tower.is_training:
        return
    with tf.name_scope("ActivityRegularizer"):
        loss = regularizer(output)
    if loss is not None:
        tf.add_to_collection(tf.GraphKeys.REGULARIZATION_LOSSES, tf.convert_to_tensor(loss))
