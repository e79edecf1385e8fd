"""The contract of codecs: encodings of gradients for the network between workers.

An exchange has three parts, as in GRACE: a `Codec` encodes and decodes, a `Memory` keeps what an encoding loses, and a
communicator, which is tpack's, moves the bytes (`tpack.multi_worker.codecs.communicator`). A codec of one's own defines
`encode`, `decode` and `size_bytes`, and nothing of workers.

Source:
    Xu et al., GRACE: A Compressed Communication Framework for Distributed Machine Learning, 2021.
"""

import abc
import math
from collections.abc import Sequence
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError
from tpack.multi_worker.codecs.rank_state import RankState
from tpack.utils.validation import check_arguments, mismatch

MIN_ELEMENTS = 1024
"""Smaller gradients travel as they are: a message costs about as much, whatever its size."""


class Codec(abc.ABC):
    """An encoding of gradients for the network between workers.

    Gradients of one dtype are joined to vectors, of which `encode` makes tensors and `decode` a vector again. All
    workers decode the same bytes, so they have equal bits. A codec holds settings and no state of a graph; state from
    step to step is a variable of the `RankState`.

    Example:
        ::

            class Halves(Codec):
                name = "halves"

                def encode(self, values, state):
                    return [tf.cast(values, tf.float16)]

                def decode(self, parts, count, dtype):
                    return tf.cast(parts[0], dtype)

                def size_bytes(self, shape, dtype):
                    return 2 * math.prod(shape)
    """

    name: str
    """The codec, for logs and names of operations."""

    is_lossless: bool = False
    """Whether `decode` returns exactly what `encode` got."""

    encodes_sums: bool = True
    """Whether the sum of large gradients may be encoded once more, for the way back from the worker that adds them.

    If not, all workers send all of their encoded gradients to all others.
    """

    def takes(self, shape: Sequence[int]) -> bool:
        """Return whether gradients of a shape travel encoded; by default matrices of 1024 elements and more."""
        return len(shape) >= 2 and math.prod(shape) >= MIN_ELEMENTS

    @abc.abstractmethod
    def encode(self, values: tf.Tensor, state: RankState) -> Sequence[tf.Tensor]:
        """Return the tensors that are sent for a vector, on the current device.

        Args:
            values: float32 or float64.
            state: makes variables, and has the current step.

        Returns:
            Tensors of known dtypes, in which a 1 or 0 has its own byte at least. Their shapes are known, but for a
            first dimension, which may depend on the step and is then the same in all that have it.

        Shapes:
            values: [n], n known.
        """

    @abc.abstractmethod
    def decode(self, parts: Sequence[tf.Tensor], count: int, dtype: tf.DType) -> tf.Tensor:
        """Return the vector of ``count`` elements that the tensors of `encode` stand for, in a dtype."""

    @abc.abstractmethod
    def size_bytes(self, shape: Sequence[int], dtype: tf.DType) -> int:
        """Return the bytes that a worker sends to one other for values of a shape and dtype."""

    def conclude(self, total: tf.Tensor) -> tf.Tensor:
        """Return what all workers get in place of the sum or mean of what they decoded, by default that itself."""
        return total

    def reduce(self, link: Any, values: Sequence[tf.Tensor]) -> list[tf.Tensor]:
        """Reduce gradients of one dtype over the workers, on the current device.

        A codec with another course than to encode, send and decode overrides it.

        Args:
            link: the `Communicator`, with the state of this worker.
            values: float32 or float64.

        Shapes:
            N tensors of known shapes to as many of the same ones.
        """
        return link.reduce_encoded(values)

    def __repr__(self) -> str:
        settings = ", ".join(f"{name}={value!r}" for name, value in vars(self).items())
        return f"{type(self).__name__}({settings})"


@check_arguments
class Cast(Codec):
    """Rounding to another floating-point type, such as ``"float16"``.

    Without a memory it is the same as ``wire_dtype`` of `Exchange`, which rounds all gradients, small ones too.

    Args:
        dtype: ``"float16"``, ``"bfloat16"``, ``"float32"`` or ``"float64"``.

    Raises:
        ConfigError: Another dtype.
    """

    def __init__(self, dtype: str | tf.DType) -> None:
        name = getattr(dtype, "name", dtype)
        if name not in ("float16", "bfloat16", "float32", "float64"):
            raise ConfigError(mismatch(self, "dtype", dtype, "float16, bfloat16, float32 or float64"))
        self.name = name

    def encode(self, values: tf.Tensor, state: RankState) -> Sequence[tf.Tensor]:
        """See `Codec.encode`."""
        return [tf.cast(values, tf.as_dtype(self.name))]

    def decode(self, parts: Sequence[tf.Tensor], count: int, dtype: tf.DType) -> tf.Tensor:
        """See `Codec.decode`."""
        return tf.cast(parts[0], dtype)

    def size_bytes(self, shape: Sequence[int], dtype: tf.DType) -> int:
        """See `Codec.size_bytes`."""
        return math.prod(shape) * int(tf.as_dtype(self.name).size)
