"""The input source that supplies nothing: placeholders, to be fed by whoever runs the graph."""

from collections.abc import Sequence
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError
from tpack.input_source.base import InputSource


class PlaceholderInput(InputSource):
    """Give every tower the same placeholders, named as the signature says."""

    def __init__(self) -> None:
        self._placeholders: list[Any] = []

    def _setup(self, signature: Sequence[Any]) -> None:
        self._placeholders = [build_or_reuse_placeholder(spec) for spec in signature]

    def _get_input_tensors(self) -> Sequence[Any]:
        return self._placeholders


def build_or_reuse_placeholder(spec: Any) -> Any:
    """Return the placeholder of the current graph that has the name of ``spec``, made if it is not there.

    Args:
        spec: a ``tf.TensorSpec`` with a name.

    Raises:
        ConfigError: The graph has something else of that name: another kind of operation, dtype or shape.
    """
    try:
        found = tf.get_default_graph().get_tensor_by_name(f"{spec.name}:0")
    except KeyError:
        with tf.name_scope(""):
            return tf.placeholder(spec.dtype, spec.shape, name=spec.name)
    same_shape = found.shape.rank == spec.shape.rank and found.shape.is_compatible_with(spec.shape)
    if not found.op.type.startswith("Placeholder") or found.dtype != spec.dtype or not same_shape:
        raise ConfigError(
            f"the graph has a {found.op.type} '{spec.name}' of {found.dtype.name} {found.shape}, wanted a placeholder "
            f"of {spec.dtype.name} {spec.shape}: give the input another name"
        )
    return found
