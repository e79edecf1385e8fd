"""Linear-chain conditional random fields: how likely a sequence of tags is, and which one is likeliest.

A sequence of T tags scores the sum of a number for each tag in its place (the potentials, what a network gives) and one
for each pair of neighbours (the transitions, which are learned). Its probability is the exponential of the score,
divided by the sum over all sequences, which a recurrence over time gives; the likeliest sequence comes from the same
recurrence with a maximum in place of the sum. Shapes throughout: B sequences of at most T tags out of N; what lies
behind a sequence's length plays no part. A sequence without a tag scores 0, and its norm is 0.
"""

from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError
from tpack.tf1.rnn_cell.base import RNNCell, UnitSizes

__all__ = [
    "CrfDecodeBackwardRnnCell",
    "CrfDecodeForwardRnnCell",
    "CrfForwardRnnCell",
    "crf_binary_score",
    "crf_decode",
    "crf_log_likelihood",
    "crf_log_norm",
    "crf_multitag_sequence_score",
    "crf_sequence_score",
    "crf_unary_score",
    "viterbi_decode",
]


class _TagsCell(UnitSizes, RNNCell):
    def __init__(self, transition_params: Any) -> None:
        super().__init__()
        self._transition_params = tf.expand_dims(transition_params, 0)
        self._num_units = int(self._transition_params.shape[1])


class CrfForwardRnnCell(_TagsCell):
    """The recurrence of the norm: logarithms of the summed scores up to each place."""

    def __call__(self, inputs: Any, state: Any, scope: Any = None) -> tuple[Any, Any]:
        """Return the sums, [B, N], with the potentials of this place added, twice."""
        scores = tf.expand_dims(state, 2) + self._transition_params
        sums = inputs + tf.reduce_logsumexp(scores, axis=1)
        return sums, sums


class CrfDecodeForwardRnnCell(_TagsCell):
    """The recurrence of the best score up to each tag of a place, and the tag before it."""

    def __call__(self, inputs: Any, state: Any, scope: Any = None) -> tuple[Any, Any]:
        """Return for each tag the best one before it, and the best score that ends in it, [B, N]."""
        scores = tf.expand_dims(state, 2) + self._transition_params
        backpointers = tf.argmax(scores, axis=1, output_type=tf.int32)
        return backpointers, inputs + tf.reduce_max(scores, axis=1)


class CrfDecodeBackwardRnnCell(UnitSizes, RNNCell):
    """The way back: from a tag to the one before it in the best sequence."""

    def __init__(self, num_tags: int) -> None:
        super().__init__()
        self._num_units = 1

    def __call__(self, inputs: Any, state: Any, scope: Any = None) -> tuple[Any, Any]:
        """Return the tag before, [B, 1], twice."""
        tags = tf.gather(inputs, state, batch_dims=1)
        return tags, tags


def crf_sequence_score(inputs: Any, tag_indices: Any, sequence_lengths: Any, transition_params: Any) -> Any:
    """Return the score of sequences of tags, [B]: the sum of potentials and transitions.

    Shapes:
        potentials [B, T, N], tags [B, T], lengths [B]; transitions [N, N], from a tag (row) to the next (column).
    """
    unary = crf_unary_score(tag_indices, sequence_lengths, inputs)
    return unary + crf_binary_score(tag_indices, sequence_lengths, transition_params)


def crf_multitag_sequence_score(inputs: Any, tag_bitmap: Any, sequence_lengths: Any, transition_params: Any) -> Any:
    """Return the logarithm of the summed scores of all sequences with an allowed tag in each place, [B].

    ``tag_bitmap`` is [B, T, N] booleans, true for allowed tags; see `crf_sequence_score`.
    """
    inputs = tf.convert_to_tensor(inputs)
    allowed = tf.where(tag_bitmap, inputs, tf.fill(tf.shape(inputs), tf.constant(-np.inf, inputs.dtype)))
    return crf_log_norm(allowed, sequence_lengths, transition_params)


def crf_log_norm(inputs: Any, sequence_lengths: Any, transition_params: Any) -> Any:
    """Return the logarithm of the summed exponentials of the scores of all sequences, [B]; see `crf_sequence_score`."""
    inputs, lengths = tf.convert_to_tensor(inputs), tf.convert_to_tensor(sequence_lengths)
    _, sums = _run_behind_first(CrfForwardRnnCell(transition_params), inputs, lengths)
    log_norm = tf.reduce_logsumexp(sums, axis=1)
    return tf.where(lengths <= 0, tf.zeros_like(log_norm), log_norm)


def crf_log_likelihood(
    inputs: Any, tag_indices: Any, sequence_lengths: Any, transition_params: Any = None
) -> tuple[Any, Any]:
    """Return the log probability of sequences of tags, [B], and the transitions; see `crf_sequence_score`.

    Creates:
        the variable ``transitions`` [N, N] in the current scope, if no transitions are given.

    Raises:
        ConfigError: The number of tags is unknown, and a variable is needed.
    """
    inputs = tf.convert_to_tensor(inputs)
    if transition_params is None:
        num_tags = inputs.shape.as_list()[2]
        if num_tags is None:
            raise ConfigError(
                f"crf_log_likelihood got inputs of shape {inputs.shape}: expected [B, T, N] with a known N"
            )
        transition_params = tf.get_variable("transitions", [num_tags, num_tags])
    scores = crf_sequence_score(inputs, tag_indices, sequence_lengths, transition_params)
    return scores - crf_log_norm(inputs, sequence_lengths, transition_params), transition_params


def crf_unary_score(tag_indices: Any, sequence_lengths: Any, inputs: Any) -> Any:
    """Return the summed potentials of sequences of tags, [B]; see `crf_sequence_score`."""
    inputs, tags = tf.convert_to_tensor(inputs), tf.convert_to_tensor(tag_indices)
    counts = tf.sequence_mask(sequence_lengths, tf.shape(tags)[1])
    # A tag behind the end may be any number, such as -1; it is not looked up.
    scores = tf.gather(inputs, tf.where(counts, tags, tf.zeros_like(tags)), batch_dims=2)
    return tf.reduce_sum(tf.where(counts, scores, tf.zeros_like(scores)), axis=1)


def crf_binary_score(tag_indices: Any, sequence_lengths: Any, transition_params: Any) -> Any:
    """Return the summed transitions of sequences of tags, [B]; see `crf_sequence_score`."""
    transitions, tags = tf.convert_to_tensor(transition_params), tf.convert_to_tensor(tag_indices)
    counts = tf.sequence_mask(sequence_lengths, tf.shape(tags)[1])[:, 1:]
    pairs = tags[:, :-1] * tf.cast(tf.shape(transitions)[1], tags.dtype) + tags[:, 1:]
    scores = tf.gather(tf.reshape(transitions, [-1]), tf.where(counts, pairs, tf.zeros_like(pairs)))
    return tf.reduce_sum(tf.where(counts, scores, tf.zeros_like(scores)), axis=1)


def viterbi_decode(score: Any, transition_params: Any) -> tuple[list[int], Any]:
    """Return the likeliest sequence of tags and its score, for one sequence of numpy arrays [T, N] and [N, N]."""
    best, before = np.array(score[0]), []
    for potentials in score[1:]:
        scores = best[:, np.newaxis] + transition_params
        before.append(np.argmax(scores, axis=0))
        best = potentials + np.max(scores, axis=0)
    tags = [int(np.argmax(best))]
    for backpointers in reversed(before):
        tags.append(int(backpointers[tags[-1]]))
    return tags[::-1], np.max(best)


def crf_decode(potentials: Any, transition_params: Any, sequence_length: Any) -> tuple[Any, Any]:
    """Return the likeliest sequences of tags, [B, T] of int32, 0 behind the ends, and their scores, [B].

    Potentials are [B, T, N], lengths [B]; see `crf_sequence_score`.
    """
    potentials, lengths = tf.convert_to_tensor(potentials), tf.convert_to_tensor(sequence_length)
    cell = CrfDecodeForwardRnnCell(transition_params)
    backpointers, best = _run_behind_first(cell, potentials, lengths)
    steps = _less_one(lengths)
    last = tf.expand_dims(tf.argmax(best, axis=1, output_type=tf.int32), 1)
    before, _ = tf.nn.dynamic_rnn(
        CrfDecodeBackwardRnnCell(cell.output_size),
        tf.reverse_sequence(backpointers, steps, seq_axis=1),
        steps,
        initial_state=last,
        dtype=tf.int32,
    )
    backward = tf.concat([last, before[:, :-1, 0]], axis=1)
    tags = tf.reverse_sequence(backward, lengths, seq_axis=1)
    tags.set_shape(potentials.shape[:2])
    return tags, tf.reduce_max(best, axis=1)


def _run_behind_first(cell: RNNCell, inputs: Any, lengths: Any) -> tuple[Any, Any]:
    """Run a recurrence that starts from the first place; return outputs, [B, T, N], and last states, [B, N].

    A place of zeros, behind the end of every sequence, is appended for sequences of one place.
    """
    first, others = inputs[:, 0], tf.concat([inputs[:, 1:], tf.zeros_like(inputs[:, :1])], axis=1)
    is_decoding = isinstance(cell, CrfDecodeForwardRnnCell)
    dtype = tf.int32 if is_decoding else inputs.dtype
    return tf.nn.dynamic_rnn(cell, others, _less_one(lengths), initial_state=first, dtype=dtype)


def _less_one(lengths: Any) -> Any:
    return tf.maximum(lengths - 1, 0)
