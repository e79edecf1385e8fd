"""Codecs that keep every number in fewer bits: `Int8` and `OneBit`, each with its own range for chunks of a vector."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError
from tpack.multi_worker.codecs.base import Codec
from tpack.multi_worker.codecs.rank_state import RankState
from tpack.utils.validation import check_arguments, check_choice, check_count, mismatch

_LEVELS = 255
_BLOCK = 2**18
"""The elements that are encoded at once: their intermediate values stay in the processor's cache."""
_PLACES = (2.0 ** np.arange(7, -1, -1, dtype=np.float32))[:, None]  # 8 x 1
_BITS_OF_BYTE = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1)  # 256 x 8


@check_arguments
@dataclass(frozen=True)
class Int8(Codec):
    """Eight bits for a number: its place between the least and the largest of its chunk.

    Args:
        chunk: the number of elements that share a range.
        rounding: ``"nearest"``, or ``"stochastic"``: up or down by chance, so that the mean over draws is the number.

    Raises:
        ConfigError: ``chunk`` is less than 1, or another rounding.

    Source:
        Alistarh et al., QSGD, 2017; ByteGrad of Bagua, 2021.
    """

    chunk: int = 2048
    rounding: Literal["nearest", "stochastic"] = "nearest"
    name = "int8"

    def __post_init__(self) -> None:
        check_count(self, "chunk", self.chunk)
        check_choice(self, "rounding", self.rounding, ("nearest", "stochastic"))

    def encode(self, values: tf.Tensor, state: RankState) -> Sequence[tf.Tensor]:
        """See `Codec.encode`."""
        count = int(values.shape.num_elements())
        chance = None
        if self.rounding == "stochastic":
            seed = tf.stack([tf.constant(state.seed, tf.int64), state.step])
            chance = tf.random.stateless_uniform([count], seed, dtype=values.dtype)
        codes, lows, steps = [], [], []
        for first, rows in _chunks(values, self.chunk):
            low, high = tf.reduce_min(rows, 1, keepdims=True), tf.reduce_max(rows, 1, keepdims=True)
            step = (high - low) / _LEVELS
            divisor = tf.where(step > 0, step, tf.ones_like(step))
            place = (rows - low) / divisor
            if chance is None:
                place += 0.5
            else:
                # A place of 255 and a bit, with almost 1 added to it, is 256.
                start = first * self.chunk
                place = tf.minimum(place + tf.reshape(chance[start : start + _size(rows)], rows.shape), float(_LEVELS))
            codes.append(tf.reshape(tf.cast(place, tf.uint8), [-1]))
            lows.append(tf.reshape(low, [-1]))
            steps.append(tf.reshape(step, [-1]))
        return [_joined(codes), _joined(lows), _joined(steps)]

    def decode(self, parts: Sequence[tf.Tensor], count: int, dtype: tf.DType) -> tf.Tensor:
        """See `Codec.decode`."""
        codes, lows, steps = parts
        decoded = []
        for first, rows in _chunks(codes, self.chunk):
            those = slice(first, first + int(rows.shape[0]))
            decoded.append(tf.reshape(tf.cast(rows, dtype) * steps[those, None] + lows[those, None], [-1]))
        return _joined(decoded)

    def size_bytes(self, shape: Sequence[int], dtype: tf.DType) -> int:
        """See `Codec.size_bytes`."""
        count = math.prod(shape)
        return count + 2 * math.ceil(count / self.chunk) * int(dtype.size)


@check_arguments
@dataclass(frozen=True)
class OneBit(Codec):
    """One bit for a number: its sign, with the mean size of its chunk.

    It needs `ErrorFeedback`: without, training may not converge.

    Args:
        chunk: the number of elements that share a size, a multiple of 8.

    Raises:
        ConfigError: ``chunk`` is no positive multiple of 8.

    Source:
        Seide et al., 1-Bit Stochastic Gradient Descent, 2014.
    """

    chunk: int = 2048
    name = "one_bit"

    def __post_init__(self) -> None:
        if check_count(self, "chunk", self.chunk) % 8:
            raise ConfigError(mismatch(self, "chunk", self.chunk, "a multiple of 8"))

    def encode(self, values: tf.Tensor, state: RankState) -> Sequence[tf.Tensor]:
        """See `Codec.encode`."""
        bits, sizes = [], []
        for _, rows in _chunks(values, self.chunk):
            sizes.append(tf.reduce_mean(tf.abs(rows), 1))
            positive = tf.pad(tf.cast(rows > 0, tf.float32), [[0, 0], [0, -int(rows.shape[1]) % 8]])
            # A product adds up the eight bits of a byte faster than a sum over a dimension of eight.
            packed = tf.cast(tf.matmul(tf.reshape(positive, [-1, 8]), tf.constant(_PLACES)), tf.uint8)
            bits.append(tf.reshape(packed, [-1]))
        return [_joined(bits), _joined(sizes)]

    def decode(self, parts: Sequence[tf.Tensor], count: int, dtype: tf.DType) -> tf.Tensor:
        """See `Codec.decode`."""
        bits, sizes = parts
        signs = tf.gather(tf.constant(_BITS_OF_BYTE * 2.0 - 1.0, dtype), tf.cast(bits, tf.int32))
        decoded = []
        for first, rows in _chunks(tf.reshape(signs, [-1])[:count], self.chunk):
            those = slice(first, first + int(rows.shape[0]))
            decoded.append(tf.reshape(rows * sizes[those, None], [-1]))
        return _joined(decoded)

    def size_bytes(self, shape: Sequence[int], dtype: tf.DType) -> int:
        """See `Codec.size_bytes`."""
        count = math.prod(shape)
        return math.ceil(count / 8) + math.ceil(count / self.chunk) * int(dtype.size)


def _chunks(vector: tf.Tensor, size: int) -> list[tuple[int, tf.Tensor]]:
    """Return the chunks of a vector as rows, some at a time, and the rest as one, each with its first row's number."""
    count = int(vector.shape.num_elements())
    num_whole, at_once = count // size, max(1, _BLOCK // size)
    found = []
    for first in range(0, num_whole, at_once):
        last = min(first + at_once, num_whole)
        piece = vector if (first, last * size) == (0, count) else vector[first * size : last * size]
        found.append((first, tf.reshape(piece, [-1, size])))
    rest = count - num_whole * size
    return [*found, (num_whole, tf.reshape(vector[-rest:], [1, -1]))] if rest else found


def _size(rows: tf.Tensor) -> int:
    return int(rows.shape.num_elements())


def _joined(pieces: Sequence[tf.Tensor]) -> tf.Tensor:
    return pieces[0] if len(pieces) == 1 else tf.concat(list(pieces), axis=0)
