"""The codec that sends two thin factors of each matrix: `PowerSGD`."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.errors import ReductionError
from tpack.multi_worker.codecs.base import Codec
from tpack.multi_worker.codecs.rank_state import RankState
from tpack.utils.validation import check_arguments, check_bool, check_count, check_number


@check_arguments
@dataclass(frozen=True)
class PowerSGD(Codec):
    """Two factors of low rank for each matrix, both of which are all-reduced; the product comes out in all workers.

    A gradient is a matrix of its last dimension by all others. One step of subspace iteration improves the factors of
    the step before. The first steps of a training are better sent as they are: see ``start_step`` of `Exchange`.
    Workers multiply for themselves, so their processors should be of one kind.

    Args:
        rank: that of the factors, as far as a matrix has as much.
        min_rate: a matrix whose factors are not smaller by this factor travels as it is.
        warm_start: begin with the factor of the last step, in place of random numbers.

    Raises:
        ConfigError: A number is out of range.

    Source:
        Vogels et al., PowerSGD: Practical Low-Rank Gradient Compression, 2019.
    """

    rank: int = 1
    min_rate: float = 2.0
    warm_start: bool = True
    name = "power_sgd"

    def __post_init__(self) -> None:
        check_count(self, "rank", self.rank)
        check_number(self, "min_rate", self.min_rate, 0)
        check_bool(self, "warm_start", self.warm_start)

    def takes(self, shape: Sequence[int]) -> bool:
        """See `Codec.takes`."""
        return super().takes(shape) and self._num_factors(shape) * self.min_rate <= math.prod(shape)

    def size_bytes(self, shape: Sequence[int], dtype: tf.DType) -> int:
        """Return the bytes of both factors, which take the routes of gradients that are not encoded."""
        return self._num_factors(shape) * int(dtype.size)

    def _num_factors(self, shape: Sequence[int]) -> int:
        rows, columns = _matrix(shape)
        return (rows + columns) * min(self.rank, rows, columns)

    def encode(self, values: tf.Tensor, state: RankState) -> Sequence[tf.Tensor]:
        """Raise a ReductionError: `reduce` does it."""
        raise ReductionError("PowerSGD.encode was called: expected reduce, since its factors are all-reduced")

    def decode(self, parts: Sequence[tf.Tensor], count: int, dtype: tf.DType) -> tf.Tensor:
        """Raise a ReductionError: `reduce` does it."""
        raise ReductionError("PowerSGD.decode was called: expected reduce, since its factors are all-reduced")

    def reduce(self, link: Any, values: Sequence[tf.Tensor]) -> list[tf.Tensor]:
        """See `Codec.reduce`."""
        own = [link.compensate(tf.reshape(value, _matrix(value.shape.as_list())), n) for n, value in enumerate(values)]
        states = [link.state.of_part(n) for n in range(len(values))]
        factors = [self._first(each.values, state) for each, state in zip(own, states, strict=True)]
        lefts = link.all_reduce("left", [tf.matmul(each.values, q) for each, (q, _) in zip(own, factors, strict=True)])
        bases = [tf.linalg.qr(left).q for left in lefts]
        products = [tf.matmul(each.values, base, transpose_a=True) for each, base in zip(own, bases, strict=True)]
        rights = link.all_reduce("right", products)
        results = []
        for each, base, right, (_, variable), state in zip(own, bases, rights, factors, states, strict=True):
            product = tf.matmul(base, right, transpose_b=True)
            # The worker's own part of the product: all of them sum up to the result.
            each.sent(product / state.num_summands)
            if variable is not None:
                state.update(variable, right)
            results.append(each.received(product))
        return [tf.reshape(result, value.shape) for result, value in zip(results, values, strict=True)]

    def _first(self, matrix: tf.Tensor, state: RankState) -> tuple[tf.Tensor, tf.Variable | None]:
        """Return the factor of the step before, or a random one, the same in all workers; and its variable, if any."""
        rows, columns = matrix.shape.as_list()
        shape = [columns, min(self.rank, rows, columns)]

        def drawn(shape: Sequence[int], dtype: tf.DType) -> tf.Tensor:
            return tf.random.stateless_normal(shape, [state.common_seed, 0], dtype=dtype)

        if self.warm_start:
            variable = state.variable("factor", shape, matrix.dtype, drawn)
            return variable.read_value(), variable
        seed = tf.stack([tf.constant(state.common_seed, tf.int64), state.step])
        return tf.random.stateless_normal(shape, seed, dtype=matrix.dtype), None


def _matrix(shape: Sequence[int]) -> tuple[int, int]:
    """Return the rows and columns of a gradient as a matrix."""
    return math.prod(shape[:-1]), shape[-1]
