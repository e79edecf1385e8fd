"""Shared parts of ``tf.contrib``'s layers, under the names that scripts import: sizes, conditions, collections."""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError
from tpack.tf1.contrib.framework.tensors import smart_cond
from tpack.utils.validation import shown

__all__ = [
    "append_tensor_alias",
    "channel_dimension",
    "collect_named_outputs",
    "constant_value",
    "convert_collection_to_dict",
    "gather_tensors_aliases",
    "get_tensor_aliases",
    "get_variable_collections",
    "last_dimension",
    "n_positive_integers",
    "smart_cond",
    "static_cond",
    "two_element_tuple",
]


def collect_named_outputs(collections: str | Iterable[str] | None, alias: str, outputs: tf.Tensor) -> tf.Tensor:
    """Add a layer's output to collections, with its alias for `convert_collection_to_dict`; return it."""
    if collections:
        append_tensor_alias(outputs, alias)
        for key in _keys(collections):
            tf.add_to_collection(key, outputs)
    return outputs


def append_tensor_alias(tensor: tf.Tensor, alias: str) -> tf.Tensor:
    """Add an alias to a tensor, and return it."""
    tensor.aliases = [*getattr(tensor, "aliases", ()), alias.removesuffix("/")]
    return tensor


def get_tensor_aliases(tensor: tf.Tensor) -> list[str]:
    """Return the aliases of a tensor, by default its name without the output's number."""
    return getattr(tensor, "aliases", None) or [tensor.name.removesuffix(":0")]


def gather_tensors_aliases(tensors: Iterable[tf.Tensor]) -> list[str]:
    """Return the aliases of several tensors."""
    return [alias for tensor in tensors for alias in get_tensor_aliases(tensor)]


def convert_collection_to_dict(collection: str, clear_collection: bool = False) -> "OrderedDict[str, tf.Tensor]":
    """Return the tensors of a collection by their aliases.

    Args:
        collection: its key.
        clear_collection: empty it.
    """
    pairs = [(alias, tensor) for tensor in tf.get_collection(collection) for alias in get_tensor_aliases(tensor)]
    if clear_collection:
        tf.get_default_graph().clear_collection(collection)
    return OrderedDict(pairs)


def get_variable_collections(
    variables_collections: Mapping[str, Any] | str | Iterable[str] | None, name: str
) -> list[str] | None:
    """Return the collections for a layer's variable of this name."""
    if isinstance(variables_collections, Mapping):
        variables_collections = variables_collections.get(name)
    return None if variables_collections is None else _keys(variables_collections)


def _keys(collections: str | Iterable[str]) -> list[str]:
    return [collections] if isinstance(collections, str) else list(collections)


def channel_dimension(shape: tf.TensorShape, data_format: str, min_rank: int = 1) -> int:
    """Return the number of channels of a shape, by a data format such as ``"NHWC"``.

    Raises:
        ConfigError: It is not known, or the rank is too small.
    """
    return _dimension(shape, 1 if data_format.startswith("NC") else -1, min_rank)


def last_dimension(shape: tf.TensorShape, min_rank: int = 1) -> int:
    """Return the last size of a shape; raise ConfigError if it is not known, or the rank is too small."""
    return _dimension(shape, -1, min_rank)


def _dimension(shape: tf.TensorShape, axis: int, min_rank: int) -> int:
    shape = tf.TensorShape(shape)
    if shape.rank is None or shape.rank < min_rank:
        raise ConfigError(f"got the shape {shape}: expected at least {min_rank} dimensions")
    size = shape.as_list()[axis]
    if size is None:
        raise ConfigError(f"got the shape {shape}: expected the size of dimension {axis} to be known")
    return size


def constant_value(value_or_tensor_or_var: Any, dtype: tf.DType | None = None) -> Any:
    """Return a value if it is known while the graph is built, else None.

    Raises:
        ConfigError: The value is None, or a tensor of another dtype.
    """
    if value_or_tensor_or_var is None:
        raise ConfigError("constant_value got None: expected a value, a tensor or a variable")
    value = value_or_tensor_or_var
    if not (tf.is_tensor(value) or isinstance(value, tf.Variable)):
        return value
    if dtype is not None and value.dtype.base_dtype != dtype:
        raise ConfigError(f"constant_value got a tensor of {value.dtype.name}: expected a tensor of {dtype.name}")
    return tf.get_static_value(value) if isinstance(value, tf.Tensor) else None


def static_cond(pred: Any, fn1: Callable[[], Any], fn2: Callable[[], Any]) -> Any:
    """Return the result of the first function if a known condition holds, else of the second."""
    return fn1() if pred else fn2()


def n_positive_integers(n: int, value: Any) -> tuple[int, ...]:
    """Return ``n`` integers from one for all or from ``n``.

    Raises:
        ConfigError: There is another number of them, or one is not positive.
    """
    sizes = tuple(map(int, value)) if isinstance(value, Iterable) and not isinstance(value, str) else (value,) * n
    if len(sizes) != n or any(isinstance(size, str | float) or int(size) < 1 for size in sizes):
        raise ConfigError(f"got {shown(value)}: expected a positive integer or {n} of them")
    return tuple(map(int, sizes))


def two_element_tuple(int_or_tuple: int | Sequence[int] | tf.TensorShape) -> tuple[int, ...]:
    """Return two integers, such as height and width, from one for both or from two.

    Raises:
        ConfigError: It is neither.
    """
    values: Any = int_or_tuple.as_list() if isinstance(int_or_tuple, tf.TensorShape) else int_or_tuple
    if isinstance(values, list | tuple) and len(values) == 2:
        return int(values[0]), int(values[1])
    if isinstance(values, list | tuple | str):
        raise ConfigError(f"got {shown(int_or_tuple)}: expected an integer or two of them")
    return int(values), int(values)
