"""Small functions of tensors: shapes that are wanted, conditions that may be known, Python functions in the graph."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError, WrongTypeError
from tpack.utils.validation import mismatch, shown


def with_shape(expected_shape: Any, tensor: Any) -> tf.Tensor:
    """Return a tensor of a known shape, or checked when computed; ``expected_shape`` is whole, or a vector tensor.

    Raises:
        ConfigError: It is known to have another shape, or the expected shape is not whole.
    """
    tensor = tf.convert_to_tensor(tensor)
    static = tf.get_static_value(expected_shape) if tf.is_tensor(expected_shape) else expected_shape
    if static is None:
        return _checked_shape(expected_shape, tensor)
    wanted = tf.TensorShape(static)
    if not wanted.is_fully_defined():
        raise ConfigError(f"with_shape got the shape {shown(wanted)} for {tensor.name}: expected known sizes")
    if not tensor.shape.is_compatible_with(wanted):
        raise ConfigError(f"{tensor.name} has the shape {tensor.shape}, expected {wanted}")
    if tensor.shape.is_fully_defined():
        return tensor
    result = _checked_shape(wanted.as_list(), tensor)
    result.set_shape(wanted)
    return result


def with_same_shape(expected_tensor: Any, tensor: Any) -> tf.Tensor:
    """Return a tensor that is known, or is checked when it is computed, to have the shape of another."""
    expected = tf.convert_to_tensor(expected_tensor)
    return with_shape(expected.shape if expected.shape.is_fully_defined() else tf.shape(expected), tensor)


def _checked_shape(wanted: Any, tensor: tf.Tensor) -> tf.Tensor:
    actual = tf.shape(tensor)
    is_equal = tf.reduce_all(tf.equal(actual, wanted)) if tensor.shape.rank is not None else _equal(actual, wanted)
    with tf.control_dependencies(
        [tf.Assert(is_equal, [f"wrong shape of {tensor.name}: expected and got", wanted, actual])]
    ):
        return tf.identity(tensor)


def _equal(one: tf.Tensor, other: Any) -> tf.Tensor:
    return tf.cond(
        tf.equal(tf.size(one), tf.size(other)), lambda: tf.reduce_all(tf.equal(one, other)), lambda: tf.constant(False)
    )


def assert_scalar_int(tensor: Any, name: str | None = None) -> tf.Tensor:
    """Return a tensor if it is known to be one integer; raise ValueError if it is not an integer, or has dimensions."""
    with tf.name_scope(name, "assert_scalar_int", [tensor]):
        tensor = tf.convert_to_tensor(tensor)
        if not tensor.dtype.base_dtype.is_integer:
            raise WrongTypeError(f"{tensor.name} is to be an integer, got {tensor.dtype.name}")
        return tf.debugging.assert_scalar(tensor)


def reduce_sum_n(tensors: Sequence[tf.Tensor], name: str | None = None) -> tf.Tensor:
    """Return the sum of all elements of several tensors; raise ConfigError if there are none."""
    if not tensors:
        raise ConfigError(mismatch("reduce_sum_n", "tensors", tensors, "at least one"))
    with tf.name_scope(name, "reduce_sum_n", tensors) as scope:
        sums = [tf.reduce_sum(tensor, name=f"{tensor.op.name.rpartition('/')[2]}/sum") for tensor in tensors]
        return tf.add_n(sums, name=scope)


def remove_squeezable_dimensions(predictions: Any, labels: Any, name: str | None = None) -> tuple[tf.Tensor, tf.Tensor]:
    """Return predictions and labels, of which one has lost its last dimension of size 1 if it has one more."""
    with tf.name_scope(name, "remove_squeezable_dimensions", [predictions, labels]):
        predictions, labels = tf.convert_to_tensor(predictions), tf.convert_to_tensor(labels)
        if predictions.shape.rank is None or labels.shape.rank is None:
            return predictions, labels
        more = predictions.shape.rank - labels.shape.rank
        if more == 1 and predictions.shape[-1:].is_compatible_with([1]):
            predictions = tf.squeeze(predictions, [-1])
        elif more == -1 and labels.shape[-1:].is_compatible_with([1]):
            labels = tf.squeeze(labels, [-1])
        return predictions, labels


def smart_constant_value(pred: Any) -> bool | None:
    """Return the value of a condition, None for an unknown tensor; raise WrongTypeError if it is not a condition."""
    if tf.is_tensor(pred):
        value = tf.get_static_value(pred)
        return None if value is None else bool(value)
    if isinstance(pred, bool | np.bool_) or pred in (0, 1):
        return bool(pred)
    raise WrongTypeError(f"a condition is to be a boolean or a tensor, got {shown(pred)}")


def smart_cond(
    pred: Any,
    true_fn: Callable[[], Any] | None = None,
    false_fn: Callable[[], Any] | None = None,
    name: str | None = None,
) -> Any:
    """Return the result of one of two functions, and build only that one if the condition is known.

    Raises:
        WrongTypeError: One is not a function, or the condition is none.
    """
    for which, function in (("true_fn", true_fn), ("false_fn", false_fn)):
        if not callable(function):
            raise WrongTypeError(f"smart_cond got {which}={shown(function)}: expected a function")
    known = smart_constant_value(pred)
    if known is None:
        return tf.cond(pred, true_fn=true_fn, false_fn=false_fn, name=name)
    return true_fn() if known else false_fn()  # type: ignore[misc]


def py_func(
    func: Callable[..., Any],
    args: Sequence[Any] = (),
    kwargs: dict[str, Any] | None = None,
    output_types: Any = None,
    output_shapes: Any = None,
    stateful: bool = True,
    name: str | None = None,
) -> Any:
    """Call a Python function, whenever its results are computed, on arrays in place of the tensors of its arguments.

    The results, and ``output_shapes``, are of the structure of ``output_types``, their dtypes. With ``stateful`` two
    calls with the same arguments may differ.

    Raises:
        ConfigError: ``output_types`` is missing.
    """
    if output_types is None:
        raise ConfigError("py_func got output_types=None: expected the types of the function's results")
    given = (tuple(args), kwargs or {})

    def call(*flat: Any) -> list[Any]:
        positional, keywords = tf.nest.pack_sequence_as(given, flat)
        return tf.nest.flatten(func(*positional, **keywords))

    flat_types = tf.nest.flatten(output_types)
    results = tf.py_func(call, tf.nest.flatten(given), flat_types, stateful=stateful, name=name)
    if output_shapes is not None:
        shapes = [output_shapes] if not tf.nest.is_nested(output_types) else output_shapes
        for result, shape in zip(results, shapes, strict=True):
            result.set_shape(shape)
    return tf.nest.pack_sequence_as(output_types, results)


def get_name_scope() -> str:
    """Return the name scope that is open."""
    return tf.get_default_graph().get_name_scope()


def get_placeholders(graph: tf.Graph) -> list[tf.Tensor]:
    """Return the placeholders of a graph."""
    return [op.outputs[0] for op in graph.get_operations() if op.type == "Placeholder"]


def get_graph_from_inputs(op_input_list: Sequence[Any], graph: tf.Graph | None = None) -> tf.Graph:
    """Return the graph that all of some tensors are in; raise ConfigError if they are in several graphs."""
    graphs = {id(value.graph): value.graph for value in op_input_list if getattr(value, "graph", None) is not None}
    if graph is not None:
        graphs[id(graph)] = graph
    if len(graphs) > 1:
        raise ConfigError(
            f"the tensors are to be in one graph, got some of {len(graphs)}: {shown(list(op_input_list))}"
        )
    return next(iter(graphs.values()), tf.get_default_graph())
