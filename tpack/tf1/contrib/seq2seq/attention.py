"""Attention: how much a decoder looks at each place of a memory, by Bahdanau's sum or Luong's product.

A mechanism holds the memory, what an encoder gave for each place, masked behind the ends; keys, which a layer makes of
it; and compares a query, the output of a cell, with them. B sequences, places up to S, N units.
"""

import math
from collections.abc import Callable
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError
from tpack.tf1.layers.core import Dense

__all__ = ["AttentionMechanism", "BahdanauAttention", "LuongAttention", "hardmax"]


class AttentionMechanism:
    """What `AttentionWrapper` asks where to look, to derive from."""

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
        name: of the operations.

    Raises:
        ConfigError: A size of the memory is not known.
    """

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

    @property
    def memory_layer(self) -> Any:
        """What makes the keys."""
        return self._memory_layer

    @property
    def query_layer(self) -> Any:
        """What a query goes through."""
        return self._query_layer

    @property
    def values(self) -> Any:
        """What is looked at: the masked memory, [B, S, ...]."""
        return self._values

    @property
    def keys(self) -> Any:
        """What queries are compared with, [B, S, N]."""
        return self._keys

    @property
    def batch_size(self) -> Any:
        """The number of sequences, an integer if it is known."""
        return self._batch_size

    @property
    def alignments_size(self) -> Any:
        """The number of places, an integer if it is known."""
        return self._alignments_size

    @property
    def state_size(self) -> Any:
        """The state is the alignments of the step before."""
        return self._alignments_size

    def initial_alignments(self, batch_size: Any, dtype: Any) -> Any:
        """Return the alignments before the first step: zeros, [B, S]."""
        zeros = tf.zeros(tf.stack([batch_size, self._alignments_size]), dtype)
        zeros.set_shape([_static(batch_size), _static(self._alignments_size)])
        return zeros

    def initial_state(self, batch_size: Any, dtype: Any) -> Any:
        """Return the state before the first step."""
        return self.initial_alignments(batch_size, dtype)


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
        name: of the operations.

    Creates:
        ``memory_layer/kernel`` in the current scope; in that of the call ``bahdanau_attention/query_layer/kernel`` and
        ``attention_v``, with ``normalize`` also ``attention_g`` and ``attention_b``.
    """

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
        self._name = name

    def __call__(self, query: Any, state: Any) -> tuple[Any, Any]:
        """Return the alignments, and the same as the next state.

        Args:
            query: [B, ...].
            state: the alignments of the step before, [B, S].
        """
        with tf.variable_scope(None, "bahdanau_attention", [query]):
            alignments = self._probability_fn(bahdanau_score(self, query), state)
        return alignments, alignments


class LuongAttention(_BaseAttentionMechanism):
    """Score a place by the product of key and query.

    Args:
        num_units: N, the size of keys, and that which queries have.
        memory: the memory, [B, S, ...].
        memory_sequence_length: the lengths, [B]; None is S.
        scale: whether scores are multiplied by a learned number.
        probability_fn: makes alignments of a score; None is softmax.
        score_mask_value: the score behind the end; None is minus infinity.
        dtype: of the variables; None is float32.
        custom_key_value_fn: makes (keys, values) of both.
        name: of the operations.

    Creates:
        ``memory_layer/kernel`` in the current scope; with ``scale`` also ``luong_attention/attention_g`` in that of the
        call.
    """

    def __init__(
        self,
        num_units: int,
        memory: Any,
        memory_sequence_length: Any = None,
        scale: bool = False,
        probability_fn: Callable[[Any], Any] | None = None,
        score_mask_value: Any = None,
        dtype: Any = None,
        custom_key_value_fn: Callable[..., Any] | None = None,
        name: str = "LuongAttention",
    ) -> None:
        super().__init__(
            query_layer=None,
            memory_layer=Dense(
                num_units, name="memory_layer", use_bias=False, dtype=tf.float32 if dtype is None else dtype
            ),
            memory=memory,
            probability_fn=_of_score(probability_fn),
            memory_sequence_length=memory_sequence_length,
            score_mask_value=score_mask_value,
            custom_key_value_fn=custom_key_value_fn,
            name=name,
        )
        self._num_units = num_units
        self._scale = scale
        self._name = name

    def __call__(self, query: Any, state: Any) -> tuple[Any, Any]:
        """Return the alignments, and the same as the next state.

        Args:
            query: [B, N].
            state: the alignments of the step before, [B, S].
        """
        with tf.variable_scope(None, "luong_attention", [query]):
            alignments = self._probability_fn(luong_score(self, query), state)
        return alignments, alignments


def bahdanau_score(mechanism: Any, query: Any) -> Any:
    """Return the score of each place, [B, S].

    Args:
        mechanism: one with a ``query_layer``, and ``_normalize``.
        query: [B, ...].

    Creates:
        ``attention_v``, and for one that normalizes ``attention_g`` and ``attention_b``, in the current scope.
    """
    processed = query if mechanism.query_layer is None else mechanism.query_layer(query)
    units = mechanism.keys.shape.as_list()[2] or mechanism._num_units
    sums = mechanism.keys + tf.expand_dims(processed, 1)
    v = tf.get_variable("attention_v", [units], dtype=processed.dtype)
    if not mechanism._normalize:
        return tf.reduce_sum(v * tf.tanh(sums), [2])
    length = tf.constant_initializer(math.sqrt(1.0 / units))
    g = tf.get_variable("attention_g", [], dtype=processed.dtype, initializer=length)
    b = tf.get_variable("attention_b", [units], dtype=processed.dtype, initializer=tf.zeros_initializer())
    direction = g * v * tf.rsqrt(tf.reduce_sum(tf.square(v)))
    return tf.reduce_sum(direction * tf.tanh(sums + b), [2])


def luong_score(mechanism: Any, query: Any) -> Any:
    """Return the score of each place, [B, S].

    Args:
        mechanism: one with ``_scale``.
        query: [B, N].

    Creates:
        ``attention_g`` in the current scope, for one that scales.

    Raises:
        ConfigError: The query is not of the size of the keys.
    """
    keys = mechanism.keys
    depth, units = query.shape.as_list()[-1], keys.shape.as_list()[-1]
    if depth != units:
        raise ConfigError(
            f"{type(mechanism).__name__}: incompatible or unknown inner dimensions: the query has {depth} units and "
            f"the keys have {units}. Perhaps you need to set num_units to {depth}"
        )
    score = tf.squeeze(tf.matmul(tf.expand_dims(query, 1), keys, transpose_b=True), [1])
    if mechanism._scale:
        score *= tf.get_variable("attention_g", [], dtype=query.dtype, initializer=tf.ones_initializer())
    return score


def hardmax(logits: Any, name: str | None = None) -> Any:
    """Return 1 for the largest of the last dimension and 0 for the others.

    Args:
        logits: of any rank that is known.
        name: of the operations.
    """
    with tf.name_scope(name, "Hardmax", [logits]):
        logits = tf.convert_to_tensor(logits)
        depth = logits.shape.as_list()[-1] or tf.shape(logits)[-1]
        return tf.one_hot(tf.argmax(logits, axis=-1), depth, dtype=logits.dtype)


def _of_score(function: Callable[[Any], Any] | None) -> Callable[[Any, Any], Any]:
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
