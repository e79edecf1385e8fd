"""Sequence to sequence over lists: an encoder and a decoder in one, and their losses."""

import copy
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError
from tpack.tf1.contrib.legacy_seq2seq.decoders import (
    LoopFunction,
    Projection,
    check_projection,
    embedding_attention_decoder,
    embedding_rnn_decoder,
    feeding_back,
    rnn_decoder,
)
from tpack.tf1.contrib.rnn.wrappers import EmbeddingWrapper, OutputProjectionWrapper

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
            f"logits, targets and weights must be lists of one length, got {len(logits)}, {len(targets)} and "
            f"{len(weights)}"
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


def sequence_loss(
    logits: Sequence[tf.Tensor],
    targets: Sequence[tf.Tensor],
    weights: Sequence[tf.Tensor],
    average_across_timesteps: bool = True,
    average_across_batch: bool = True,
    softmax_loss_function: LossFn | None = None,
    name: str | None = None,
) -> tf.Tensor:
    """Return the weighted cross-entropy of all sequences of a batch: `sequence_loss_by_example`, summed.

    Args:
        logits: the scores, [batch, num_symbols] for each step.
        targets: the symbols, int32 of [batch] each.
        weights: [batch] each.
        average_across_timesteps: divide each sequence's by the sum of its weights.
        average_across_batch: divide by the number of sequences.
        softmax_loss_function: in place of the cross-entropy.
        name: of the operations.
    """
    with tf.name_scope(name, "sequence_loss", [*logits, *targets, *weights]):
        losses = sequence_loss_by_example(logits, targets, weights, average_across_timesteps, softmax_loss_function)
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
    """Build a model for several lengths of sequences, with the same variables.

    Args:
        encoder_inputs: what is read, as long as the longest.
        decoder_inputs: what the decoder is given.
        targets: what it is to write.
        weights: of the targets.
        buckets: how many steps are read and written, from the shortest to the longest.
        seq2seq: makes the outputs and the last state from both lists of inputs.
        softmax_loss_function: in place of the cross-entropy.
        per_example_loss: a loss for each sequence of a batch, and not for all.
        name: of the operations.

    Returns:
        For each bucket the outputs, and the loss.

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
            raise ConfigError(f"{kind} must have the {wanted} steps of the last bucket, got {len(values)}")
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
    """Unroll a cell over inputs, and another of its kind from the state so reached over others.

    Args:
        encoder_inputs: [batch, depth] each.
        decoder_inputs: [batch, depth] each.
        cell: of the decoder; the encoder has a copy.
        dtype: of the first state.
        scope: of the variables; ``basic_rnn_seq2seq`` unless given.

    Returns:
        The outputs of the decoder, and its last state.
    """
    with tf.variable_scope(scope or "basic_rnn_seq2seq"):
        _, state = tf.nn.static_rnn(copy.deepcopy(cell), encoder_inputs, dtype=dtype)
        return rnn_decoder(decoder_inputs, state, cell)


def tied_rnn_seq2seq(
    encoder_inputs: Sequence[tf.Tensor],
    decoder_inputs: Sequence[tf.Tensor],
    cell: Any,
    loop_function: LoopFunction | None = None,
    dtype: Any = tf.float32,
    scope: Any = None,
) -> Decoded:
    """Unroll one cell over the inputs of both, with the same variables.

    Args:
        encoder_inputs: [batch, depth] each.
        decoder_inputs: [batch, depth] each.
        cell: the cell.
        loop_function: as for `rnn_decoder`.
        dtype: of the first state.
        scope: of the variables, inside ``combined_tied_rnn_seq2seq``; ``tied_rnn_seq2seq`` unless given.

    Returns:
        The outputs of the decoder, and its last state.
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
        num_encoder_symbols: how many are read.
        num_decoder_symbols: how many are written.
        embedding_size: the length of their vectors.
        output_projection: makes the scores from an output; without it, outputs are scores.
        feed_previous: take the symbol with the best score as the next one; may be a tensor.
        dtype: of the variables.
        scope: of the variables; ``embedding_rnn_seq2seq`` unless given.

    Returns:
        The outputs of the decoder, and its last state.
    """
    with tf.variable_scope(scope or "embedding_rnn_seq2seq", dtype=dtype) as current:
        encoder = EmbeddingWrapper(copy.deepcopy(cell), num_encoder_symbols, embedding_size)
        _, state = tf.nn.static_rnn(encoder, encoder_inputs, dtype=current.dtype)
        writer = OutputProjectionWrapper(cell, num_decoder_symbols) if output_projection is None else cell

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


def _choose(feed_previous: bool | tf.Tensor, decode: Callable[[bool], Decoded]) -> Decoded:
    """Decode in one way, or in the one that a tensor says: the variables are the same."""
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


def embedding_tied_rnn_seq2seq(
    encoder_inputs: Sequence[tf.Tensor],
    decoder_inputs: Sequence[tf.Tensor],
    cell: Any,
    num_symbols: int,
    embedding_size: int,
    num_decoder_symbols: int | None = None,
    output_projection: Projection | None = None,
    feed_previous: bool | tf.Tensor = False,
    dtype: Any = None,
    scope: Any = None,
) -> Decoded:
    """Read and write symbols of one kind, with one cell and one vector for each symbol.

    Args:
        encoder_inputs: int32 of [batch] each.
        decoder_inputs: int32 of [batch] each.
        cell: the cell.
        num_symbols: how many there are.
        embedding_size: the length of their vectors.
        num_decoder_symbols: how many of them can be written; all unless given.
        output_projection: makes the scores from an output; without it, outputs are scores.
        feed_previous: take the symbol with the best score as the next one; may be a tensor.
        dtype: of the variables.
        scope: of the variables; ``embedding_tied_rnn_seq2seq`` unless given.

    Returns:
        The outputs of the decoder, and its last state.
    """
    num_written = num_symbols if num_decoder_symbols is None else num_decoder_symbols
    check_projection(output_projection, num_written)
    with tf.variable_scope(scope or "embedding_tied_rnn_seq2seq", dtype=dtype) as current:
        embedding = tf.get_variable("embedding", [num_symbols, embedding_size])
        read, given = (
            [tf.nn.embedding_lookup(embedding, each) for each in symbols]
            for symbols in (encoder_inputs, decoder_inputs)
        )
        writer = OutputProjectionWrapper(cell, num_written) if output_projection is None else cell
        update = isinstance(feed_previous, bool)

        def decode(feed: bool) -> Decoded:
            loop_function = feeding_back(embedding, output_projection, update) if feed else None
            return tied_rnn_seq2seq(read, given, writer, loop_function=loop_function, dtype=current.dtype)

        return _choose(feed_previous, decode)


def embedding_attention_seq2seq(
    encoder_inputs: Sequence[tf.Tensor],
    decoder_inputs: Sequence[tf.Tensor],
    cell: Any,
    num_encoder_symbols: int,
    num_decoder_symbols: int,
    embedding_size: int,
    num_heads: int = 1,
    output_projection: Projection | None = None,
    feed_previous: bool | tf.Tensor = False,
    dtype: Any = None,
    scope: Any = None,
    initial_state_attention: bool = False,
) -> Decoded:
    """Read symbols, and write others with attention to the outputs of the encoder.

    Args:
        encoder_inputs: int32 of [batch] each.
        decoder_inputs: int32 of [batch] each.
        cell: of the decoder; the encoder has a copy.
        num_encoder_symbols: how many are read.
        num_decoder_symbols: how many are written.
        embedding_size: the length of their vectors.
        num_heads: how many read the outputs of the encoder.
        output_projection: makes the scores from an output; without it, outputs are scores.
        feed_previous: take the symbol with the best score as the next one; may be a tensor.
        dtype: of the variables.
        scope: of the variables; ``embedding_attention_seq2seq`` unless given.
        initial_state_attention: as for `attention_decoder`.

    Returns:
        The outputs of the decoder, and its last state.
    """
    with tf.variable_scope(scope or "embedding_attention_seq2seq", dtype=dtype) as current:
        encoder = EmbeddingWrapper(copy.deepcopy(cell), num_encoder_symbols, embedding_size)
        read, state = tf.nn.static_rnn(encoder, encoder_inputs, dtype=current.dtype)
        states = tf.concat([tf.reshape(each, [-1, 1, cell.output_size]) for each in read], 1)
        writer = OutputProjectionWrapper(cell, num_decoder_symbols) if output_projection is None else cell

        def decode(feed: bool) -> Decoded:
            return embedding_attention_decoder(
                decoder_inputs,
                state,
                states,
                writer,
                num_decoder_symbols,
                embedding_size,
                num_heads=num_heads,
                output_size=num_decoder_symbols if output_projection is None else None,
                output_projection=output_projection,
                feed_previous=feed,
                update_embedding_for_previous=isinstance(feed_previous, bool),
                initial_state_attention=initial_state_attention,
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
        num_encoder_symbols: how many are read.
        num_decoder_symbols_dict: how many each decoder writes.
        embedding_size: the length of their vectors.
        feed_previous: take the symbol with the best score as the next one; may be a tensor.
        dtype: of the variables.
        scope: of the variables; ``one2many_rnn_seq2seq`` unless given.

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
                decode = partial(embedding_rnn_decoder, inputs, state, writer, num_symbols, embedding_size)
                decoded[name] = _choose(feed_previous, partial(_fed, decode))
    return {name: each[0] for name, each in decoded.items()}, {name: each[1] for name, each in decoded.items()}


def _fed(decode: Callable[..., Decoded], feed: bool) -> Decoded:
    return decode(feed_previous=feed)
