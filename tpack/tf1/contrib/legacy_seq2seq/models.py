"""Sequence to sequence over lists: decoders with attention and without, encoders before them, and losses."""

import copy
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError
from tpack.tf1.rnn_cell.base import linear
from tpack.tf1.rnn_cell.wrappers import EmbeddingWrapper, OutputProjectionWrapper
from tpack.tf1.signatures import like, parameter

LoopFunction = Callable[[tf.Tensor, int], tf.Tensor]
"""From an output and the number of the next step to the input of that step."""
Projection = tuple[Any, Any]
"""The weights and biases that make the scores of symbols from an output."""


def rnn_decoder(
    decoder_inputs: Sequence[tf.Tensor],
    initial_state: Any,
    cell: Any,
    loop_function: LoopFunction | None = None,
    scope: Any = None,
) -> tuple[list[tf.Tensor], Any]:
    """Unroll a cell over inputs.

    Args:
        decoder_inputs: the inputs, [batch, depth] each.
        initial_state: the state of the cell before the first one.
        cell: the cell.
        loop_function: makes each input but the first from the output before, in place of what is given.
        scope: of the variables; ``rnn_decoder`` unless given.

    Returns:
        The outputs, and the last state.
    """
    with tf.variable_scope(scope or "rnn_decoder") as current:
        state = initial_state
        outputs: list[tf.Tensor] = []
        for index, given in enumerate(decoder_inputs):
            step_input = _input_of_step(index, given, outputs, loop_function)
            if index > 0:
                current.reuse_variables()
            output, state = cell(step_input, state)
            outputs.append(output)
    return outputs, state


def _input_of_step(
    index: int, given: tf.Tensor, outputs: Sequence[tf.Tensor], loop_function: LoopFunction | None
) -> tf.Tensor:
    if loop_function is None or not outputs:
        return given
    with tf.variable_scope("loop_function", reuse=True):
        return loop_function(outputs[-1], index)


def feeding_back(embedding: tf.Variable, projection: Projection | None, update_embedding: bool = True) -> LoopFunction:
    """Return a loop function that takes the symbol with the best score.

    Args:
        embedding: the vectors of symbols.
        projection: makes the scores from an output; None if outputs are scores.
        update_embedding: let gradients through to the vectors that are looked up.
    """

    def next_input(previous: tf.Tensor, _: int) -> tf.Tensor:
        scores = previous if projection is None else tf.nn.xw_plus_b(previous, *projection)
        vectors = tf.nn.embedding_lookup(embedding, tf.argmax(scores, 1))
        return vectors if update_embedding else tf.stop_gradient(vectors)

    return next_input


def check_projection(projection: Projection | None, num_symbols: int) -> None:
    """Check the sizes of what makes scores of symbols; raise ConfigError if it is for another number of symbols."""
    if projection is None:
        return
    weights, biases = (tf.convert_to_tensor(part).shape for part in projection)
    if not (weights.is_compatible_with([None, num_symbols]) and biases.is_compatible_with([num_symbols])):
        raise ConfigError(
            f"got output_projection of shapes {weights} and {biases}: expected [size, {num_symbols}] and "
            f"[{num_symbols}] for {num_symbols} symbols"
        )


def embedding_rnn_decoder(
    decoder_inputs: Sequence[tf.Tensor],
    initial_state: Any,
    cell: Any,
    num_symbols: int,
    embedding_size: int,
    output_projection: Projection | None = None,
    feed_previous: bool = False,
    update_embedding_for_previous: bool = True,
    scope: Any = None,
) -> tuple[list[tf.Tensor], Any]:
    """Unroll a cell over symbols.

    Args:
        decoder_inputs: the symbols, int32 of [batch] each.
        initial_state: the state of the cell before the first one.
        cell: the cell.
        num_symbols: how many there are.
        embedding_size: the length of their vectors.
        output_projection: makes the scores from an output; None if outputs are scores.
        feed_previous: take the symbol with the best score as the next one, and of those given only the first.
        update_embedding_for_previous: whether gradients go to the vectors of the symbols so taken.
        scope: of the variables; ``embedding_rnn_decoder`` unless given.

    Returns:
        The outputs, and the last state.
    """
    check_projection(output_projection, num_symbols)
    with tf.variable_scope(scope or "embedding_rnn_decoder"):
        shape, update = [num_symbols, embedding_size], update_embedding_for_previous
        inputs, loop_function = _embed(decoder_inputs, shape, output_projection, feed_previous, update)
        return rnn_decoder(inputs, initial_state, cell, loop_function=loop_function)


def _embed(
    symbols: Sequence[tf.Tensor], shape: list[int], projection: Projection | None, feed_previous: bool, update: bool
) -> tuple[list[tf.Tensor], LoopFunction | None]:
    embedding = tf.get_variable("embedding", shape)
    loop_function = feeding_back(embedding, projection, update) if feed_previous else None
    return [tf.nn.embedding_lookup(embedding, each) for each in symbols], loop_function


class _Attention:
    """Heads that look at the same states, each by weights of its own.

    Args:
        states: [batch, length, size].
        num_heads: how many.
    """

    def __init__(self, states: tf.Tensor, num_heads: int) -> None:
        size = tf.dimension_value(states.shape[2])
        length = tf.dimension_value(states.shape[1])
        self._size = size
        self._length = tf.shape(states)[1] if length is None else length
        self._hidden = tf.reshape(states, [-1, self._length, 1, size])
        self._heads = []
        for head in range(num_heads):
            kernel = tf.get_variable(f"AttnW_{head}", [1, 1, size, size])
            features = tf.nn.conv2d(self._hidden, kernel, [1, 1, 1, 1], "SAME")
            self._heads.append((features, tf.get_variable(f"AttnV_{head}", [size])))

    def zeros(self, batch_size: tf.Tensor, dtype: Any) -> list[tf.Tensor]:
        """Return what heads give before they have looked."""
        made = [tf.zeros(tf.stack([batch_size, self._size]), dtype) for _ in self._heads]
        for each in made:
            each.set_shape([None, self._size])
        return made

    def look(self, state: Any) -> list[tf.Tensor]:
        """Return what each head finds with the state of a cell."""
        query = tf.concat(tf.nest.flatten(state), 1)
        found = []
        for head, (features, vector) in enumerate(self._heads):
            with tf.variable_scope(f"Attention_{head}"):
                shifted = tf.reshape(linear(query, self._size, True), [-1, 1, 1, self._size])
                scores = tf.reduce_sum(vector * tf.tanh(features + shifted), [2, 3])
                weights = tf.reshape(tf.nn.softmax(scores), [-1, self._length, 1, 1])
                found.append(tf.reshape(tf.reduce_sum(weights * self._hidden, [1, 2]), [-1, self._size]))
        return found


def attention_decoder(
    decoder_inputs: Sequence[tf.Tensor],
    initial_state: Any,
    attention_states: tf.Tensor,
    cell: Any,
    output_size: int | None = None,
    num_heads: int = 1,
    loop_function: LoopFunction | None = None,
    dtype: Any = None,
    scope: Any = None,
    initial_state_attention: bool = False,
) -> tuple[list[tf.Tensor], Any]:
    """Unroll a cell over inputs, with attention to states such as those of an encoder.

    Args:
        decoder_inputs: the inputs, [batch, depth] each.
        initial_state: the state of the cell before the first one.
        attention_states: [batch, length, size].
        cell: the cell.
        output_size: of the outputs; that of the cell unless given.
        num_heads: how many read the states, each by itself.
        loop_function: makes each input but the first from the output before, in place of what is given.
        dtype: of the variables; that of the scope unless given.
        scope: of the variables; ``attention_decoder`` unless given.
        initial_state_attention: look at the states before the first step, too; else zeros stand for what is found.

    Returns:
        The outputs, and the last state.

    Raises:
        ConfigError: There are no inputs, no heads, or the size of the states or of an input is not known.

    Source:
        Grammar as a Foreign Language, http://arxiv.org/abs/1412.7449.
    """
    _check_attention(decoder_inputs, attention_states, num_heads)
    with tf.variable_scope(scope or "attention_decoder", dtype=dtype) as current:
        attention = _Attention(attention_states, num_heads)
        state, size = initial_state, cell.output_size if output_size is None else output_size
        found = attention.zeros(tf.shape(decoder_inputs[0])[0], current.dtype)
        if initial_state_attention:
            found = attention.look(initial_state)
        outputs: list[tf.Tensor] = []
        for index, given in enumerate(decoder_inputs):
            if index > 0:
                current.reuse_variables()
            step_input = _input_of_step(index, given, outputs, loop_function)
            joined = linear([step_input, *found], step_input.shape.as_list()[1], True)
            output, state = cell(joined, state)
            with tf.variable_scope(current, reuse=True if index > 0 or initial_state_attention else None):
                found = attention.look(state)
            with tf.variable_scope("AttnOutputProjection"):
                outputs.append(linear([output, *found], size, True))
    return outputs, state


def _check_attention(inputs: Sequence[tf.Tensor], states: tf.Tensor, num_heads: int) -> None:
    if not inputs or num_heads < 1:
        raise ConfigError(
            f"attention_decoder got {len(inputs)} inputs and num_heads={num_heads}: expected at least 1 of each"
        )
    if states.shape.rank != 3 or tf.dimension_value(states.shape[2]) is None:
        raise ConfigError(
            f"got attention_states of shape {states.shape}: expected [batch, length, size] of a known size"
        )
    shape = inputs[0].shape
    if shape.rank != 2 or shape.as_list()[1] is None:
        raise ConfigError(f"got decoder_inputs of shape {shape}: expected [batch, depth] of a known depth")


@like(
    embedding_rnn_decoder,
    after={
        "initial_state": {"attention_states": parameter("attention_states", tf.Tensor)},
        "embedding_size": {"num_heads": 1, "output_size": parameter("output_size", int | None, None)},
        "update_embedding_for_previous": {"dtype": None},
        "scope": {"initial_state_attention": False},
    },
)
def embedding_attention_decoder(
    decoder_inputs: Any,
    num_symbols: int,
    embedding_size: int,
    output_projection: Any,
    feed_previous: bool,
    update_embedding_for_previous: bool,
    dtype: Any,
    scope: Any,
    **given: Any,
) -> tuple[list[tf.Tensor], Any]:
    """Unroll a cell over symbols, with attention: `attention_decoder` and `embedding_rnn_decoder` in one.

    ``scope`` is ``embedding_attention_decoder`` unless given.
    """
    check_projection(output_projection, num_symbols)
    with tf.variable_scope(scope or "embedding_attention_decoder", dtype=dtype):
        shape, update = [num_symbols, embedding_size], update_embedding_for_previous
        inputs, loop_function = _embed(decoder_inputs, shape, output_projection, feed_previous, update)
        return attention_decoder(inputs, loop_function=loop_function, **given)


LossFn = Callable[..., tf.Tensor]
"""From ``labels`` and ``logits`` to losses of [batch]."""
_SMALL = 1e-12


def sequence_loss_by_example(
    logits: Sequence[tf.Tensor],
    targets: Sequence[tf.Tensor],
    weights: Sequence[tf.Tensor],
    average_across_timesteps: bool = True,
    softmax_loss_function: LossFn | None = None,
    name: str | None = None,
) -> tf.Tensor:
    """Return the weighted cross-entropy of each sequence of a batch.

    Args:
        logits: the scores, [batch, num_symbols] for each step.
        targets: the symbols, int32 of [batch] each.
        weights: [batch] each.
        average_across_timesteps: divide by the sum of the weights.
        softmax_loss_function: in place of the cross-entropy.
        name: of the operations.

    Raises:
        ConfigError: The lists differ in length, or are empty.
    """
    if not len(logits) == len(targets) == len(weights) > 0:
        raise ConfigError(
            f"got logits, targets and weights of {len(logits)}, {len(targets)} and {len(weights)} steps: expected "
            "lists "
            "of one length"
        )
    with tf.name_scope(name, "sequence_loss_by_example", [*logits, *targets, *weights]):
        parts = [
            _loss(score, target, softmax_loss_function) * weight
            for score, target, weight in zip(logits, targets, weights, strict=True)
        ]
        total = tf.add_n(parts)
        return total / (tf.add_n(list(weights)) + _SMALL) if average_across_timesteps else total


def _loss(logits: tf.Tensor, target: tf.Tensor, function: LossFn | None) -> tf.Tensor:
    if function is not None:
        return function(labels=target, logits=logits)
    return tf.nn.sparse_softmax_cross_entropy_with_logits(labels=tf.reshape(target, [-1]), logits=logits)


@like(sequence_loss_by_example, after={"average_across_timesteps": {"average_across_batch": True}})
def sequence_loss(
    logits: Any, targets: Any, weights: Any, average_across_batch: bool, name: str | None, **given: Any
) -> tf.Tensor:
    """Return the weighted cross-entropy of a batch: the sum of `sequence_loss_by_example`, whose arguments these are.

    With ``average_across_batch`` it is divided by the number of sequences.
    """
    with tf.name_scope(name, "sequence_loss", [*logits, *targets, *weights]):
        losses = sequence_loss_by_example(logits, targets, weights, **given)
        total = tf.reduce_sum(losses)
        return total / tf.cast(tf.shape(targets[0])[0], total.dtype) if average_across_batch else total


def model_with_buckets(
    encoder_inputs: Sequence[tf.Tensor],
    decoder_inputs: Sequence[tf.Tensor],
    targets: Sequence[tf.Tensor],
    weights: Sequence[tf.Tensor],
    buckets: Sequence[tuple[int, int]],
    seq2seq: Callable[[Any, Any], tuple[list[tf.Tensor], Any]],
    softmax_loss_function: LossFn | None = None,
    per_example_loss: bool = False,
    name: str | None = None,
) -> tuple[list[list[tf.Tensor]], list[tf.Tensor]]:
    """Build a model for several lengths of sequences, with the same variables; return outputs and losses of each.

    Args:
        encoder_inputs: as long as the longest bucket.
        decoder_inputs: inputs of the decoder.
        targets: the wanted outputs.
        weights: of the targets.
        buckets: the numbers of steps to read and to write, in rising order.
        seq2seq: makes the outputs and the last state from both lists of inputs.
        softmax_loss_function: in place of the cross-entropy.
        per_example_loss: a loss for each sequence of a batch, instead of one for all.
        name: of the operations.

    Raises:
        ConfigError: A list is shorter than the last bucket.
    """
    num_read, num_written = buckets[-1]
    for kind, values, wanted in (
        ("encoder_inputs", encoder_inputs, num_read),
        ("targets", targets, num_written),
        ("weights", weights, num_written),
    ):
        if len(values) < wanted:
            raise ConfigError(f"got {kind} of {len(values)} steps: expected the {wanted} steps of the last bucket")
    loss = sequence_loss_by_example if per_example_loss else sequence_loss
    outputs, losses = [], []
    with tf.name_scope(name, "model_with_buckets", [*encoder_inputs, *decoder_inputs, *targets, *weights]):
        for index, (read, written) in enumerate(buckets):
            with tf.variable_scope(tf.get_variable_scope(), reuse=True if index > 0 else None):
                outputs.append(seq2seq(encoder_inputs[:read], decoder_inputs[:written])[0])
                lists = outputs[-1], targets[:written], weights[:written]
                losses.append(loss(*lists, softmax_loss_function=softmax_loss_function))
    return outputs, losses


Decoded = tuple[list[tf.Tensor], Any]
"""The outputs of a decoder, and its last state."""


def basic_rnn_seq2seq(
    encoder_inputs: Sequence[tf.Tensor],
    decoder_inputs: Sequence[tf.Tensor],
    cell: Any,
    dtype: Any = tf.float32,
    scope: Any = None,
) -> Decoded:
    """Unroll a cell over inputs, and a copy of it from the resulting state over others.

    Args:
        encoder_inputs: [batch, depth] each.
        decoder_inputs: [batch, depth] each.
        cell: of the decoder; the encoder has a copy.
        dtype: of the first state.
        scope: of the variables; ``basic_rnn_seq2seq`` by default.

    Returns:
        The outputs of the decoder, and its last state.
    """
    with tf.variable_scope(scope or "basic_rnn_seq2seq"):
        _, state = tf.nn.static_rnn(copy.deepcopy(cell), encoder_inputs, dtype=dtype)
        return rnn_decoder(decoder_inputs, state, cell)


@like(basic_rnn_seq2seq, after={"cell": {"loop_function": None}})
def tied_rnn_seq2seq(
    encoder_inputs: Any, decoder_inputs: Any, cell: Any, loop_function: LoopFunction | None, dtype: Any, scope: Any
) -> Decoded:
    """Unroll one cell over the inputs of both, with the same variables; see `basic_rnn_seq2seq` and `rnn_decoder`.

    The variables are inside ``combined_tied_rnn_seq2seq``.
    """
    with tf.variable_scope("combined_tied_rnn_seq2seq"):
        scope = scope or "tied_rnn_seq2seq"
        _, state = tf.nn.static_rnn(cell, encoder_inputs, dtype=dtype, scope=scope)
        tf.get_variable_scope().reuse_variables()
        return rnn_decoder(decoder_inputs, state, cell, loop_function=loop_function, scope=scope)


def embedding_rnn_seq2seq(
    encoder_inputs: Sequence[tf.Tensor],
    decoder_inputs: Sequence[tf.Tensor],
    cell: Any,
    num_encoder_symbols: int,
    num_decoder_symbols: int,
    embedding_size: int,
    output_projection: Projection | None = None,
    feed_previous: bool | tf.Tensor = False,
    dtype: Any = None,
    scope: Any = None,
) -> Decoded:
    """Read symbols, and write others.

    Args:
        encoder_inputs: int32 of [batch] each.
        decoder_inputs: int32 of [batch] each.
        cell: of the decoder; the encoder has a copy.
        num_encoder_symbols: the number of symbols to read.
        num_decoder_symbols: the number of symbols to write.
        embedding_size: the length of their vectors.
        output_projection: makes the scores from an output; without it, outputs are scores.
        feed_previous: feed the symbol with the best score as the next input; may be a tensor.
        dtype: of the variables.
        scope: of the variables; the function's name by default.

    Returns:
        The outputs of the decoder, and its last state.
    """
    with tf.variable_scope(scope or "embedding_rnn_seq2seq", dtype=dtype) as current:
        encoder = EmbeddingWrapper(copy.deepcopy(cell), num_encoder_symbols, embedding_size)
        _, state = tf.nn.static_rnn(encoder, encoder_inputs, dtype=current.dtype)
        writer = _writer(cell, num_decoder_symbols, output_projection)

        def decode(feed: bool) -> Decoded:
            return embedding_rnn_decoder(
                decoder_inputs,
                state,
                writer,
                num_decoder_symbols,
                embedding_size,
                output_projection=output_projection,
                feed_previous=feed,
                update_embedding_for_previous=isinstance(feed_previous, bool),
            )

        return _choose(feed_previous, decode)


def _writer(cell: Any, num_symbols: int, projection: Projection | None) -> Any:
    """Return the cell of a decoder, whose outputs are scores unless a projection makes these."""
    return OutputProjectionWrapper(cell, num_symbols) if projection is None else cell


def _choose(feed_previous: bool | tf.Tensor, decode: Callable[[bool], Decoded]) -> Decoded:
    """Decode with a constant, or by a tensor in one of two ways with the same variables."""
    if isinstance(feed_previous, bool):
        return decode(feed_previous)
    structures: list[Decoded] = []

    def branch(feed: bool) -> list[tf.Tensor]:
        with tf.variable_scope(tf.get_variable_scope(), reuse=True if structures else None):
            structures.append(decode(feed))
        return list(tf.nest.flatten(structures[-1]))

    flat = tf.cond(feed_previous, lambda: branch(True), lambda: branch(False))
    outputs, state = tf.nest.pack_sequence_as(structures[0], flat)
    return outputs, state


@like(
    embedding_rnn_seq2seq,
    without="num_encoder_symbols num_decoder_symbols",
    after={
        "cell": {"": parameter("num_symbols", int)},
        "embedding_size": {"": parameter("num_decoder_symbols", int | None, None)},
    },
)
def embedding_tied_rnn_seq2seq(
    encoder_inputs: Any,
    decoder_inputs: Any,
    cell: Any,
    num_symbols: int,
    embedding_size: int,
    num_decoder_symbols: int | None,
    output_projection: Any,
    feed_previous: Any,
    dtype: Any,
    scope: Any,
) -> Decoded:
    """Read and write symbols of one kind, with one cell and one vector for each symbol; see `embedding_rnn_seq2seq`.

    ``num_decoder_symbols`` of the symbols can be written, by default all.
    """
    num_written = num_symbols if num_decoder_symbols is None else num_decoder_symbols
    check_projection(output_projection, num_written)
    with tf.variable_scope(scope or "embedding_tied_rnn_seq2seq", dtype=dtype) as current:
        embedding = tf.get_variable("embedding", [num_symbols, embedding_size])
        read, given = (
            [tf.nn.embedding_lookup(embedding, each) for each in symbols]
            for symbols in (encoder_inputs, decoder_inputs)
        )
        writer = _writer(cell, num_written, output_projection)
        update = isinstance(feed_previous, bool)

        def decode(feed: bool) -> Decoded:
            loop_function = feeding_back(embedding, output_projection, update) if feed else None
            return tied_rnn_seq2seq(read, given, writer, loop_function=loop_function, dtype=current.dtype)

        return _choose(feed_previous, decode)


@like(embedding_rnn_seq2seq, after={"embedding_size": {"num_heads": 1}, "scope": {"initial_state_attention": False}})
def embedding_attention_seq2seq(
    encoder_inputs: Any,
    decoder_inputs: Any,
    cell: Any,
    num_encoder_symbols: int,
    num_decoder_symbols: int,
    embedding_size: int,
    output_projection: Any,
    feed_previous: Any,
    dtype: Any,
    scope: Any,
    **given: Any,
) -> Decoded:
    """Read symbols, and write others with attention to the encoder's outputs; see `embedding_rnn_seq2seq`.

    ``num_heads`` and ``initial_state_attention`` are those of `attention_decoder`.
    """
    with tf.variable_scope(scope or "embedding_attention_seq2seq", dtype=dtype) as current:
        encoder = EmbeddingWrapper(copy.deepcopy(cell), num_encoder_symbols, embedding_size)
        read, state = tf.nn.static_rnn(encoder, encoder_inputs, dtype=current.dtype)
        states = tf.concat([tf.reshape(each, [-1, 1, cell.output_size]) for each in read], 1)
        writer = _writer(cell, num_decoder_symbols, output_projection)

        def decode(feed: bool) -> Decoded:
            return embedding_attention_decoder(
                decoder_inputs,
                state,
                states,
                writer,
                num_decoder_symbols,
                embedding_size,
                **given,
                output_size=num_decoder_symbols if output_projection is None else None,
                output_projection=output_projection,
                feed_previous=feed,
                update_embedding_for_previous=isinstance(feed_previous, bool),
            )

        return _choose(feed_previous, decode)


def one2many_rnn_seq2seq(
    encoder_inputs: Sequence[tf.Tensor],
    decoder_inputs_dict: Mapping[str, Sequence[tf.Tensor]],
    enc_cell: Any,
    dec_cells_dict: Mapping[str, Any],
    num_encoder_symbols: int,
    num_decoder_symbols_dict: Mapping[str, int],
    embedding_size: int,
    feed_previous: bool | tf.Tensor = False,
    dtype: Any = None,
    scope: Any = None,
) -> tuple[dict[str, list[tf.Tensor]], dict[str, Any]]:
    """Read symbols, and write several sequences of others.

    Args:
        encoder_inputs: int32 of [batch] each.
        decoder_inputs_dict: the same for each of the decoders, by name.
        enc_cell: of the encoder.
        dec_cells_dict: of the decoders.
        num_encoder_symbols: the number of symbols to read.
        num_decoder_symbols_dict: that of each decoder to write.
        embedding_size: the length of their vectors.
        feed_previous: feed the symbol with the best score as the next input; may be a tensor.
        dtype: of the variables.
        scope: of the variables; ``one2many_rnn_seq2seq`` by default.

    Returns:
        The outputs of each decoder, and its last state, by name.
    """
    decoded: dict[str, Decoded] = {}
    with tf.variable_scope(scope or "one2many_rnn_seq2seq", dtype=dtype) as current:
        encoder = EmbeddingWrapper(enc_cell, num_encoder_symbols, embedding_size)
        _, state = tf.nn.static_rnn(encoder, encoder_inputs, dtype=current.dtype)
        for name, inputs in decoder_inputs_dict.items():
            num_symbols = num_decoder_symbols_dict[name]
            with tf.variable_scope(f"one2many_decoder_{name}"):
                writer = OutputProjectionWrapper(dec_cells_dict[name], num_symbols)
                decode = partial(embedding_rnn_decoder, inputs, state, writer, num_symbols, embedding_size, None)
                decoded[name] = _choose(feed_previous, decode)
    return {name: each[0] for name, each in decoded.items()}, {name: each[1] for name, each in decoded.items()}
