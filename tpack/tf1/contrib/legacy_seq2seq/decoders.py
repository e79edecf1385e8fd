"""Decoders that are unrolled over a list of inputs, with attention and without."""

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError
from tpack.tf1.rnn_cell.base import linear
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
            f"output_projection for {num_symbols} symbols must be [size, {num_symbols}] and [{num_symbols}], "
            f"got {weights} and {biases}"
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
        inputs, loop_function = _embed(
            decoder_inputs,
            (num_symbols, embedding_size),
            output_projection,
            feed_previous=feed_previous,
            update_embedding=update_embedding_for_previous,
        )
        return rnn_decoder(inputs, initial_state, cell, loop_function=loop_function)


def _embed(
    symbols: Sequence[tf.Tensor],
    shape: tuple[int, int],
    projection: Projection | None,
    *,
    feed_previous: bool,
    update_embedding: bool,
) -> tuple[list[tf.Tensor], LoopFunction | None]:
    embedding = tf.get_variable("embedding", list(shape))
    loop_function = feeding_back(embedding, projection, update_embedding) if feed_previous else None
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
        raise ConfigError(f"attention_decoder wants inputs and heads, got {len(inputs)} and {num_heads}")
    if states.shape.rank != 3 or tf.dimension_value(states.shape[2]) is None:
        raise ConfigError(f"attention_states must be [batch, length, size] of a known size, got {states.shape}")
    shape = inputs[0].shape
    if shape.rank != 2 or shape.as_list()[1] is None:
        raise ConfigError(f"decoder_inputs must be [batch, depth] of a known depth, got {shape}")


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
    initial_state: Any,
    attention_states: tf.Tensor,
    cell: Any,
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
        inputs, loop_function = _embed(
            decoder_inputs,
            (num_symbols, embedding_size),
            output_projection,
            feed_previous=feed_previous,
            update_embedding=update_embedding_for_previous,
        )
        return attention_decoder(inputs, initial_state, attention_states, cell, loop_function=loop_function, **given)
