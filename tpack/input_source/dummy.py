"""Constants in place of data, to see how fast steps are when the input costs nothing."""

from collections.abc import Sequence
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError
from tpack.input_source.tensors import TensorInput


class DummyConstantInput(TensorInput):
    """Give each tower zeros (empty strings, False) of fixed shapes, on its own device.

    Args:
        shapes: one for each entry of the signature.

    Raises:
        ConfigError: In `setup`, the number of shapes is not that of the signature, or one does not fit.
    """

    def __init__(self, shapes: Sequence[Sequence[int]]) -> None:
        super().__init__(self._make_zeros)
        self.shapes = [tuple(shape) for shape in shapes]

    def _setup(self, signature: Sequence[Any]) -> None:
        if len(self.shapes) != len(signature):
            raise ConfigError(f"{self} has {len(self.shapes)} shapes, the signature has {len(signature)} entries")
        for shape, spec in zip(self.shapes, signature, strict=True):
            if not spec.shape.is_compatible_with(shape):
                raise ConfigError(f"{self} has the shape {shape} for '{spec.name}', the signature wants {spec.shape}")

    def _make_zeros(self) -> list[Any]:
        specs = zip(self.shapes, self._require_setup(), strict=True)
        return [tf.zeros(shape, spec.dtype, name=spec.name) for shape, spec in specs]
