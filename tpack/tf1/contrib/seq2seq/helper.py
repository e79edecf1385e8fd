"""`BasicDecoder`, and its helpers: what a decoder's next input is, from data or from its output.

A helper gives the first inputs, makes a token (a sample) of each output of the decoder, and gives the next input and
who has finished. B sequences of at most T steps; an input has any shape behind [B].
"""

import abc
from collections.abc import Callable
from operator import attrgetter
from typing import Any, NamedTuple

import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError, WrongTypeError
from tpack.tf1.contrib.seq2seq.decoder import Decoder, check_output_layer, map_sizes, output_sizes
from tpack.tf1.layers.base import Layer
from tpack.tf1.rnn_cell.base import check_cell
from tpack.utils.validation import mismatch, owner_name, shown


class Helper(abc.ABC):
    """Base of the sources of a decoder's inputs."""

    @property
    @abc.abstractmethod
    def batch_size(self) -> Any:
        """The number of sequences, a scalar tensor."""

    @property
    @abc.abstractmethod
    def sample_ids_shape(self) -> Any:
        """The shape of a sample without the batch."""

    @property
    @abc.abstractmethod
    def sample_ids_dtype(self) -> Any:
        """The dtype of a sample."""

    @abc.abstractmethod
    def initialize(self, name: str | None = None) -> Any:
        """Return who has finished before the first step, and the first inputs."""

    @abc.abstractmethod
    def sample(self, time: Any, outputs: Any, state: Any, name: str | None = None) -> Any:
        """Return samples, one for each sequence, from the outputs of a step."""

    @abc.abstractmethod
    def next_inputs(self, time: Any, outputs: Any, state: Any, sample_ids: Any, name: str | None = None) -> Any:
        """Return who has finished after a step, the next inputs and the state."""


class _KnownHelper(Helper):
    """A helper that knows its batch and what a sample is: a token, unless a derived one says otherwise."""

    _batch_size: Any = None
    _sample_ids_shape: Any = tf.TensorShape([])
    _sample_ids_dtype: Any = tf.int32

    batch_size = property(attrgetter("_batch_size"), doc="The number of sequences.")
    sample_ids_shape = property(attrgetter("_sample_ids_shape"), doc="The shape of a sample without the batch.")
    sample_ids_dtype = property(attrgetter("_sample_ids_dtype"), doc="The dtype of a sample.")


class CustomHelper(_KnownHelper):
    """A helper of three functions.

    Args:
        initialize_fn: returns who has finished and the first inputs.
        sample_fn: of (time, outputs, state), returns the samples.
        next_inputs_fn: of (time, outputs, state, sample_ids), returns who has finished, inputs and state.
        sample_ids_shape: the shape of a sample without the batch; None is a scalar.
        sample_ids_dtype: the dtype of a sample; None is int32.
    """

    def __init__(
        self,
        initialize_fn: Callable[..., Any],
        sample_fn: Callable[..., Any],
        next_inputs_fn: Callable[..., Any],
        sample_ids_shape: Any = None,
        sample_ids_dtype: Any = None,
    ) -> None:
        self._initialize_fn = initialize_fn
        self._sample_fn = sample_fn
        self._next_inputs_fn = next_inputs_fn
        self._sample_ids_shape = tf.TensorShape(sample_ids_shape or [])
        self._sample_ids_dtype = sample_ids_dtype or tf.int32

    @property
    def batch_size(self) -> Any:
        """The number of sequences, known after `initialize`; refuses before."""
        if self._batch_size is None:
            raise ConfigError("batch_size accessed before initialize was called, which tells it to CustomHelper")
        return self._batch_size

    def initialize(self, name: str | None = None) -> Any:
        """Return what ``initialize_fn`` does."""
        with tf.name_scope(name, "CustomHelperInitialize"):
            finished, next_inputs = self._initialize_fn()
            if self._batch_size is None:
                self._batch_size = tf.size(finished)
        return finished, next_inputs

    def sample(self, time: Any, outputs: Any, state: Any, name: str | None = None) -> Any:
        """Return what ``sample_fn`` does."""
        with tf.name_scope(name, "CustomHelperSample"):
            return self._sample_fn(time=time, outputs=outputs, state=state)

    def next_inputs(self, time: Any, outputs: Any, state: Any, sample_ids: Any, name: str | None = None) -> Any:
        """Return what ``next_inputs_fn`` does."""
        with tf.name_scope(name, "CustomHelperNextInputs"):
            return self._next_inputs_fn(time=time, outputs=outputs, state=state, sample_ids=sample_ids)


class TrainingHelper(_KnownHelper):
    """Feeds the decoder with data, whatever it gives; a sample is the likeliest token.

    Args:
        inputs: the data, a tensor or a nest of them, [B, T, ...].
        sequence_length: the length of each sequence, [B].

    Raises:
        ConfigError: The lengths are not a vector.
    """

    def __init__(self, inputs: Any, sequence_length: Any, time_major: bool = False, name: str | None = None) -> None:
        with tf.name_scope(name, "TrainingHelper"):
            self._sequence_length = tf.convert_to_tensor(sequence_length, name="sequence_length")
            if self._sequence_length.shape.rank != 1:
                shape = self._sequence_length.shape
                raise ConfigError(f"{type(self).__name__} expected sequence_length to be a vector, got shape {shape}")
            self._inputs = tf.nest.map_structure(tf.convert_to_tensor, inputs)
            by_time = self._inputs if time_major else tf.nest.map_structure(swap_batch_and_time, self._inputs)
            self._input_tas = tf.nest.map_structure(unstacked, by_time)
            self._zero_inputs = tf.nest.map_structure(lambda data: tf.zeros_like(data[0]), by_time)
            self._batch_size = tf.size(self._sequence_length)

    inputs = property(attrgetter("_inputs"), doc="The data.")
    sequence_length = property(attrgetter("_sequence_length"), doc="The lengths, [B].")

    def initialize(self, name: str | None = None) -> Any:
        """Return who has finished, those without a step, and the first inputs."""
        with tf.name_scope(name, "TrainingHelperInitialize"):
            finished = tf.equal(0, self._sequence_length)
            return finished, self._inputs_at(0, tf.reduce_all(finished))

    def sample(  # type: ignore[override]
        self, time: Any, outputs: Any, name: str | None = None, **unused_kwargs: Any
    ) -> Any:
        """Return the likeliest tokens."""
        with tf.name_scope(name, "TrainingHelperSample"):
            return tf.argmax(outputs, axis=-1, output_type=tf.int32)

    def next_inputs(  # type: ignore[override]
        self, time: Any, outputs: Any, state: Any, name: str | None = None, **unused_kwargs: Any
    ) -> Any:
        """Return who has finished, the data of the next step, and the state as it is."""
        with tf.name_scope(name, "TrainingHelperNextInputs"):
            next_time = time + 1
            finished = next_time >= tf.cast(self._sequence_length, tf.int32)
            return finished, self._inputs_at(next_time, tf.reduce_all(finished)), state

    def _inputs_at(self, time: Any, is_over: Any) -> Any:
        """Return the data of a step, and zeros when nobody needs it."""

        def read() -> Any:
            return tf.nest.map_structure(lambda array: array.read(time), self._input_tas)

        inputs = tf.cond(is_over, lambda: self._zero_inputs, read)
        tf.nest.map_structure(lambda data, like: data.set_shape(like.shape), inputs, self._zero_inputs)
        return inputs


class GreedyEmbeddingHelper(_KnownHelper):
    """Feeds the decoder with the likeliest token of what it gave before, until it gives the token of the end.

    Args:
        embedding: the embeddings of tokens, [tokens, ...], or a function of tokens.
        start_tokens: the first tokens, [B].
        end_token: the token of the end, a number.

    Raises:
        ConfigError: The first tokens are not a vector, or the token of the end is not a number.
    """

    def __init__(self, embedding: Any, start_tokens: Any, end_token: Any) -> None:
        self._embedding_fn = embedding_function(embedding)
        self._start_tokens = tf.convert_to_tensor(start_tokens, dtype=tf.int32, name="start_tokens")
        self._end_token = tf.convert_to_tensor(end_token, dtype=tf.int32, name="end_token")
        check_tokens(self, self._start_tokens, self._end_token)
        self._batch_size = tf.size(self._start_tokens)
        self._start_inputs = self._embedding_fn(self._start_tokens)

    def initialize(self, name: str | None = None) -> Any:
        """Return that nobody has finished, and the embedded first tokens."""
        return tf.tile([False], [self._batch_size]), self._start_inputs

    def sample(self, time: Any, outputs: Any, state: Any, name: str | None = None) -> Any:
        """Return the likeliest tokens; refuses outputs that are not a tensor."""
        return tf.argmax(_checked_logits(self, outputs), axis=-1, output_type=tf.int32)

    def next_inputs(self, time: Any, outputs: Any, state: Any, sample_ids: Any, name: str | None = None) -> Any:
        """Return who has given the token of the end, the embedded tokens, and the state as it is."""
        finished = tf.equal(sample_ids, self._end_token)
        is_over = tf.reduce_all(finished)
        return finished, tf.cond(is_over, lambda: self._start_inputs, lambda: self._embedding_fn(sample_ids)), state


class SampleEmbeddingHelper(GreedyEmbeddingHelper):
    """Feeds the decoder with tokens drawn from its output before; other arguments are those of `GreedyEmbeddingHelper`.

    Args:
        softmax_temperature: divides logits: more than 1 makes rare tokens more likely. None is 1.

    Raises:
        ConfigError: The first tokens are not a vector, or the token of the end is not a number.
    """

    def __init__(
        self, embedding: Any, start_tokens: Any, end_token: Any, softmax_temperature: Any = None, seed: Any = None
    ) -> None:
        super().__init__(embedding, start_tokens, end_token)
        self._softmax_temperature = softmax_temperature
        self._seed = seed

    def sample(self, time: Any, outputs: Any, state: Any, name: str | None = None) -> Any:
        """Return tokens that are drawn; refuses outputs that are not a tensor."""
        logits = _checked_logits(self, outputs)
        if self._softmax_temperature is not None:
            logits = logits / self._softmax_temperature
        return sample_tokens(logits, self._seed)


class InferenceHelper(_KnownHelper):
    """Feeds the decoder with what a function makes of what it gave before.

    Args:
        sample_fn: makes samples of outputs.
        sample_shape: the shape of a sample without the batch.
        sample_dtype: its dtype.
        start_inputs: the first inputs, [B, ...].
        end_fn: tells of samples who has finished.
        next_inputs_fn: makes inputs of samples; None uses them as they are.
    """

    def __init__(
        self,
        sample_fn: Callable[[Any], Any],
        sample_shape: Any,
        sample_dtype: Any,
        start_inputs: Any,
        end_fn: Callable[[Any], Any],
        next_inputs_fn: Callable[[Any], Any] | None = None,
    ) -> None:
        self._sample_fn = sample_fn
        self._end_fn = end_fn
        self._sample_ids_shape = tf.TensorShape(sample_shape)
        self._sample_ids_dtype = sample_dtype
        self._next_inputs_fn = next_inputs_fn
        self._batch_size = tf.shape(start_inputs)[0]
        self._start_inputs = tf.convert_to_tensor(start_inputs, name="start_inputs")

    def initialize(self, name: str | None = None) -> Any:
        """Return that nobody has finished, and the first inputs."""
        return tf.tile([False], [self._batch_size]), self._start_inputs

    def sample(self, time: Any, outputs: Any, state: Any, name: str | None = None) -> Any:
        """Return what ``sample_fn`` does."""
        return self._sample_fn(outputs)

    def next_inputs(self, time: Any, outputs: Any, state: Any, sample_ids: Any, name: str | None = None) -> Any:
        """Return who has finished, the next inputs, and the state as it is."""
        inputs = sample_ids if self._next_inputs_fn is None else self._next_inputs_fn(sample_ids)
        return self._end_fn(sample_ids), inputs, state


class BasicDecoderOutput(NamedTuple):
    """The output of the cell, after the layer on top, and the helper's sample of it."""

    rnn_output: Any
    sample_id: Any


class BasicDecoder(Decoder):
    """Decode by a cell, with inputs from a helper.

    Args:
        helper: gives inputs and samples.
        initial_state: the state of the cell at the beginning.
        output_layer: a layer of ``tf.layers``, such as ``Dense(vocabulary)``, on each output of the cell.

    Raises:
        WrongTypeError: One of them is of another kind.
    """

    def __init__(self, cell: Any, helper: Helper, initial_state: Any, output_layer: Layer | None = None) -> None:
        check_cell(self, "cell", cell)
        if not isinstance(helper, Helper):
            raise WrongTypeError(mismatch(self, "helper", helper, "a Helper"))
        check_output_layer(self, output_layer)
        self._cell = cell
        self._helper = helper
        self._initial_state = initial_state
        self._output_layer = output_layer

    batch_size = property(attrgetter("_helper.batch_size"), doc="The number of sequences that the helper has.")

    @property
    def output_size(self) -> BasicDecoderOutput:
        """The sizes of the cell's or layer's output, and of a sample."""
        return BasicDecoderOutput(output_sizes(self._cell, self._output_layer), self._helper.sample_ids_shape)

    @property
    def output_dtype(self) -> BasicDecoderOutput:
        """The dtypes of the output, that of the state, and of a sample."""
        dtype = tf.nest.flatten(self._initial_state)[0].dtype
        sizes = output_sizes(self._cell, self._output_layer)
        return BasicDecoderOutput(map_sizes(lambda size: dtype, sizes), self._helper.sample_ids_dtype)

    def initialize(self, name: str | None = None) -> Any:
        """Return who has finished, the first inputs and the first state."""
        return (*self._helper.initialize(), self._initial_state)

    def step(self, time: Any, inputs: Any, state: Any, name: str | None = None) -> Any:
        """Make a step: the cell, the layer, a sample, and the next inputs."""
        with tf.name_scope(name, "BasicDecoderStep", (time, inputs, state)):
            cell_outputs, cell_state = self._cell(inputs, state)
            if self._output_layer is not None:
                cell_outputs = self._output_layer(cell_outputs)
            sample_ids = self._helper.sample(time=time, outputs=cell_outputs, state=cell_state)
            finished, next_inputs, next_state = self._helper.next_inputs(
                time=time, outputs=cell_outputs, state=cell_state, sample_ids=sample_ids
            )
        return BasicDecoderOutput(cell_outputs, sample_ids), next_state, next_inputs, finished


def embedding_function(embedding: Any) -> Callable[[Any], Any]:
    """Return a function of tokens: the one given, or one that looks them up."""
    if callable(embedding):
        return embedding
    return lambda ids: tf.nn.embedding_lookup(embedding, ids)


def check_tokens(owner: object, start_tokens: Any, end_token: Any) -> None:
    """Refuse, by a ConfigError, first tokens that are not a vector, and a token of the end that is not a number."""
    if start_tokens.shape.rank != 1:
        raise ConfigError(f"{owner_name(owner)} got start_tokens of shape {start_tokens.shape}: expected a vector")
    if end_token.shape.rank != 0:
        raise ConfigError(f"{owner_name(owner)} got end_token of shape {end_token.shape}: expected a scalar")


def _checked_logits(owner: object, outputs: Any) -> Any:
    if not tf.is_tensor(outputs):
        raise WrongTypeError(f"{type(owner).__name__} expected outputs to be a single Tensor, got {shown(outputs)}")
    return outputs


def swap_batch_and_time(data: Any) -> Any:
    """Return [T, B, ...] of [B, T, ...]."""
    rank = data.shape.rank
    order = [1, 0, *range(2, rank)] if rank is not None else tf.concat([[1, 0], tf.range(2, tf.rank(data))], axis=0)
    swapped = tf.transpose(data, order)
    if rank is not None:
        batch, time, *others = data.shape.as_list()
        swapped.set_shape([time, batch, *others])
    return swapped


def unstacked(data: Any) -> tf.TensorArray:
    """Return an array that has one entry for each step of [T, ...]."""
    array = tf.TensorArray(data.dtype, size=tf.shape(data)[0], element_shape=data.shape[1:])
    return array.unstack(data)


def sample_tokens(logits: Any, seed: Any) -> Any:
    """Draw a token for each row of logits, [..., tokens] to [...]."""
    rows = tf.reshape(logits, [-1, tf.shape(logits)[-1]])
    drawn = tf.random.categorical(rows, 1, dtype=tf.int32, seed=seed)
    tokens = tf.reshape(drawn, tf.shape(logits)[:-1])
    tokens.set_shape(logits.shape[:-1])
    return tokens
