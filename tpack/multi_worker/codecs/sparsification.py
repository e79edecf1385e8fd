"""The codec that sends few numbers of many: `TopK`."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError
from tpack.multi_worker.codecs.base import Codec
from tpack.multi_worker.codecs.rank_state import RankState
from tpack.utils.validation import check_arguments, check_count, check_number, mismatch

WARM_UP_RATIOS = (0.25, 0.063, 0.015, 0.004)
"""The shares that are sent in the stages of a warm-up, as far as they are larger than the last one."""


@check_arguments
@dataclass(frozen=True)
class TopK(Codec):
    """The largest numbers of each chunk with their places; all workers send theirs to all others.

    With `MomentumCorrection` as memory it is Deep Gradient Compression.

    Args:
        ratio: the share of the numbers that is sent; one of each chunk at least.
        warm_up_steps: the steps in which the share decreases, in stages of equal length: 0.25, 0.063, 0.015, 0.004.
        chunk: the number of elements whose largest ones are searched together; the search is exact in it.

    Raises:
        ConfigError: ``ratio`` is not greater than 0 and at most 1, or a number is out of range.

    Source:
        Lin et al., Deep Gradient Compression, 2018.
    """

    ratio: float
    warm_up_steps: int = 0
    chunk: int = 2**16
    name = "top_k"
    encodes_sums = False

    def __post_init__(self) -> None:
        check_number(self, "ratio", self.ratio, 0, 1, is_low_allowed=False)
        check_count(self, "warm_up_steps", self.warm_up_steps, 0)
        check_count(self, "chunk", self.chunk)
        if self.warm_up_steps and not self._stages:
            expected = f"a ratio of less than {WARM_UP_RATIOS[0]} with warm_up_steps"
            raise ConfigError(mismatch(self, "ratio", self.ratio, expected, "warm_up_steps=0"))

    @property
    def is_lossless(self) -> bool:  # type: ignore[override]
        """Whether all numbers are sent."""
        return self.ratio == 1

    @property
    def _stages(self) -> list[float]:
        return [ratio for ratio in WARM_UP_RATIOS if ratio > self.ratio]

    def encode(self, values: tf.Tensor, state: RankState) -> Sequence[tf.Tensor]:
        """See `Codec.encode`."""
        found, places = [], []
        count = int(values.shape.num_elements())
        for start in range(0, count, self.chunk):
            part = values if count <= self.chunk else values[start : start + self.chunk]
            chosen = tf.math.top_k(tf.abs(part), self._number(int(part.shape[0]), state), sorted=False).indices
            found.append(tf.gather(part, chosen))
            places.append(chosen + start)
        open_shape = tf.TensorShape([self._sent(count) if not self.warm_up_steps else None])
        return [tf.ensure_shape(tf.concat(each, axis=0), open_shape) for each in (found, places)]

    def decode(self, parts: Sequence[tf.Tensor], count: int, dtype: tf.DType) -> tf.Tensor:
        """See `Codec.decode`."""
        values, places = parts
        return tf.scatter_nd(places[:, None], tf.cast(values, dtype), [count])

    def size_bytes(self, shape: Sequence[int], dtype: tf.DType) -> int:
        """Return the bytes for one other worker after the warm-up."""
        return self._sent(math.prod(shape)) * (int(dtype.size) + int(tf.int32.size))

    def _sent(self, count: int) -> int:
        whole, rest = divmod(count, self.chunk)
        return whole * _share(self.ratio, self.chunk) + (_share(self.ratio, rest) if rest else 0)

    def _number(self, count: int, state: RankState) -> int | tf.Tensor:
        """Return how many of a chunk are sent in this step."""
        if not self.warm_up_steps:
            return _share(self.ratio, count)
        stages = [*self._stages, self.ratio]
        numbers = tf.constant([_share(ratio, count) for ratio in stages], tf.int32)
        stage = tf.minimum(state.step * len(self._stages) // self.warm_up_steps, len(self._stages))
        return tf.gather(numbers, stage)


def _share(ratio: float, count: int) -> int:
    return max(1, round(ratio * count))
