"""A layer as a row of operations, of which the last gives the layer's output the name that scripts know it by.

Scripts fetch ``conv0/output``. What is last differs from call to call: the convolution, its bias, its activation. The
name is given to that operation itself, where an extra identity would be one more operation in the graph for each layer.

What TensorFlow can compute on a CPU, and what a layer does where it cannot.

With oneDNN, which is on by default on most x86 machines, float32 convolutions and poolings run in both data formats,
grouped and dilated. The other kernels for the CPU, those for float64 and float16, those on other machines and those
after ``TF_ENABLE_ONEDNN_OPTS=0``, are basic ones: they know channels last only, and have no gradient of a grouped or a
dilated convolution. bfloat16 is counted among these, although oneDNN computes it on some processors: which, TensorFlow
does not tell. A graph is built for where its operations will run: on the CPU if the current device says so, or if it
says nothing and this machine has no GPU.

With a basic kernel, a layer in channels-first format transposes around its operation; a graph optimizer removes what
meets its like.

How a convolution pads its input: by a rule, or by numbers that are given.
"""

import inspect
from collections.abc import Callable, Sequence
from numbers import Integral
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.compat import is_onednn_enabled
from tpack.errors import ConfigError
from tpack.models.data_format import layer_name
from tpack.tower.context import get_current_tower_context
from tpack.tower.devices import list_gpus

Step = Callable[[Any, str | None], Any]
"""Takes a tensor, and the name to give to the operation that makes the result, or None."""

OUTPUT = "output"
_TO_CHANNELS_LAST = [0, 2, 3, 1]
_TO_CHANNELS_FIRST = [0, 3, 1, 2]
Padding = str | list[list[int]]
"""``"SAME"``, ``"VALID"``, or ``[[top, bottom], [left, right]]``."""


def run_steps(inputs: Any, steps: Sequence[Step]) -> Any:
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


def with_bias(operation: Callable[[Any, str, str | None], Any], variables: Any) -> Callable[[str], list[Step]]:
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


def activation_steps(
    activation: Callable[..., Any] | None, activity_regularizer: Callable[[Any], Any] | None = None
) -> list[Step]:
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
            raise ConfigError(f"{where} wants a function or None as its {argument}, got {value!r}")
    steps: list[Step] = []
    if activation is not None:
        steps.append(_with_name(activation))
    if activity_regularizer is None:
        return steps
    last = steps.pop() if steps else tf.identity

    def regularized(x: Any, name: str | None) -> Any:
        output = last(x, name)
        _add_loss(activity_regularizer, output)
        return output

    return [regularized]


def _with_name(activation: Callable[..., Any]) -> Step:
    def step(x: Any, name: str | None) -> Any:
        return activation(x, name=name) if _takes_name(activation) else activation(x)

    return step


def _takes_name(function: Callable[..., Any]) -> bool:
    try:
        parameter = inspect.signature(function).parameters.get("name")
    except (ValueError, TypeError):
        return False
    return parameter is not None and parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)


def _add_loss(regularizer: Callable[[Any], Any], output: Any) -> None:
    tower = get_current_tower_context()
    if tower is not None and not tower.is_training:
        return
    with tf.name_scope("ActivityRegularizer"):
        loss = regularizer(output)
    if loss is not None:
        tf.add_to_collection(tf.GraphKeys.REGULARIZATION_LOSSES, tf.convert_to_tensor(loss))


def has_basic_kernels(dtype: Any) -> bool:
    """Tell whether convolutions and poolings made here will run on basic CPU kernels.

    Args:
        dtype: the dtype of their inputs.
    """
    if dtype == tf.float32 and is_onednn_enabled():
        return False
    return runs_on_cpu()


def runs_on_cpu() -> bool:
    """Tell whether operations made here will run on a CPU: always where there is no GPU, else as the device says."""
    if not list_gpus():
        return True
    # Device functions can only be asked by making an operation. Nothing depends on this one, so it never runs.
    device = tf.no_op(name="where").device
    return bool(device) and tf.DeviceSpec.from_string(device).device_type == "CPU"


def to_channels_last(x: Any, name: str | None = None) -> Any:
    """Transpose a feature map from channels first."""
    return tf.transpose(x, _TO_CHANNELS_LAST, name=name)


def to_channels_first(x: Any, name: str | None = None) -> Any:
    """Transpose a feature map from channels last."""
    return tf.transpose(x, _TO_CHANNELS_FIRST, name=name)


def steps_in_format(
    make_steps: Callable[[str], list[Callable[[Any, str | None], Any]]], dtype: Any, *, channels_first: bool
) -> list[Callable[[Any, str | None], Any]]:
    """Return steps in a data format that there are kernels for.

    Args:
        make_steps: returns the steps that work in the format ``"NHWC"`` or ``"NCHW"``.
        dtype: of their input.
        channels_first: the format of their input and output.
    """
    if not channels_first:
        return make_steps("NHWC")
    if not has_basic_kernels(dtype):
        return make_steps("NCHW")
    return [to_channels_last, *make_steps("NHWC"), to_channels_first]


def parse_rule(kind: str, padding: Any) -> str:
    """Return ``"SAME"`` or ``"VALID"``.

    Args:
        kind: the name of the layer's function, for the message.
        padding: one of the two in any case.

    Raises:
        ConfigError: It is neither.
    """
    rule = padding.upper() if isinstance(padding, str) else None
    if rule not in ("SAME", "VALID"):
        raise ConfigError(f"{layer_name(kind)} wants padding 'same' or 'valid', got {padding!r}")
    return str(rule)


def parse_padding(kind: str, padding: Any, *, channels_first: bool) -> Padding:
    """Return a rule, or the padding of height and width in numbers.

    Args:
        kind: the name of the layer's function, for the message.
        padding: ``"same"`` or ``"valid"`` in any case, one number for all four sides, ``[vertical, horizontal]``,
            ``[[top, bottom], [left, right]]``, or a pair for each of the four dimensions of the input.
        channels_first: the order of the dimensions, for the last form.

    Raises:
        ConfigError: It is none of these, or pads batch or channels.
    """
    if isinstance(padding, str):
        return parse_rule(kind, padding)
    numbers = [padding, padding] if _is_size(padding) else padding
    if isinstance(numbers, Sequence) and len(numbers) == 4 and all(map(_is_pair, numbers)):
        numbers = _spatial(numbers, channels_first)
    if isinstance(numbers, Sequence) and len(numbers) == 2:
        pairs = [[n, n] if _is_size(n) else n for n in numbers]
        if all(map(_is_pair, pairs)):
            return [[int(n) for n in pair] for pair in pairs]
    raise ConfigError(
        f"{layer_name(kind)} wants padding 'same', 'valid', a number, [vertical, horizontal] or [[top, bottom], [left, "
        f"right]], got {padding!r}"
    )


def pad(x: Any, pairs: Sequence[Sequence[int]], data_format: str) -> Any:
    """Pad a feature map with zeros.

    Args:
        x: the feature map.
        pairs: ``[[top, bottom], [left, right]]``.
        data_format: ``"NHWC"`` or ``"NCHW"``.
    """
    none = [0, 0]
    return tf.pad(x, [none, none, *pairs] if data_format == "NCHW" else [none, *pairs, none])


def _spatial(pairs: Sequence[Any], channels_first: bool) -> Any:
    """Return the pairs of height and width, or None if other dimensions are to be padded."""
    batch, channels = pairs[0], pairs[1 if channels_first else 3]
    if any(batch) or any(channels):
        return None
    return pairs[2:] if channels_first else pairs[1:3]


def _is_size(value: Any) -> bool:
    # A size that was computed may be a numpy integer.
    return isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= 0


def _is_pair(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str) and len(value) == 2 and all(map(_is_size, value))
