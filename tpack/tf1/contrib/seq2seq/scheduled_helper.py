"""Scheduled sampling: a decoder that trains on data, and here and there on what it gave itself.

Source:
    Bengio, Vinyals, Jaitly and Shazeer, "Scheduled sampling for sequence prediction with recurrent networks" (2015).
"""

from collections.abc import Callable
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError
from tpack.tf1.contrib.seq2seq.helper import (
    TrainingHelper,
    embedding_function,
    sample_tokens,
    swap_batch_and_time,
    unstacked,
)
from tpack.tf1.signatures import like
from tpack.utils.validation import owner_name


class ScheduledEmbeddingTrainingHelper(TrainingHelper):
    """Feeds the decoder with data, and here and there with a token that it drew from what it gave.

    A sample is the token that was drawn, or -1 where the data is to be used.

    Args:
        inputs: the embedded data, [B, T, ...].
        sequence_length: the lengths, [B].
        embedding: the embeddings of tokens, [tokens, ...], or a function of tokens.
        sampling_probability: how likely it is that a token is drawn, for all or [B].
        scheduling_seed: of where they are drawn.

    Raises:
        ConfigError: The lengths are not a vector, or the probability neither a number nor a vector.
    """

    def __init__(
        self,
        inputs: Any,
        sequence_length: Any,
        embedding: Any,
        sampling_probability: Any,
        time_major: bool = False,
        seed: Any = None,
        scheduling_seed: Any = None,
        name: str | None = None,
    ) -> None:
        with tf.name_scope(name, "ScheduledEmbeddingSamplingWrapper"):
            self._embedding_fn = embedding_function(embedding)
            self._sampling_probability = _checked_probability(self, sampling_probability)
            self._seed = seed
            self._scheduling_seed = scheduling_seed
            super().__init__(inputs, sequence_length, time_major)

    def sample(self, time: Any, outputs: Any, state: Any, name: str | None = None) -> Any:  # type: ignore[override]
        """Return tokens that are drawn, or -1."""
        with tf.name_scope(name, "ScheduledEmbeddingTrainingHelperSample"):
            is_drawn = _drawn(self, outputs, self._scheduling_seed)
            tokens = sample_tokens(outputs, self._seed)
            return tf.where(is_drawn, tokens, tf.fill(tf.shape(tokens), -1))

    def next_inputs(  # type: ignore[override]
        self, time: Any, outputs: Any, state: Any, sample_ids: Any, name: str | None = None
    ) -> Any:
        """Return who has finished, the next inputs, embedded tokens where they were drawn, and the state as it is."""
        with tf.name_scope(name, "ScheduledEmbeddingTrainingHelperNextInputs"):
            finished, inputs, state = super().next_inputs(time=time, outputs=outputs, state=state)

            def with_samples() -> Any:
                rows = tf.cast(tf.where(sample_ids > -1), tf.int32)
                embedded = self._embedding_fn(tf.gather_nd(sample_ids, rows))
                return tf.tensor_scatter_nd_update(inputs, rows, embedded)

            return finished, _unless(tf.reduce_all(finished), with_samples, inputs), state


class ScheduledOutputTrainingHelper(TrainingHelper):
    """Feeds the decoder with data, and here and there with its outputs; see `ScheduledEmbeddingTrainingHelper`.

    A sample is 1 for each sequence whose output is to be used, else 0.

    Args:
        sampling_probability: the probability that an output is used, for all or [B].
        next_inputs_fn: makes an input of an output; None uses it as it is.
        auxiliary_inputs: further data, [B, T, ...], that each input ends with, whatever it is.

    Raises:
        ConfigError: The lengths are not a vector, or the probability neither a number nor a vector.
    """

    @like(
        ScheduledEmbeddingTrainingHelper.__init__,
        without="embedding scheduling_seed",
        after={"seed": {"next_inputs_fn": None, "auxiliary_inputs": None}},
    )
    def __init__(
        self,
        inputs: Any,
        sampling_probability: Any,
        time_major: bool,
        seed: Any,
        next_inputs_fn: Callable[[Any], Any] | None,
        auxiliary_inputs: Any,
        name: str | None,
        **given: Any,
    ) -> None:
        with tf.name_scope(name, "ScheduledOutputTrainingHelper"):
            self._sampling_probability = _checked_probability(self, sampling_probability)
            self._auxiliary_input_tas = None
            if auxiliary_inputs is not None:
                more = tf.nest.map_structure(tf.convert_to_tensor, auxiliary_inputs)
                inputs = tf.nest.map_structure(lambda *parts: tf.concat(parts, axis=-1), inputs, more)
                by_time = more if time_major else tf.nest.map_structure(swap_batch_and_time, more)
                self._auxiliary_input_tas = tf.nest.map_structure(unstacked, by_time)
            self._seed = seed
            self._next_inputs_fn = next_inputs_fn
            super().__init__(inputs, time_major=time_major, **given)

    def sample(self, time: Any, outputs: Any, state: Any, name: str | None = None) -> Any:  # type: ignore[override]
        """Return for each sequence whether its output is to be used."""
        with tf.name_scope(name, "ScheduledOutputTrainingHelperSample"):
            return tf.cast(_drawn(self, outputs, self._seed), tf.int32)

    def next_inputs(  # type: ignore[override]
        self, time: Any, outputs: Any, state: Any, sample_ids: Any, name: str | None = None
    ) -> Any:
        """Return who has finished, the next inputs, outputs where they are to be used, and the state as it is."""
        with tf.name_scope(name, "ScheduledOutputTrainingHelperNextInputs"):
            finished, inputs, state = super().next_inputs(time=time, outputs=outputs, state=state)
            is_used = tf.cast(sample_ids, tf.bool)

            def with_outputs() -> Any:
                rows = tf.cast(tf.where(is_used), tf.int32)
                used = tf.nest.map_structure(lambda output: tf.gather_nd(output, rows), outputs)
                given = used if self._next_inputs_fn is None else self._next_inputs_fn(used)
                complete = self._with_auxiliary(given, time + 1, rows)
                return tf.nest.map_structure(
                    lambda data, new: tf.tensor_scatter_nd_update(data, rows, new), inputs, complete
                )

            is_nothing_to_do = tf.logical_or(tf.reduce_all(finished), tf.logical_not(tf.reduce_any(is_used)))
            return finished, _unless(is_nothing_to_do, with_outputs, inputs), state

    def _with_auxiliary(self, inputs: Any, time: Any, rows: Any) -> Any:
        if self._auxiliary_input_tas is None:
            return inputs

        def join(data: Any, array: Any) -> Any:
            return tf.concat([data, tf.gather_nd(array.read(time), rows)], axis=-1)

        return tf.nest.map_structure(join, inputs, self._auxiliary_input_tas)


def _checked_probability(owner: object, probability: Any) -> Any:
    probability = tf.convert_to_tensor(probability, name="sampling_probability")
    if probability.shape.rank not in (0, 1):
        shape = probability.shape
        raise ConfigError(
            f"{owner_name(owner)} got sampling_probability of shape {shape}: expected a scalar or a vector"
        )
    return probability


def _drawn(helper: Any, outputs: Any, seed: Any) -> Any:
    probability = helper._sampling_probability
    # A draw by itself needs nothing of its step, and a loop may run it in any order. Steps draw one after the other, so
    # that a seed gives the same draws each time.
    with tf.control_dependencies(tf.nest.flatten(outputs)):
        shape = [helper.batch_size] if probability.shape.rank == 0 else tf.shape(probability)
        return tf.random_uniform(shape, dtype=probability.dtype, seed=seed) < probability


def _unless(condition: Any, make: Callable[[], Any], otherwise: Any) -> Any:
    made = tf.cond(condition, lambda: otherwise, make)
    tf.nest.map_structure(lambda data, like: data.set_shape(like.shape), made, otherwise)
    return made
