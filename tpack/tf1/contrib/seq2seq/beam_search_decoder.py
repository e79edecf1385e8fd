"""`BeamSearchDecoder`: keep the K likeliest beginnings of a sequence in each step; and the operations on beams.

B sequences, K beams, T steps, V tokens. The state of a cell has K adjacent copies of each entry of the batch, [B * K,
...], which `tile_batch` makes of an encoder's output and of the first state.

Source:
    Wu et al., "Google's neural machine translation system" (2016), section 7, for both penalties.
"""

from typing import Any, NamedTuple

import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError
from tpack.tf1.contrib.seq2seq.attention import AttentionWrapperState
from tpack.tf1.contrib.seq2seq.decoder import Decoder, check_output_layer
from tpack.tf1.contrib.seq2seq.helper import check_tokens, embedding_function
from tpack.tf1.rnn_cell.base import check_cell
from tpack.utils.validation import check_count


def tile_batch(t: Any, multiplier: int, name: str | None = None) -> Any:
    """Return each entry of a batch ``multiplier`` times, one behind the other: [B, ...] to [B * multiplier, ...].

    Raises:
        ConfigError: A tensor has no batch or no known rank, or the multiplier is missing.
    """
    check_count("tile_batch", "multiplier", multiplier)
    with tf.name_scope(name, "tile_batch", tf.nest.flatten(t)):
        return tf.nest.map_structure(lambda part: _tiled(part, multiplier), t)


def _tiled(part: Any, multiplier: int) -> Any:
    # A history of alignments grows with the beams that fill it.
    if isinstance(part, tf.TensorArray):
        return part
    part = tf.convert_to_tensor(part, name="t")
    if not part.shape.rank:
        raise ConfigError(
            f"tile_batch got a tensor of shape {part.shape}: expected a statically known rank, and a batch"
        )
    tiled = tf.repeat(part, multiplier, axis=0)
    batch, *others = part.shape.as_list()
    tiled.set_shape([None if batch is None else batch * multiplier, *others])
    return tiled


def gather_tree(
    step_ids: Any, parent_ids: Any, max_sequence_lengths: Any, end_token: Any, name: str | None = None
) -> Any:
    """Return the whole sequences of beams, [T, B, K], from the tokens of each step and the beams they came from.

    Args:
        step_ids: the tokens, [T, B, K].
        parent_ids: the beam of the step before that each goes on from, [T, B, K].
        max_sequence_lengths: the number of steps of the longest beam, [B].
        end_token: the token of the end; behind the first one there are only these.
        name: of the operations.
    """
    with tf.name_scope(name, "GatherTree"):
        ids, parents = tf.convert_to_tensor(step_ids), tf.convert_to_tensor(parent_ids)
        end = tf.cast(end_token, ids.dtype)
        chosen = _follow(ids, parents, max_sequence_lengths)
        times = tf.range(tf.shape(ids)[0])[:, tf.newaxis, tf.newaxis]
        is_behind = times >= tf.cast(max_sequence_lengths, tf.int32)[tf.newaxis, :, tf.newaxis]
        ended = tf.cumsum(tf.cast(tf.equal(chosen, end), tf.int32), axis=0, exclusive=True) > 0
        sequences = tf.where(tf.logical_or(ended, is_behind), tf.fill(tf.shape(chosen), end), chosen)
        sequences.set_shape(ids.shape)
        return sequences


def _follow(values: Any, parents: Any, lengths: Any) -> Any:
    """Return the value of each step on the way that ends in each beam, [T, B, K]; behind the ends anything."""
    steps, batch, beams = tf.unstack(tf.shape(parents))
    start = tf.tile(tf.range(beams)[tf.newaxis], [batch, 1])
    lengths = tf.cast(lengths, tf.int32)

    def go_back(carried: Any, step: Any) -> Any:
        _, beam = carried
        time, value, parent = step
        before = tf.gather(parent, beam, batch_dims=1)
        # A way begins in the last step of its batch entry.
        is_on_way = (time < lengths)[:, tf.newaxis]
        return tf.gather(value, beam, batch_dims=1), tf.where_v2(is_on_way, before, beam)

    steps_back = (tf.range(steps), values, parents)
    first = (tf.zeros(tf.shape(values)[1:], values.dtype), start)
    found, _ = tf.scan(go_back, steps_back, initializer=first, reverse=True)
    return found


def gather_tree_from_array(t: Any, parent_ids: Any, sequence_length: Any) -> Any:
    """Return what belongs to each step of the ways of beams, such as alignments, [T, B, K, ...].

    A step writes ``t`` before beams change places, so that of a way is with the beam that the step goes on from, see
    `gather_tree`. Behind the ends, at ``sequence_length`` [B, K], is what the beam of that number has.
    """
    steps, batch, beams = tf.unstack(tf.shape(parent_ids))
    numbers = tf.broadcast_to(tf.range(beams), [steps, batch, beams])
    ways = _follow(parent_ids, parent_ids, tf.reduce_max(sequence_length, axis=1))
    is_on_way = tf.transpose(tf.sequence_mask(sequence_length, steps), [2, 0, 1])
    gathered = tf.gather(t, tf.where(is_on_way, ways, numbers), batch_dims=2)
    gathered.set_shape(t.shape)
    return gathered


class BeamSearchDecoderState(NamedTuple):
    """The state of the cell, and of each beam its logarithm of the probability, its end, its length, its attention."""

    cell_state: Any
    log_probs: Any
    finished: Any
    lengths: Any
    accumulated_attention_probs: Any


class BeamSearchDecoderOutput(NamedTuple):
    """Of each beam in each step its score, the token, and the beam of the step before that it goes on from."""

    scores: Any
    predicted_ids: Any
    parent_ids: Any


class FinalBeamSearchDecoderOutput(NamedTuple):
    """The whole sequences, [B, T, K], the best one first, and what the steps gave."""

    predicted_ids: Any
    beam_search_decoder_output: Any


class BeamSearchDecoder(Decoder):
    """Decode by a search with beams.

    Args:
        embedding: the embeddings of tokens, [V, ...], or a function of tokens.
        start_tokens: the first tokens, [B].
        end_token: the token of the end, a number.
        initial_state: the state of the cell at the beginning, [B * K, ...].
        beam_width: K.
        output_layer: a layer on each output of the cell, such as ``Dense(V)``.
        length_penalty_weight: how much is given to long sequences: scores are divided by
            ``((5 + length) / 6) ** weight``.
        coverage_penalty_weight: how much is taken from sequences that did not look everywhere; it needs attention.
            A place that was never looked at is taken for one behind the end.
        reorder_tensor_arrays: whether arrays of the state, such as a history of alignments, are of the whole sequences
            at the end.

    Raises:
        WrongTypeError: The cell or the layer is of another kind.
        ConfigError: The first tokens are not a vector, or the token of the end is not a number.
    """

    def __init__(
        self,
        cell: Any,
        embedding: Any,
        start_tokens: Any,
        end_token: Any,
        initial_state: Any,
        beam_width: int,
        output_layer: Any = None,
        length_penalty_weight: Any = 0.0,
        coverage_penalty_weight: Any = 0.0,
        reorder_tensor_arrays: bool = True,
    ) -> None:
        self._cell = check_cell(self, "cell", cell)
        check_output_layer(self, output_layer)
        self._beam_width = check_count(self, "beam_width", beam_width)
        self._output_layer = output_layer
        self._length_penalty_weight = length_penalty_weight
        self._coverage_penalty_weight = coverage_penalty_weight
        self._reorder_tensor_arrays = reorder_tensor_arrays
        self._embedding_fn = embedding_function(embedding)
        tokens = tf.convert_to_tensor(start_tokens, dtype=tf.int32, name="start_tokens")
        self._end_token = tf.convert_to_tensor(end_token, dtype=tf.int32, name="end_token")
        check_tokens(self, tokens, self._end_token)
        self._static_batch = tokens.shape.as_list()[0]
        self._batch_size = tf.size(tokens)
        self._start_tokens = tf.tile(tokens[:, tf.newaxis], [1, self._beam_width])
        self._start_inputs = self._embedding_fn(self._start_tokens)
        self._dtype = tf.nest.flatten(initial_state)[0].dtype
        self._initial_cell_state = tf.nest.map_structure(self._split, initial_state)

    @property
    def batch_size(self) -> Any:
        """The number of sequences, B."""
        return self._batch_size

    @property
    def tracks_own_finished(self) -> bool:
        """Beams change places."""
        return True

    @property
    def output_size(self) -> BeamSearchDecoderOutput:
        """One number of each kind for each beam."""
        return BeamSearchDecoderOutput(*[tf.TensorShape([self._beam_width])] * 3)

    @property
    def output_dtype(self) -> BeamSearchDecoderOutput:
        """Scores are of the dtype of the state."""
        return BeamSearchDecoderOutput(self._dtype, tf.int32, tf.int32)

    def initialize(self, name: str | None = None) -> Any:
        """Return who has finished, the first inputs and the state. All beams but the first wait until it divides."""
        is_first = tf.one_hot(tf.zeros([self._batch_size], tf.int32), self._beam_width, on_value=True, off_value=False)
        is_first.set_shape([self._static_batch, self._beam_width])
        zeros = tf.zeros_like(is_first, self._dtype)
        seen = self._attention_probs(self._initial_cell_state)
        state = BeamSearchDecoderState(
            cell_state=self._initial_cell_state,
            log_probs=tf.where(is_first, zeros, zeros - float("inf")),
            finished=tf.logical_not(is_first),
            lengths=tf.zeros_like(is_first, tf.int64),
            accumulated_attention_probs=() if seen is None else seen,
        )
        return state.finished, self._start_inputs, state

    def step(self, time: Any, inputs: Any, state: Any, name: str | None = None) -> Any:
        """Make a step: the cell for all beams, then the K best of their K * V ways to go on."""
        with tf.name_scope(name, "BeamSearchDecoderStep", (time, inputs)):
            cell_state = tf.nest.map_structure(self._merge, state.cell_state)
            outputs, cell_state = self._cell(tf.nest.map_structure(self._merge, inputs), cell_state)
            if self._output_layer is not None:
                outputs = self._output_layer(outputs)
            cell_state = tf.nest.map_structure(self._split, cell_state)
            outputs, next_state = self._search(self._split(outputs), cell_state, state)
            next_inputs = tf.cond(
                tf.reduce_all(next_state.finished),
                lambda: self._start_inputs,
                lambda: self._embedding_fn(outputs.predicted_ids),
            )
            tf.nest.map_structure(lambda data, like: data.set_shape(like.shape), next_inputs, self._start_inputs)
        return outputs, next_state, next_inputs, next_state.finished

    def finalize(self, outputs: Any, final_state: Any, sequence_lengths: Any) -> Any:
        """Return the whole sequences of outputs of [T, B, K], and the state with arrays of them.

        ``sequence_lengths`` is unused: the state has those of the beams.
        """
        longest = tf.cast(tf.reduce_max(final_state.lengths, axis=1), tf.int32)
        sequences = gather_tree(outputs.predicted_ids, outputs.parent_ids, longest, self._end_token)
        if self._reorder_tensor_arrays:

            def sort(part: Any) -> Any:
                return self._sorted(part, outputs.parent_ids, final_state.lengths)

            final_state = final_state._replace(cell_state=tf.nest.map_structure(sort, final_state.cell_state))
        return FinalBeamSearchDecoderOutput(sequences, outputs), final_state

    def _search(self, logits: Any, cell_state: Any, state: Any) -> tuple[Any, Any]:
        """Return the output of a step and the next state, for logits [B, K, V] and the cell's state [B, K, ...]."""
        num_tokens = logits.shape.as_list()[-1] or tf.shape(logits)[-1]
        log_probs = state.log_probs[:, :, tf.newaxis] + self._step_log_probs(logits, state.finished, num_tokens)
        seen = self._accumulated(cell_state, state)
        scores = self._scores(log_probs, self._lengths_with(state, num_tokens), state.finished, seen)
        # Each row has the ways of all beams, one beam behind the other.
        shape = [self._batch_size, self._beam_width * num_tokens]
        best, ways = tf.nn.top_k(tf.reshape(scores, shape), k=self._beam_width)
        best, ways = self._of_beams(best), self._of_beams(ways)
        tokens, beams = ways % num_tokens, ways // num_tokens
        was_finished = tf.gather(state.finished, beams, batch_dims=1)
        next_state = BeamSearchDecoderState(
            cell_state=tf.nest.map_structure(lambda part: self._gathered(part, beams), cell_state),
            log_probs=tf.gather(tf.reshape(log_probs, shape), ways, batch_dims=1),
            finished=tf.logical_or(was_finished, tf.equal(tokens, self._end_token)),
            lengths=tf.gather(state.lengths, beams, batch_dims=1) + tf.cast(tf.logical_not(was_finished), tf.int64),
            accumulated_attention_probs=() if seen is None else tf.gather(seen, beams, batch_dims=1),
        )
        return BeamSearchDecoderOutput(scores=best, predicted_ids=tokens, parent_ids=beams), next_state

    def _step_log_probs(self, logits: Any, finished: Any, num_tokens: Any) -> Any:
        """Return the logarithm of the probability of each token; a beam that has finished has the end alone."""
        log_probs = tf.nn.log_softmax(logits)
        only_end = tf.one_hot(self._end_token, num_tokens, on_value=0.0, off_value=logits.dtype.min, dtype=logits.dtype)
        return tf.where_v2(finished[:, :, tf.newaxis], only_end, log_probs)

    def _lengths_with(self, state: Any, num_tokens: Any) -> Any:
        """Return the length of each way to go on, [B, K, V]; the token of the end does not count."""
        counts = 1 - tf.one_hot(self._end_token, num_tokens, dtype=tf.int64)
        goes_on = tf.cast(tf.logical_not(state.finished), tf.int64)
        return state.lengths[:, :, tf.newaxis] + goes_on[:, :, tf.newaxis] * counts

    def _scores(self, log_probs: Any, lengths: Any, finished: Any, seen: Any) -> Any:
        """Return what ways are ranked by: the logarithm of the probability, less what penalties take."""
        scores = log_probs
        if not _is_zero(self._length_penalty_weight):
            weight = tf.cast(self._length_penalty_weight, log_probs.dtype)
            scores = log_probs / tf.pow((5.0 + tf.cast(lengths, log_probs.dtype)) / 6.0, weight)
        if seen is None:
            return scores
        logs = tf.log(tf.where(seen > 0, tf.minimum(seen, 1.0), tf.ones_like(seen)))
        penalty = tf.cast(self._coverage_penalty_weight, logs.dtype) * tf.reduce_sum(logs, axis=2)
        return scores + tf.where(finished, penalty, tf.zeros_like(penalty))[:, :, tf.newaxis]

    def _accumulated(self, cell_state: Any, state: Any) -> Any:
        seen = self._attention_probs(cell_state)
        if seen is None:
            return None
        goes_on = tf.cast(tf.logical_not(state.finished), seen.dtype)
        return state.accumulated_attention_probs + seen * goes_on[:, :, tf.newaxis]

    def _attention_probs(self, cell_state: Any) -> Any:
        """Return where is looked, the mean of all mechanisms; None if nobody asks."""
        if _is_zero(self._coverage_penalty_weight):
            return None
        alignments = _alignments_in(cell_state)
        if not alignments:
            raise ConfigError(
                "BeamSearchDecoder got a coverage_penalty_weight: expected 0.0 with a cell without attention"
            )
        return alignments[0] if len(alignments) == 1 else tf.reduce_mean(tf.stack(alignments), axis=0)

    def _split(self, part: Any) -> Any:
        if isinstance(part, tf.TensorArray) or tf.convert_to_tensor(part).shape.rank == 0:
            return part
        part = tf.convert_to_tensor(part)
        split = tf.reshape(part, tf.concat([[self._batch_size, self._beam_width], tf.shape(part)[1:]], axis=0))
        split.set_shape(tf.TensorShape([self._static_batch, self._beam_width]).concatenate(part.shape[1:]))
        return split

    def _merge(self, part: Any) -> Any:
        if isinstance(part, tf.TensorArray) or part.shape.rank == 0:
            return part
        merged = tf.reshape(part, tf.concat([[self._batch_size * self._beam_width], tf.shape(part)[2:]], axis=0))
        rows = None if self._static_batch is None else self._static_batch * self._beam_width
        merged.set_shape(tf.TensorShape([rows]).concatenate(part.shape[2:]))
        return merged

    def _gathered(self, part: Any, beams: Any) -> Any:
        """Return the part of the state of the beams that are gone on from."""
        if isinstance(part, tf.TensorArray) or part.shape.rank < 2:
            return part
        gathered = tf.gather(part, beams, batch_dims=1)
        gathered.set_shape(part.shape)
        return gathered

    def _of_beams(self, found: Any) -> Any:
        found.set_shape([self._static_batch, self._beam_width])
        return found

    def _sorted(self, part: Any, parent_ids: Any, lengths: Any) -> Any:
        """Return an array of the state as a tensor of the whole sequences, [T, B * K, ...]; anything else as it is."""
        if not isinstance(part, tf.TensorArray):
            return part
        steps = part.stack()
        split = tf.concat([tf.shape(steps)[:1], [self._batch_size, self._beam_width], tf.shape(steps)[2:]], axis=0)
        ordered = gather_tree_from_array(tf.reshape(steps, split), parent_ids, lengths)
        merged = tf.reshape(ordered, tf.shape(steps))
        merged.set_shape(steps.shape)
        return merged


def _is_zero(weight: Any) -> bool:
    value = tf.get_static_value(weight) if tf.is_tensor(weight) else weight
    return value is not None and float(value) == 0.0


def _alignments_in(state: Any) -> list[Any]:
    """Return all alignments of a state, of wrappers that are cells of others too."""
    if isinstance(state, AttentionWrapperState):
        return tf.nest.flatten(state.alignments)
    if isinstance(state, (list, tuple)):
        return [found for part in state for found in _alignments_in(part)]
    return []
