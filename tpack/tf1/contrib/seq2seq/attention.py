"""Attention over the places of a memory, by Bahdanau's sum or Luong's product; also monotonic.

A mechanism holds the memory, an encoder's output for each place, masked behind the ends, and keys that a layer makes of
it; a query, the output of a cell, is compared with them. B sequences, places up to S, N units. Monotonic attention
never goes back to an earlier place.

Source:
    Raffel, Luong, Liu, Weiss and Eck, "Online and linear-time attention by enforcing monotonic alignments" (2017).
"""

import math
from collections.abc import Callable
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np
import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError
from tpack.tf1.layers.core import Dense
from tpack.tf1.signatures import like


class AttentionMechanism:
    """Base of the attention mechanisms of `AttentionWrapper`."""

    @property
    def alignments_size(self) -> Any:
        """The number of places."""
        raise NotImplementedError(f"{type(self).__name__} has no alignments_size")

    @property
    def state_size(self) -> Any:
        """The size of what a mechanism carries from step to step."""
        raise NotImplementedError(f"{type(self).__name__} has no state_size")


class _BaseAttentionMechanism(AttentionMechanism):
    """A mechanism over a memory, to derive from: its ``__call__(query, state)`` returns alignments and the next state.

    Args:
        query_layer: made of a query before it is compared; None compares it as it is.
        memory: the memory, [B, S, ...].
        probability_fn: makes alignments of (score, state).
        memory_sequence_length: the lengths, [B]; None is S.
        memory_layer: makes keys of the memory; None is the memory itself.
        check_inner_dims_defined: whether the sizes of the memory behind S must be known.
        score_mask_value: the score behind the end.
        custom_key_value_fn: makes (keys, values) of both.

    Raises:
        ConfigError: A size of the memory is not known.
    """

    _scope = "attention"

    def __init__(
        self,
        query_layer: Any,
        memory: Any,
        probability_fn: Callable[[Any, Any], Any],
        memory_sequence_length: Any = None,
        memory_layer: Any = None,
        check_inner_dims_defined: bool = True,
        score_mask_value: Any = None,
        custom_key_value_fn: Callable[..., Any] | None = None,
        name: str | None = None,
    ) -> None:
        self._query_layer = query_layer
        self._memory_layer = memory_layer
        self.dtype = memory_layer.dtype if memory_layer is not None else None
        with tf.name_scope(name, "BaseAttentionMechanismInit", tf.nest.flatten(memory)):
            lengths = None if memory_sequence_length is None else _checked_lengths(memory_sequence_length)
            self._values = _masked_memory(memory, lengths, check_inner_dims_defined)
            self._keys = self._values if memory_layer is None else memory_layer(self._values)
            if custom_key_value_fn is not None:
                self._keys, self._values = custom_key_value_fn(self._keys, self._values)
            self._batch_size = _size_of(self._keys, 0)
            self._alignments_size = _size_of(self._keys, 1)
            mask_value = score_mask_value
            if mask_value is None:
                mask_value = tf.as_dtype(self._keys.dtype).as_numpy_dtype(-math.inf)
            self._probability_fn = lambda score, state: probability_fn(_masked_score(score, lengths, mask_value), state)

    memory_layer = property(attrgetter("_memory_layer"), doc="The layer that makes the keys.")
    query_layer = property(attrgetter("_query_layer"), doc="The layer that transforms queries.")
    values = property(attrgetter("_values"), doc="The masked memory, [B, S, ...].")
    keys = property(attrgetter("_keys"), doc="The keys that queries are compared with, [B, S, N].")
    batch_size = property(attrgetter("_batch_size"), doc="The number of sequences, an integer if it is known.")
    alignments_size = property(attrgetter("_alignments_size"), doc="The number of places, an integer if it is known.")
    state_size = property(attrgetter("_alignments_size"), doc="The state is the alignments of the step before.")

    def initial_alignments(self, batch_size: Any, dtype: Any) -> Any:
        """Return the alignments before the first step: zeros, [B, S]."""
        zeros = tf.zeros(tf.stack([batch_size, self._alignments_size]), dtype)
        zeros.set_shape([_static(batch_size), _static(self._alignments_size)])
        return zeros

    def initial_state(self, batch_size: Any, dtype: Any) -> Any:
        """Return the state before the first step."""
        return self.initial_alignments(batch_size, dtype)

    def __call__(self, query: Any, state: Any) -> tuple[Any, Any]:
        """Return the alignments for a query [B, ...] after those of the step before, [B, S]; and the next state."""
        with tf.variable_scope(None, self._scope, [query]):
            alignments = self._probability_fn(self._score(query), state)
        return alignments, alignments

    def _score(self, query: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} has no _score")


class BahdanauAttention(_BaseAttentionMechanism):
    """Score a place by ``sum(v * tanh(key + query))``.

    Args:
        num_units: N, the size of keys and queries.
        memory: the memory, [B, S, ...].
        memory_sequence_length: the lengths, [B]; None is S.
        normalize: whether ``v`` is a direction and a learned length, and there is a bias.
        probability_fn: makes alignments of a score; None is softmax.
        score_mask_value: the score behind the end; None is minus infinity.
        dtype: of the variables; None is float32.
        custom_key_value_fn: makes (keys, values) of both.

    Creates:
        ``memory_layer/kernel`` in the current scope; in that of the call ``bahdanau_attention/query_layer/kernel`` and
        ``attention_v``, with ``normalize`` also ``attention_g`` and ``attention_b``.
    """

    _scope = "bahdanau_attention"

    def __init__(
        self,
        num_units: int,
        memory: Any,
        memory_sequence_length: Any = None,
        normalize: bool = False,
        probability_fn: Callable[[Any], Any] | None = None,
        score_mask_value: Any = None,
        dtype: Any = None,
        custom_key_value_fn: Callable[..., Any] | None = None,
        name: str = "BahdanauAttention",
    ) -> None:
        dtype = tf.float32 if dtype is None else dtype
        super().__init__(
            query_layer=Dense(num_units, name="query_layer", use_bias=False, dtype=dtype),
            memory_layer=Dense(num_units, name="memory_layer", use_bias=False, dtype=dtype),
            memory=memory,
            probability_fn=_of_score(probability_fn),
            memory_sequence_length=memory_sequence_length,
            score_mask_value=score_mask_value,
            custom_key_value_fn=custom_key_value_fn,
            name=name,
        )
        self._num_units = num_units
        self._normalize = normalize

    def _score(self, query: Any) -> Any:
        """Return the score of each place, [B, S], for a query [B, ...].

        Creates:
            ``attention_v``, and for one that normalizes ``attention_g`` and ``attention_b``, in the current scope.
        """
        processed = query if self.query_layer is None else self.query_layer(query)
        units = self.keys.shape.as_list()[2] or self._num_units
        sums = self.keys + tf.expand_dims(processed, 1)
        v = tf.get_variable("attention_v", [units], dtype=processed.dtype)
        if not self._normalize:
            return tf.reduce_sum(v * tf.tanh(sums), [2])
        length = tf.constant_initializer(math.sqrt(1.0 / units))
        g = tf.get_variable("attention_g", [], dtype=processed.dtype, initializer=length)
        b = tf.get_variable("attention_b", [units], dtype=processed.dtype, initializer=tf.zeros_initializer())
        direction = g * v * tf.rsqrt(tf.reduce_sum(tf.square(v)))
        return tf.reduce_sum(direction * tf.tanh(sums + b), [2])


class LuongAttention(_BaseAttentionMechanism):
    """Score a place by the product of key and query; arguments as for `BahdanauAttention`.

    Args:
        num_units: N, the size of keys and of queries.
        scale: whether scores are multiplied by a learned number.

    Creates:
        ``memory_layer/kernel`` in the current scope; with ``scale`` also ``luong_attention/attention_g`` in that of the
        call.
    """

    _scope = "luong_attention"

    @like(
        BahdanauAttention.__init__,
        without="normalize",
        after={"memory_sequence_length": {"scale": False}},
        name="LuongAttention",
    )
    def __init__(self, num_units: int, scale: bool, probability_fn: Any, dtype: Any, **given: Any) -> None:
        dtype = tf.float32 if dtype is None else dtype
        layer = Dense(num_units, name="memory_layer", use_bias=False, dtype=dtype)
        super().__init__(query_layer=None, memory_layer=layer, probability_fn=_of_score(probability_fn), **given)
        self._num_units = num_units
        self._scale = scale

    def _score(self, query: Any) -> Any:
        """Return the score of each place, [B, S], for a query [B, N]; refuse keys of another size by a ConfigError.

        Creates:
            ``attention_g`` in the current scope, for a mechanism that scales.
        """
        keys = self.keys
        depth, units = query.shape.as_list()[-1], keys.shape.as_list()[-1]
        if depth != units:
            raise ConfigError(
                f"{type(self).__name__}: incompatible or unknown inner dimensions: the query has {depth} units and "
                f"the keys have {units}. Perhaps you need to set num_units to {depth}"
            )
        score = tf.squeeze(tf.matmul(tf.expand_dims(query, 1), keys, transpose_b=True), [1])
        if self._scale:
            score *= tf.get_variable("attention_g", [], dtype=query.dtype, initializer=tf.ones_initializer())
        return score


def hardmax(logits: Any, name: str | None = None) -> Any:
    """Return 1 for the largest of the last dimension and 0 for the others; the rank must be known."""
    with tf.name_scope(name, "Hardmax", [logits]):
        logits = tf.convert_to_tensor(logits)
        depth = logits.shape.as_list()[-1] or tf.shape(logits)[-1]
        return tf.one_hot(tf.argmax(logits, axis=-1), depth, dtype=logits.dtype)


def _of_score(function: Callable[..., Any] | None) -> Callable[[Any, Any], Any]:
    if isinstance(function, _Stopping):
        return function
    probability_fn = tf.nn.softmax if function is None else function
    return lambda score, state: probability_fn(score)


def _checked_lengths(lengths: Any) -> Any:
    """Return lengths that are checked when they are used: a memory of no place has nothing to look at."""
    lengths = tf.convert_to_tensor(lengths, name="memory_sequence_length")
    message = "All values in memory_sequence_length must be greater than zero."
    with tf.control_dependencies([tf.assert_positive(lengths, message=message)]):
        return tf.identity(lengths)


def _masked_memory(memory: Any, lengths: Any, check_inner_dims_defined: bool) -> Any:
    memory = tf.nest.map_structure(lambda part: tf.convert_to_tensor(part, name="memory"), memory)
    if check_inner_dims_defined:
        for part in tf.nest.flatten(memory):
            if not part.shape[2:].is_fully_defined():
                raise ConfigError(
                    f"expected memory {part.name} to have fully defined inner dims, got shape {part.shape}"
                )
    if lengths is None:
        return memory

    def mask(part: Any) -> Any:
        counts = tf.sequence_mask(lengths, tf.shape(part)[1], dtype=part.dtype)
        ones = tf.ones([tf.rank(part) - 2], tf.int32)
        masked = part * tf.reshape(counts, tf.concat([tf.shape(counts), ones], axis=0))
        batch = part.shape[:1].merge_with(lengths.shape[:1])
        masked.set_shape(batch.concatenate(part.shape[1:]))
        return masked

    return tf.nest.map_structure(mask, memory)


def _masked_score(score: Any, lengths: Any, mask_value: Any) -> Any:
    if lengths is None:
        return score
    counts = tf.sequence_mask(lengths, tf.shape(score)[1])
    return tf.where(counts, score, tf.fill(tf.shape(score), tf.cast(mask_value, score.dtype)))


def _size_of(tensor: Any, axis: int) -> Any:
    return tensor.shape.as_list()[axis] or tf.shape(tensor)[axis]


def _static(size: Any) -> Any:
    return tf.get_static_value(size) if tf.is_tensor(size) else size


_MODES = ("recursive", "parallel", "hard")


def safe_cumprod(x: Any, *args: Any, **kwargs: Any) -> Any:
    """Return ``tf.cumprod`` of numbers from 0 to 1, by sums of logarithms, without division by 0 in the gradient."""
    with tf.name_scope(None, "SafeCumprod", [x]):
        x = tf.convert_to_tensor(x, name="x")
        tiny = np.finfo(x.dtype.as_numpy_dtype).tiny
        return tf.exp(tf.cumsum(tf.log(tf.clip_by_value(x, tiny, 1)), *args, **kwargs))


def monotonic_attention(p_choose_i: Any, previous_attention: Any, mode: str) -> Any:
    """Return the probability of looking at each place, going on from the places before, [B, S].

    Args:
        p_choose_i: the probability of stopping at a place, [B, S].
        previous_attention: the probability that each place was looked at, [B, S].
        mode: ``"recursive"``, exact and slow; ``"parallel"``, which is wrong where the probabilities are nearly 1; or
            ``"hard"``, where both are 0 or 1.

    Raises:
        ConfigError: The mode is unknown.
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
    raise ConfigError(f"monotonic_attention got mode={mode!r}: expected one of {', '.join(map(repr, _MODES))}")


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


_NOT_MONOTONIC = "probability_fn custom_key_value_fn"
_MONOTONIC = {
    "score_mask_value": {"sigmoid_noise": 0.0, "sigmoid_noise_seed": None, "score_bias_init": 0.0, "mode": "parallel"}
}


class _BaseMonotonicAttentionMechanism(_BaseAttentionMechanism):
    """A mechanism whose alignments follow from those before; the first are at the first place."""

    def _stopping(self, given: dict[str, Any]) -> dict[str, Any]:
        """Return the arguments of attention for those of monotonic attention."""
        self._score_bias_init = given.pop("score_bias_init")
        stopping = _Stopping(given.pop("sigmoid_noise"), given.pop("mode"), given.pop("sigmoid_noise_seed"))
        return {**given, "probability_fn": stopping}

    def _score(self, query: Any) -> Any:
        score = super()._score(query)
        initializer = tf.constant_initializer(self._score_bias_init)
        return score + tf.get_variable("attention_score_bias", [], dtype=score.dtype, initializer=initializer)

    def initial_alignments(self, batch_size: Any, dtype: Any) -> Any:
        """Return the alignments before the first step: the first place, [B, S]."""
        first = tf.zeros(tf.reshape(batch_size, [1]), tf.int32)
        alignments = tf.one_hot(first, self._alignments_size, dtype=dtype)
        alignments.set_shape(super().initial_alignments(batch_size, dtype).shape)
        return alignments


class BahdanauMonotonicAttention(_BaseMonotonicAttentionMechanism, BahdanauAttention):
    """Monotonic attention with Bahdanau's score; other arguments are those of `BahdanauAttention`.

    Args:
        sigmoid_noise: the deviation of noise on scores, which in training drives probabilities to 0 or 1.
        sigmoid_noise_seed: of the noise.
        score_bias_init: the initial value of the learned bias of scores.
        mode: as in `monotonic_attention`.

    Creates:
        as `BahdanauAttention`, in ``bahdanau_monotonic_attention``, and ``attention_score_bias`` there.
    """

    _scope = "bahdanau_monotonic_attention"

    @like(BahdanauAttention.__init__, without=_NOT_MONOTONIC, after=_MONOTONIC, name="BahdanauMonotonicAttention")
    def __init__(self, **given: Any) -> None:
        super().__init__(**self._stopping(given))


class LuongMonotonicAttention(_BaseMonotonicAttentionMechanism, LuongAttention):
    """Monotonic attention with Luong's score; arguments as for `LuongAttention` and `BahdanauMonotonicAttention`.

    Creates:
        as `LuongAttention`, in ``luong_monotonic_attention``, and ``attention_score_bias`` there.
    """

    _scope = "luong_monotonic_attention"

    @like(LuongAttention.__init__, without=_NOT_MONOTONIC, after=_MONOTONIC, name="LuongMonotonicAttention")
    def __init__(self, **given: Any) -> None:
        super().__init__(**self._stopping(given))


class _Stopping:
    """Makes alignments of scores and of the alignments before."""

    def __init__(self, noise: float, mode: str, seed: Any) -> None:
        if mode not in _MODES:
            raise ConfigError(f"got mode={mode!r}: expected one of {', '.join(map(repr, _MODES))}")
        self._noise = noise
        self._mode = mode
        self._seed = seed

    def __call__(self, score: Any, previous: Any) -> Any:
        if self._noise > 0:
            score += self._noise * tf.random_normal(tf.shape(score), dtype=score.dtype, seed=self._seed)
        stops = tf.cast(score > 0, score.dtype) if self._mode == "hard" else tf.sigmoid(score)
        return monotonic_attention(stops, previous, self._mode)


class AttentionWrapperState(NamedTuple):
    """The state of an `AttentionWrapper`; the last three are tuples where there are several mechanisms.

    Attributes:
        cell_state: that of the cell.
        attention: the result of the step before, [B, size].
        time: the number of steps.
        alignments: of the step before, [B, S].
        alignment_history: a ``TensorArray`` of all alignments; ``()`` without history.
        attention_state: that of the mechanism.
    """

    cell_state: Any
    attention: Any
    time: Any
    alignments: Any
    alignment_history: Any
    attention_state: Any

    def clone(self, **kwargs: Any) -> "AttentionWrapperState":
        """Return the state with some fields replaced, by values of the same structure and shapes.

        Raises:
            ConfigError: A shape is another one, or there is no such field.
            ValueError: A structure is another one.

        Example:
            ``wrapper.zero_state(batch_size, tf.float32).clone(cell_state=encoder_state)``
        """
        unknown = sorted(set(kwargs) - set(self._fields))
        if unknown:
            raise ConfigError(f"AttentionWrapperState got unexpected field names: {unknown}; there are {self._fields}")
        replaced = {name: _like(name, getattr(self, name), value) for name, value in kwargs.items()}
        return self._replace(**replaced)


def _like(field: str, old: Any, new: Any) -> Any:
    tf.nest.assert_same_structure(old, new)

    def check(before: Any, after: Any) -> Any:
        if not (tf.is_tensor(before) and tf.is_tensor(after)):
            return after
        if not before.shape.is_compatible_with(after.shape):
            raise ConfigError(f"invalid shape for {field}: expected {before.shape}, got {after.shape} of {after.name}")
        after.set_shape(before.shape)
        return after

    return tf.nest.map_structure(check, old, new)
