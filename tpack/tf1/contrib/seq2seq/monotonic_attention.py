"""Monotonic attention: a decoder that looks at a place never looks at one before it again.

Source:
    Raffel, Luong, Liu, Weiss and Eck, "Online and linear-time attention by enforcing monotonic alignments" (2017).
"""

from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError
from tpack.tf1.contrib.seq2seq.attention import _BaseAttentionMechanism, bahdanau_score, luong_score
from tpack.tf1.layers.core import Dense

__all__ = ["BahdanauMonotonicAttention", "LuongMonotonicAttention", "monotonic_attention", "safe_cumprod"]

_MODES = ("recursive", "parallel", "hard")


def safe_cumprod(x: Any, *args: Any, **kwargs: Any) -> Any:
    """Return cumulative products of numbers from 0 to 1, by sums of logarithms, whose gradient is no division by 0.

    Args:
        x: the numbers.
        *args: what else ``tf.cumsum`` takes.
        **kwargs: what else ``tf.cumsum`` takes.
    """
    with tf.name_scope(None, "SafeCumprod", [x]):
        x = tf.convert_to_tensor(x, name="x")
        tiny = np.finfo(x.dtype.as_numpy_dtype).tiny
        return tf.exp(tf.cumsum(tf.log(tf.clip_by_value(x, tiny, 1)), *args, **kwargs))


def monotonic_attention(p_choose_i: Any, previous_attention: Any, mode: str) -> Any:
    """Return how likely it is that each place is looked at, if one goes on from where one looked before.

    Args:
        p_choose_i: how likely it is that one stops at a place, [B, S].
        previous_attention: how likely it was that each place was looked at, [B, S].
        mode: ``"recursive"``, exact and slow; ``"parallel"``, which is wrong where the probabilities are nearly 1; or
            ``"hard"``, where both are 0 or 1.

    Shapes:
        [B, S].

    Raises:
        ConfigError: There is no such mode.
    """
    p, before = tf.convert_to_tensor(p_choose_i), tf.convert_to_tensor(previous_attention)
    if mode == "recursive":
        return _recursive(p, before)
    if mode == "parallel":
        passed = safe_cumprod(1 - p, axis=1, exclusive=True)
        return p * passed * tf.cumsum(before / tf.clip_by_value(passed, 1e-10, 1.0), axis=1)
    if mode == "hard":
        # Where one may stop: not before the place where one is; and the first such place.
        stops = p * tf.cumsum(before, axis=1)
        return stops * tf.cumprod(1 - stops, axis=1, exclusive=True)
    raise ConfigError(f"monotonic_attention got mode={mode!r}: mode must be one of {', '.join(map(repr, _MODES))}")


def _recursive(p: Any, before: Any) -> Any:
    """Go from place to place with the probability that one has come there."""
    passes = tf.concat([tf.ones_like(p[:, :1]), 1 - p[:, :-1]], axis=1)

    def go_on(arrived: Any, place: Any) -> Any:
        passed, here = place
        return passed * arrived + here

    arrived = tf.scan(go_on, (tf.transpose(passes), tf.transpose(before)), tf.zeros_like(p[:, 0]))
    attention = p * tf.transpose(arrived)
    attention.set_shape(p.shape)
    return attention


class _BaseMonotonicAttentionMechanism(_BaseAttentionMechanism):
    """A mechanism whose alignments go on from those before; at first it looks at the first place."""

    def initial_alignments(self, batch_size: Any, dtype: Any) -> Any:
        """Return the alignments before the first step: the first place, [B, S]."""
        first = tf.zeros(tf.reshape(batch_size, [1]), tf.int32)
        alignments = tf.one_hot(first, self._alignments_size, dtype=dtype)
        alignments.set_shape(super().initial_alignments(batch_size, dtype).shape)
        return alignments


class BahdanauMonotonicAttention(_BaseMonotonicAttentionMechanism):
    """Monotonic attention with Bahdanau's score.

    Args:
        num_units: N, the size of keys and queries.
        memory: the memory, [B, S, ...].
        memory_sequence_length: the lengths, [B]; None is S.
        normalize: whether ``v`` is a direction and a learned length, and there is a bias.
        score_mask_value: the score behind the end; None is minus infinity.
        sigmoid_noise: the deviation of noise on scores, which in training makes probabilities go to 0 or 1.
        sigmoid_noise_seed: of the noise.
        score_bias_init: what the learned number that is added to scores begins with.
        mode: as in `monotonic_attention`.
        dtype: of the variables; None is float32.
        name: of the operations.

    Creates:
        as `BahdanauAttention`, in ``bahdanau_monotonic_attention``, and ``attention_score_bias`` there.
    """

    def __init__(
        self,
        num_units: int,
        memory: Any,
        memory_sequence_length: Any = None,
        normalize: bool = False,
        score_mask_value: Any = None,
        sigmoid_noise: float = 0.0,
        sigmoid_noise_seed: Any = None,
        score_bias_init: float = 0.0,
        mode: str = "parallel",
        dtype: Any = None,
        name: str = "BahdanauMonotonicAttention",
    ) -> None:
        dtype = tf.float32 if dtype is None else dtype
        super().__init__(
            query_layer=Dense(num_units, name="query_layer", use_bias=False, dtype=dtype),
            memory_layer=Dense(num_units, name="memory_layer", use_bias=False, dtype=dtype),
            memory=memory,
            probability_fn=_Stopping(sigmoid_noise, mode, sigmoid_noise_seed),
            memory_sequence_length=memory_sequence_length,
            score_mask_value=score_mask_value,
            name=name,
        )
        self._num_units = num_units
        self._normalize = normalize
        self._name = name
        self._score_bias_init = score_bias_init

    def __call__(self, query: Any, state: Any) -> tuple[Any, Any]:
        """Return the alignments, and the same as the next state.

        Args:
            query: [B, ...].
            state: the alignments of the step before, [B, S].
        """
        with tf.variable_scope(None, "bahdanau_monotonic_attention", [query]):
            score = bahdanau_score(self, query)
            alignments = self._probability_fn(score + _score_bias(self, score.dtype), state)
        return alignments, alignments


class LuongMonotonicAttention(_BaseMonotonicAttentionMechanism):
    """Monotonic attention with Luong's score.

    Args:
        num_units: N, the size of keys, and that which queries have.
        memory: the memory, [B, S, ...].
        memory_sequence_length: the lengths, [B]; None is S.
        scale: whether scores are multiplied by a learned number.
        score_mask_value: the score behind the end; None is minus infinity.
        sigmoid_noise: the deviation of noise on scores, which in training makes probabilities go to 0 or 1.
        sigmoid_noise_seed: of the noise.
        score_bias_init: what the learned number that is added to scores begins with.
        mode: as in `monotonic_attention`.
        dtype: of the variables; None is float32.
        name: of the operations.

    Creates:
        as `LuongAttention`, in ``luong_monotonic_attention``, and ``attention_score_bias`` there.
    """

    def __init__(
        self,
        num_units: int,
        memory: Any,
        memory_sequence_length: Any = None,
        scale: bool = False,
        score_mask_value: Any = None,
        sigmoid_noise: float = 0.0,
        sigmoid_noise_seed: Any = None,
        score_bias_init: float = 0.0,
        mode: str = "parallel",
        dtype: Any = None,
        name: str = "LuongMonotonicAttention",
    ) -> None:
        dtype = tf.float32 if dtype is None else dtype
        super().__init__(
            query_layer=None,
            memory_layer=Dense(num_units, name="memory_layer", use_bias=False, dtype=dtype),
            memory=memory,
            probability_fn=_Stopping(sigmoid_noise, mode, sigmoid_noise_seed),
            memory_sequence_length=memory_sequence_length,
            score_mask_value=score_mask_value,
            name=name,
        )
        self._num_units = num_units
        self._scale = scale
        self._name = name
        self._score_bias_init = score_bias_init

    def __call__(self, query: Any, state: Any) -> tuple[Any, Any]:
        """Return the alignments, and the same as the next state.

        Args:
            query: [B, N].
            state: the alignments of the step before, [B, S].
        """
        with tf.variable_scope(None, "luong_monotonic_attention", [query]):
            score = luong_score(self, query)
            alignments = self._probability_fn(score + _score_bias(self, score.dtype), state)
        return alignments, alignments


class _Stopping:
    """Makes alignments of scores and of the alignments before."""

    def __init__(self, noise: float, mode: str, seed: Any) -> None:
        if mode not in _MODES:
            raise ConfigError(f"got mode={mode!r}: mode must be one of {', '.join(map(repr, _MODES))}")
        self._noise = noise
        self._mode = mode
        self._seed = seed

    def __call__(self, score: Any, previous: Any) -> Any:
        if self._noise > 0:
            score += self._noise * tf.random_normal(tf.shape(score), dtype=score.dtype, seed=self._seed)
        stops = tf.cast(score > 0, score.dtype) if self._mode == "hard" else tf.sigmoid(score)
        return monotonic_attention(stops, previous, self._mode)


def _score_bias(mechanism: Any, dtype: Any) -> Any:
    initializer = tf.constant_initializer(mechanism._score_bias_init)
    return tf.get_variable("attention_score_bias", [], dtype=dtype, initializer=initializer)
