"""`dynamic_decode`: run a decoder step by step until all sequences have finished; and `sequence_loss`.

A decoder says what it gives in a step (sizes and dtypes), with what it begins, and makes a step. The loop stacks what
it gave over time, and knows who has finished and how long each sequence is.
"""

import abc
from collections.abc import Callable
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError, WrongTypeError
from tpack.tf1.layers.base import Layer
from tpack.utils.validation import mismatch, shown


class Decoder(abc.ABC):
    """Base of the decoders that `dynamic_decode` runs."""

    @property
    def batch_size(self) -> Any:
        """The number of sequences."""
        raise NotImplementedError(f"{type(self).__name__} has no batch_size")

    @property
    def output_size(self) -> Any:
        """The sizes of an output of a step without the batch, in the structure of the output."""
        raise NotImplementedError(f"{type(self).__name__} has no output_size")

    @property
    def output_dtype(self) -> Any:
        """The dtypes of an output, in its structure."""
        raise NotImplementedError(f"{type(self).__name__} has no output_dtype")

    @abc.abstractmethod
    def initialize(self, name: str | None = None) -> Any:
        """Return who has finished before the first step, the first inputs and the first state."""

    @abc.abstractmethod
    def step(self, time: Any, inputs: Any, state: Any, name: str | None = None) -> Any:
        """Make a step: return the outputs, the next state, the next inputs and who has finished."""

    def finalize(self, outputs: Any, final_state: Any, sequence_lengths: Any) -> Any:
        """Return outputs of all steps, time first, and the state, changed; a decoder may lack this method."""
        raise NotImplementedError(f"{type(self).__name__} has no finalize")

    @property
    def tracks_own_finished(self) -> bool:
        """Whether a sequence that has finished may go on, as in a beam whose entries change places."""
        return False


def dynamic_decode(
    decoder: Decoder,
    output_time_major: bool = False,
    impute_finished: bool = False,
    maximum_iterations: Any = None,
    parallel_iterations: int = 32,
    swap_memory: bool = False,
    scope: Any = None,
    **kwargs: Any,
) -> tuple[Any, Any, Any]:
    """Run a decoder until all sequences have finished; return outputs, the last state, and lengths.

    With ``impute_finished`` a finished sequence keeps its state and gives zeros; otherwise it goes on, which is faster,
    and its outputs are to be ignored. ``output_time_major`` saves a transposition. ``kwargs`` are ignored, as in
    TensorFlow 1.

    Shapes:
        [B, T, ...] for the outputs, [B] for the lengths.

    Raises:
        WrongTypeError: ``decoder`` is not a decoder.
        ConfigError: ``maximum_iterations`` is not a scalar, or ``impute_finished`` is asked of a decoder with beams.
    """
    if not isinstance(decoder, Decoder):
        raise WrongTypeError(f"dynamic_decode expected decoder to be a Decoder, got {shown(decoder)}")
    if impute_finished and decoder.tracks_own_finished:
        raise ConfigError(
            f"dynamic_decode got impute_finished=True with {type(decoder).__name__}, whose sequences change places: "
            "expected False"
        )
    with tf.variable_scope(scope, "decoder"):
        limit = _checked_limit(maximum_iterations)
        loop = _Loop(decoder, impute_finished, limit)
        _, arrays, state, _, _, lengths = tf.while_loop(
            lambda time, arrays, state, inputs, finished, lengths: tf.logical_not(tf.reduce_all(finished)),
            loop.step,
            loop.begin(),
            parallel_iterations=parallel_iterations,
            maximum_iterations=limit,
            swap_memory=swap_memory,
        )
        outputs = tf.nest.map_structure(lambda array: array.stack(), arrays)
        outputs, state = _finalized(decoder, outputs, state, lengths)
        if not output_time_major:
            outputs = tf.nest.map_structure(_batch_first, outputs)
    return outputs, state, lengths


def _checked_limit(maximum_iterations: Any) -> Any:
    if maximum_iterations is None:
        return None
    limit = tf.convert_to_tensor(maximum_iterations, dtype=tf.int32, name="maximum_iterations")
    if limit.shape.rank != 0:
        raise ConfigError(f"dynamic_decode got maximum_iterations of shape {limit.shape}: expected a scalar")
    return limit


def _finalized(decoder: Decoder, outputs: Any, state: Any, lengths: Any) -> tuple[Any, Any]:
    # One that has no such method of its own would raise, and so may one that only says that it changes nothing.
    try:
        return decoder.finalize(outputs, state, lengths)
    except NotImplementedError:
        return outputs, state


class _Loop:
    """The steps of a decoder, with what a loop carries on: time, arrays, state, inputs, finished, lengths."""

    def __init__(self, decoder: Decoder, is_imputed: bool, limit: Any) -> None:
        self._decoder = decoder
        self._is_imputed = is_imputed
        self._limit = limit
        self._zero_outputs: Any = None

    def begin(self) -> list[Any]:
        """Return what the loop begins with."""
        finished, inputs, state = self._decoder.initialize()
        self._zero_outputs = _zeros_of(self._decoder)
        if self._limit is not None:
            finished = tf.logical_or(finished, self._limit <= 0)
        lengths = tf.zeros_like(finished, dtype=tf.int32)
        arrays = tf.nest.map_structure(
            lambda zeros: tf.TensorArray(zeros.dtype, size=0, dynamic_size=True, element_shape=zeros.shape),
            self._zero_outputs,
        )
        return [tf.constant(0, name="time"), arrays, state, inputs, finished, lengths]

    def step(self, time: Any, arrays: Any, state: Any, inputs: Any, finished: Any, lengths: Any) -> list[Any]:
        """Make a step."""
        outputs, next_state, next_inputs, decoder_finished = self._decoder.step(time, inputs, state)
        next_finished = decoder_finished
        if not self._decoder.tracks_own_finished:
            next_finished = tf.logical_or(decoder_finished, finished)
        next_lengths = tf.where(finished, lengths, tf.fill(tf.shape(lengths), time + 1))
        next_lengths.set_shape(lengths.shape)
        tf.nest.assert_same_structure(self._zero_outputs, outputs)
        tf.nest.assert_same_structure(state, next_state)
        tf.nest.assert_same_structure(inputs, next_inputs)
        if self._is_imputed:
            outputs = tf.nest.map_structure(lambda new, old: _kept(finished, new, old), outputs, self._zero_outputs)
            next_state = tf.nest.map_structure(lambda new, old: _kept(finished, new, old), next_state, state)
        else:
            next_state = tf.nest.map_structure(_with_shape_of, next_state, state)
        arrays = tf.nest.map_structure(lambda array, output: array.write(time, output), arrays, outputs)
        return [time + 1, arrays, next_state, next_inputs, next_finished, next_lengths]


def _zeros_of(decoder: Decoder) -> Any:
    """Return what a sequence that has finished gives: zeros."""
    batch_size = tf.convert_to_tensor(decoder.batch_size, name="batch_size")
    static = tf.get_static_value(batch_size)

    def zeros(size: Any, dtype: Any) -> Any:
        shape = size if isinstance(size, tf.TensorShape) else tf.TensorShape(size)
        made = tf.zeros(tf.concat([[batch_size], shape.as_list()], axis=0) if shape.rank else [batch_size], dtype)
        made.set_shape([static, *shape.as_list()])
        return made

    sizes, dtypes = _flat_up_to(decoder.output_dtype, decoder.output_size), tf.nest.flatten(decoder.output_dtype)
    return tf.nest.pack_sequence_as(decoder.output_dtype, list(map(zeros, sizes, dtypes)))


def _flat_up_to(structure: Any, sizes: Any) -> list[Any]:
    if not tf.nest.is_nested(structure):
        return [sizes]
    pairs = zip(_children(structure), _children(sizes), strict=True)
    return [size for inner, part in pairs for size in _flat_up_to(inner, part)]


def _children(structure: Any) -> list[Any]:
    return [structure[key] for key in sorted(structure)] if isinstance(structure, dict) else list(structure)


def _kept(finished: Any, new: Any, old: Any) -> Any:
    """Return the old value of sequences that have finished; arrays and what has no batch go on."""
    if isinstance(new, tf.TensorArray) or new.shape.rank == 0:
        return _with_shape_of(new, old)
    is_kept = tf.reshape(finished, tf.concat([[-1], tf.ones([tf.rank(new) - 1], tf.int32)], axis=0))
    return _with_shape_of(tf.where_v2(is_kept, old, new), old)


def _with_shape_of(new: Any, old: Any) -> Any:
    if not isinstance(new, tf.TensorArray):
        new.set_shape(old.shape)
    return new


def _batch_first(output: Any) -> Any:
    rank = output.shape.rank
    order = [1, 0, *range(2, rank)] if rank is not None else tf.concat([[1, 0], tf.range(2, tf.rank(output))], axis=0)
    return tf.transpose(output, order)


def check_output_layer(owner: object, layer: Any) -> None:
    """Refuse what is neither a layer nor None; raise WrongTypeError if it is not."""
    if layer is not None and not (isinstance(layer, Layer) or hasattr(layer, "compute_output_shape")):
        raise WrongTypeError(mismatch(owner, "output_layer", layer, "a Layer, or None"))


def output_sizes(cell: Any, layer: Any) -> Any:
    """Return the sizes of what a cell gives, with a layer on top if there is one."""
    if layer is None:
        return cell.output_size
    return map_sizes(
        lambda size: layer.compute_output_shape(tf.TensorShape([None]).concatenate(size))[1:], cell.output_size
    )


def map_sizes(function: Any, sizes: Any) -> Any:
    """Return a structure of sizes with a function of each."""
    if tf.nest.is_nested(sizes) and not isinstance(sizes, tf.TensorShape):
        return tf.nest.pack_sequence_as(sizes, [map_sizes(function, size) for size in sizes])
    return function(sizes)


# Weights may all be zero.
_TINY = 1e-12


def sequence_loss(
    logits: Any,
    targets: Any,
    weights: Any,
    average_across_timesteps: bool = True,
    average_across_batch: bool = True,
    sum_over_timesteps: bool = False,
    sum_over_batch: bool = False,
    softmax_loss_function: Callable[..., Any] | None = None,
    name: str | None = None,
) -> Any:
    """Return the weighted cross entropy of sequences: a scalar; [B], [T] or [B, T] where less is averaged or summed.

    Averages divide by the sum of weights, sums by the number of weights that are not 0. A ``softmax_loss_function`` of
    (labels=, logits=) replaces the cross entropy.

    Shapes:
        logits [B, T, tokens], targets [B, T], weights [B, T], 0 behind the end of a sequence.

    Raises:
        ConfigError: A shape is another one, or an average and a sum over the same are asked for.
    """
    for what, tensor, rank in (("logits", logits, 3), ("targets", targets, 2), ("weights", weights, 2)):
        _check_rank(what, tensor, rank)
    for what, is_average, is_sum in (
        ("timesteps", average_across_timesteps, sum_over_timesteps),
        ("batch", average_across_batch, sum_over_batch),
    ):
        if is_average and is_sum:
            raise ConfigError(f"sequence_loss: average_across_{what} and sum_over_{what} cannot both be True")
    averaged, summed = (average_across_batch, average_across_timesteps), (sum_over_batch, sum_over_timesteps)
    with tf.name_scope(name, "sequence_loss", [logits, targets, weights]):
        weights = tf.convert_to_tensor(weights)
        losses = _token_losses(logits, targets, softmax_loss_function) * weights
        # Where both are asked for, over different dimensions, the average is made, if not both sums are.
        if any(averaged) and not all(summed):
            return _divided(losses, weights, _axes(averaged))
        if any(summed):
            return _divided(losses, tf.cast(tf.not_equal(weights, 0), losses.dtype), _axes(summed))
        return losses


def _check_rank(what: str, tensor: Any, rank: int) -> None:
    shape = tf.convert_to_tensor(tensor).shape
    if shape.rank not in (rank, None):
        wanted = "[batch_size x sequence_length" + (" x logits]" if rank == 3 else "]")
        raise ConfigError(f"sequence_loss got {what} of shape {shape}: expected {wanted}")


def _token_losses(logits: Any, targets: Any, function: Callable[..., Any] | None) -> Any:
    flat = tf.reshape(logits, [-1, tf.shape(logits)[2]])
    labels = tf.reshape(targets, [-1])
    if function is None:
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=flat)
    else:
        losses = function(labels=labels, logits=flat)
    return tf.reshape(losses, tf.shape(logits)[:2])


def _axes(over: tuple[bool, bool]) -> list[int]:
    return [axis for axis, is_reduced in enumerate(over) if is_reduced]


def _divided(losses: Any, weights: Any, axes: list[int]) -> Any:
    return tf.reduce_sum(losses, axes) / (tf.reduce_sum(weights, axes) + _TINY)
