"""Tensors that a function makes in the graph, constants in place of data, and placeholders.

Constants show the speed of steps without an input; placeholders are fed by whatever runs the graph.
"""

from collections.abc import Callable, Sequence

import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError
from tpack.input_source.base import FeedfreeInput, InputSource
from tpack.utils.validation import check_arguments, check_count


@check_arguments
class TensorInput(FeedfreeInput):
    """Source of the tensors that a function returns, one for each entry of the signature, once in each tower.

    A function that is not callable, or a size, in data points of an epoch, that is not positive, is refused.
    """

    def __init__(self, get_tensor_fn: Callable[[], Sequence[tf.Tensor]], size: int | None = None) -> None:
        self.get_tensor_fn = get_tensor_fn
        self._fixed_size = None if size is None else check_count(self, "size", size)

    def _get_input_tensors(self) -> Sequence[tf.Tensor]:
        with self.cached_name_scope():
            # An assignment returns the variable.
            return [tf.convert_to_tensor(tensor) for tensor in self.get_tensor_fn()]

    def _size(self) -> int:
        return super()._size() if self._fixed_size is None else int(self._fixed_size)


@check_arguments
class DummyConstantInput(TensorInput):
    """Source of zeros (empty strings, False) of fixed shapes, on each tower's device; `setup` refuses others."""

    def __init__(self, shapes: Sequence[Sequence[int]]) -> None:
        super().__init__(self._make_zeros)
        self.shapes = [tuple(shape) for shape in shapes]

    def _setup(self, signature: Sequence[tf.TensorSpec]) -> None:
        if len(self.shapes) != len(signature):
            raise ConfigError(f"{self} has {len(self.shapes)} shapes, the signature has {len(signature)} entries")
        for shape, spec in zip(self.shapes, signature, strict=True):
            if not spec.shape.is_compatible_with(shape):
                raise ConfigError(f"{self} has the shape {shape} for '{spec.name}', the signature expects {spec.shape}")

    def _make_zeros(self) -> list[tf.Tensor]:
        specs = zip(self.shapes, self._require_setup(), strict=True)
        return [tf.zeros(shape, spec.dtype, name=spec.name) for shape, spec in specs]


@check_arguments
class PlaceholderInput(InputSource):
    """Source of the same placeholders for all towers, with the names of the signature."""

    def __init__(self) -> None:
        self._placeholders: list[tf.Tensor] = []

    def _setup(self, signature: Sequence[tf.TensorSpec]) -> None:
        self._placeholders = [build_or_reuse_placeholder(spec) for spec in signature]

    def _get_input_tensors(self) -> Sequence[tf.Tensor]:
        return self._placeholders


def build_or_reuse_placeholder(spec: tf.TensorSpec) -> tf.Tensor:
    """Return the placeholder of the current graph with the name of ``spec``, created if missing.

    Raises:
        ConfigError: The graph has another kind of operation, dtype or shape of that name.
    """
    try:
        found = tf.get_default_graph().get_tensor_by_name(f"{spec.name}:0")
    except KeyError:
        with tf.name_scope(""):
            return tf.placeholder(spec.dtype, spec.shape, name=spec.name)
    same_shape = found.shape.rank == spec.shape.rank and found.shape.is_compatible_with(spec.shape)
    if not found.op.type.startswith("Placeholder") or found.dtype != spec.dtype or not same_shape:
        raise ConfigError(
            f"the graph has a {found.op.type} '{spec.name}' of {found.dtype.name} {found.shape}: expected a "
            f"placeholder of {spec.dtype.name} {spec.shape}: give the input another name"
        )
    return found
