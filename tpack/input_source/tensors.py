"""Tensors that a function makes in the graph."""

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError
from tpack.input_source.base import FeedfreeInput


class TensorInput(FeedfreeInput):
    """Use whatever tensors a function makes; it is called once in each tower.

    Args:
        get_tensor_fn: returns one tensor for each entry of the signature.
        size: the number of data points in an epoch, if there is such a number.

    Raises:
        ConfigError: The function is not callable, or the size is not positive.
    """

    def __init__(self, get_tensor_fn: Callable[[], Sequence[Any]], size: int | None = None) -> None:
        if not callable(get_tensor_fn):
            raise ConfigError(f"TensorInput takes a function that returns tensors, got {get_tensor_fn!r}")
        if size is not None and size <= 0:
            raise ConfigError(f"the size of a TensorInput must be positive, got {size}")
        self.get_tensor_fn = get_tensor_fn
        self._fixed_size = size

    def _get_input_tensors(self) -> Sequence[Any]:
        with self.cached_name_scope():
            # What assigns to a variable returns the variable.
            return [tf.convert_to_tensor(tensor) for tensor in self.get_tensor_fn()]

    def _size(self) -> int:
        return super()._size() if self._fixed_size is None else int(self._fixed_size)
