"""A layer as a row of operations, of which the last gives the layer's output the name that scripts know it by.

Scripts fetch ``conv0/output``. What is last differs from call to call: the convolution, its bias, its activation. The
name is given to that operation itself, where an extra identity would be one more operation in the graph for each layer.
"""

import inspect
from collections.abc import Callable, Sequence
from typing import TypeAlias

import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError
from tpack.models.variables import Regularizer, VariableHolder
from tpack.tower.context import get_current_tower_context
from tpack.utils.validation import shown

Activation: TypeAlias = Callable[..., tf.Tensor]
"""A function of a tensor, which may have an argument ``name``."""
Step: TypeAlias = Callable[[tf.Tensor, str | None], tf.Tensor]
"""Takes a tensor, and the name to give to the operation that makes the result, or None."""

OUTPUT = "output"


def run_steps(inputs: tf.Tensor, steps: Sequence[Step]) -> tf.Tensor:
    """Run the steps one after the other, and call the result ``output`` in the current name scope.

    Args:
        inputs: what the first step gets.
        steps: one at least. An identity is added after a last one that does not use the name that it is given.
    """
    result = inputs
    for step in steps[:-1]:
        result = step(result, None)
    result = steps[-1](result, OUTPUT)
    scope = tf.get_default_graph().get_name_scope()
    if result.name != f"{scope}/{OUTPUT}:0".lstrip("/"):
        result = tf.identity(result, name=OUTPUT)
    return result


def with_bias(
    operation: Callable[[tf.Tensor, str, str | None], tf.Tensor], variables: VariableHolder
) -> Callable[[str], list[Step]]:
    """Return a function of a data format that returns an operation's steps in it.

    Args:
        operation: takes a feature map, the data format ``"NHWC"`` or ``"NCHW"``, and a name.
        variables: the layer's; the bias ``b`` is added if it is among them.
    """

    def make_steps(data_format: str) -> list[Step]:
        steps: list[Step] = [lambda x, name: operation(x, data_format, name)]
        if hasattr(variables, "b"):
            steps.append(lambda x, name: tf.nn.bias_add(x, variables.b, data_format=data_format, name=name))
        return steps

    return make_steps


def activation_steps(activation: Activation | None, activity_regularizer: Regularizer | None = None) -> list[Step]:
    """Return the steps that end a layer: its activation, and the loss for what comes out.

    Args:
        activation: a function of a tensor, which may have an argument ``name``; None for none.
        activity_regularizer: a function of the output that returns a loss, which is added to the collection
            REGULARIZATION_LOSSES except in a tower for prediction; None for none.

    Raises:
        ConfigError: One of them is not a function, such as a name that Keras has for it.
    """
    for argument, value in (("activation", activation), ("activity_regularizer", activity_regularizer)):
        if value is not None and not callable(value):
            where = tf.get_variable_scope().name or "a layer"
            raise ConfigError(f"{where} wants a function or None as its {argument}, got {shown(value)}")
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
