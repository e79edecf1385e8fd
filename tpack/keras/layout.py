"""Inputs, targets and weights of a Keras model: nested as Keras nests them, and flat as the inputs of a tower."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import keras
import tensorflow.compat.v1 as tf

from tpack.errors import WrongTypeError
from tpack.utils.validation import mismatch

OUTPUT = "keras_output"
"""The name of an output in a tower, before its number."""

SHARE = "share_of_step"
"""The input with the factor of a tower's cost, repeated for each row."""


class Parts(NamedTuple):
    """Values of a batch as Keras nests them.

    Attributes:
        x: the inputs.
        y: the targets; None without any.
        weight: the weights of the examples; None without any.
        share: the factor of the tower's cost in each row; None for 1.
    """

    x: Any
    y: Any
    weight: Any
    share: Any


class Layout:
    """The specs of a model's inputs, targets and weights, each one, a list or a dict of them, which may be nested.

    Args:
        inputs: the specs of the inputs.
        targets: those of the targets; an empty list for none.
        weights: those of the weights: one for all outputs, or by output; None for none.
        has_share: there is another input, `SHARE`, for towers with different numbers of examples.

    Raises:
        WrongTypeError: An entry is something else than a ``tf.TensorSpec`` or a tensor.
    """

    def __init__(self, inputs: Any, targets: Any, weights: Any = None, *, has_share: bool = False) -> None:
        self._nests = (inputs, targets, [] if weights is None else weights)
        self._flat = [flatten(nest) for nest in self._nests]
        names = ("input_signature", "target_signature", "weight_signature")
        for name, specs in zip(names, self._flat, strict=True):
            for spec in specs:
                if not isinstance(spec, tf.TensorSpec | tf.Tensor):
                    raise WrongTypeError(mismatch("KerasModel", name, spec, "tf.TensorSpec objects with names"))
        dtype = tf.as_dtype(keras.config.floatx())
        self._share = [tf.TensorSpec([None], dtype, SHARE)] if has_share else []

    @property
    def inputs(self) -> list[Any]:
        """The flat specs of the inputs."""
        return self._flat[0]

    @property
    def targets(self) -> list[Any]:
        """The flat specs of the targets."""
        return self._flat[1]

    @property
    def target_names(self) -> list[str]:
        """The names of the targets: keys of a dict, else of the specs."""
        targets = self._nests[1]
        return sorted(targets) if isinstance(targets, Mapping) else [spec.name for spec in self.targets]

    @property
    def specs(self) -> list[Any]:
        """The flat specs of all."""
        return [*self._flat[0], *self._flat[1], *self._flat[2], *self._share]

    @property
    def names(self) -> Parts:
        """The names of all, nested."""
        return self.unpack([spec.name for spec in self.specs])

    def unpack(self, flat: Sequence[Any]) -> Parts:
        """Return values in the order of `specs` as Keras nests them; a list of one as that one."""
        left = list(flat)
        parts = []
        for nest, specs in zip(self._nests, self._flat, strict=True):
            own, left = left[: len(specs)], left[len(specs) :]
            parts.append(_packed(nest, own))
        x, y, weight = parts
        return Parts(x, y, weight, left[0] if left else None)


def _packed(nest: Any, flat: Sequence[Any]) -> Any:
    if not flat:
        return None
    if len(flat) == 1 and not isinstance(nest, Mapping):
        return flat[0]
    return list(flat) if isinstance(nest, tuple) and len(nest) == len(flat) else keras.tree.pack_sequence_as(nest, flat)


def flatten(nest: Any) -> list[Any]:
    """Return the entries of nested lists, tuples and dicts, the latter in the order of their keys; of None none."""
    return [] if nest is None else list(keras.tree.flatten(nest))


def map_named(function: Callable[[str, Any], Any], nest: Any, name: str) -> Any:
    """Map a function of a name and an entry over nested lists, tuples and dicts.

    A name is the path of an entry: keys and, below a list, numbers; ``name`` alone for a single one.
    """
    if isinstance(nest, Mapping):
        return {key: map_named(function, value, _valid(str(key))) for key, value in nest.items()}
    if isinstance(nest, list | tuple):
        return [map_named(function, each, f"{name}_{k}" if k else name) for k, each in enumerate(nest)]
    return function(name, nest)


def _valid(name: str) -> str:
    return re.sub(r"^[^A-Za-z0-9]+|[^\w.-]", "_", name).lstrip("_") or "entry"


def zeros_of(values: Sequence[Any]) -> list[tf.Tensor]:
    """Return zeros like specs, tensors or arrays; sizes that are not known are 1."""
    shapes = [tf.TensorShape(value.shape).as_list() for value in values]
    return [tf.zeros([size or 1 for size in shape], v.dtype) for shape, v in zip(shapes, values, strict=True)]
