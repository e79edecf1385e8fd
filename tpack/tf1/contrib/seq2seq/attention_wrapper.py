"""`AttentionWrapper`: a cell that looks at a memory in each step, and is fed with what it saw in the step before."""

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError, WrongTypeError
from tpack.tf1.contrib.seq2seq.attention import AttentionMechanism, AttentionWrapperState
from tpack.tf1.layers.core import Dense
from tpack.tf1.rnn_cell.base import CellOfCells, check_cell
from tpack.utils.validation import check_function, mismatch, shown


class AttentionWrapper(CellOfCells):
    """A cell that looks at a memory by one mechanism or several.

    In each step the cell gets its input together with what was seen before; its output is the query; what is seen, the
    values weighted by the alignments, is joined with the output and goes through a layer. That is the attention.

    Args:
        attention_mechanism: a mechanism, or a list of them.
        attention_layer_size: the size of the attention, or a list of one for each mechanism; None is what is seen
            itself, without a layer.
        alignment_history: whether the state has all alignments.
        cell_input_fn: makes the input of the cell of (inputs, attention); None joins them.
        output_attention: whether the attention is the output, or that of the cell.
        initial_cell_state: the state of the cell at the beginning; None is zeros.
        attention_layer: in place of the size, a layer or a list of them.
        attention_fn: of (mechanism, cell output, attention state, layer), returns the attention, alignments and state.
        dtype: of the layers that are made.

    Creates:
        ``attention_layer/kernel``, with several also ``attention_layer_1/kernel``, and what cell and mechanisms do.

    Raises:
        WrongTypeError: The cell, a mechanism or a function is of another kind.
        ConfigError: Sizes or layers are not one for each mechanism, or both are given.
    """

    def __init__(
        self,
        cell: Any,
        attention_mechanism: Any,
        attention_layer_size: Any = None,
        alignment_history: bool = False,
        cell_input_fn: Callable[[Any, Any], Any] | None = None,
        output_attention: bool = True,
        initial_cell_state: Any = None,
        name: str | None = None,
        attention_layer: Any = None,
        attention_fn: Callable[..., Any] | None = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(name=name, dtype=dtype)
        self._cell = check_cell(self, "cell", cell)
        self._is_multi = isinstance(attention_mechanism, (list, tuple))
        self._attention_mechanisms = _checked_mechanisms(self, attention_mechanism)
        if cell_input_fn is not None:
            check_function(self, "cell_input_fn", cell_input_fn)
        self._cell_input_fn = cell_input_fn or (lambda inputs, attention: tf.concat([inputs, attention], -1))
        self._attention_fn = compute_attention if attention_fn is None else attention_fn
        if attention_layer_size is not None and attention_layer is not None:
            raise ConfigError("AttentionWrapper: only one of attention_layer_size and attention_layer may be given")
        self._attention_layers = self._layers_of(attention_layer_size, attention_layer, dtype)
        self._attention_layer_size = self._size_of_attention()
        self._output_attention = output_attention
        self._alignment_history = alignment_history
        with tf.name_scope(name, "AttentionWrapperInit"):
            self._initial_cell_state = self._checked_initial(initial_cell_state)

    def _layers_of(self, sizes: Any, layers: Any, dtype: Any) -> list[Any] | None:
        if layers is not None:
            return self._one_for_each("attention_layer", layers)
        if sizes is None:
            return None
        sizes = self._one_for_each("attention_layer_size", sizes)
        # The scope of the second one becomes attention_layer_1.
        return [Dense(size, name="attention_layer", use_bias=False, dtype=dtype) for size in sizes]

    def _one_for_each(self, argument: str, given: Any) -> list[Any]:
        entries = list(given) if isinstance(given, (list, tuple)) else [given]
        wanted = len(self._attention_mechanisms)
        if len(entries) != wanted:
            raise ConfigError(
                f"AttentionWrapper got {len(entries)} {argument}: expected one for each of {wanted} mechanisms"
            )
        return entries

    def _size_of_attention(self) -> int:
        depths = [mechanism.values.shape.as_list()[-1] for mechanism in self._attention_mechanisms]
        if self._attention_layers is None:
            return sum(depths)
        # A layer sees the output of the cell and what is seen.
        size = tf.TensorShape([None, self._cell.output_size]).as_list()[-1]
        shapes = [
            layer.compute_output_shape(tf.TensorShape([None, size + depth]))
            for layer, depth in zip(self._attention_layers, depths, strict=True)
        ]
        return sum(tf.TensorShape(shape).as_list()[-1] for shape in shapes)

    def _checked_initial(self, state: Any) -> Any:
        if state is None:
            return None
        first = tf.nest.flatten(state)[-1]
        batch_size = first.shape.as_list()[0] or tf.shape(first)[0]
        message = (
            f"When constructing AttentionWrapper {self.name}: the batch sizes of the memory (encoder output) and of "
            "initial_cell_state differ. With a BeamSearchDecoder, tile the initial state by tile_batch with beam_width"
        )
        with tf.control_dependencies(self._batch_checks(batch_size, message)):
            return tf.nest.map_structure(lambda part: tf.identity(part, name="check_initial_cell_state"), state)

    def _batch_checks(self, batch_size: Any, message: str) -> list[Any]:
        """Return checks that the memories are of a batch of this size; raise if it is known that they are not."""
        sizes = [getattr(mechanism, "batch_size", None) for mechanism in self._attention_mechanisms]
        return [tf.assert_equal(batch_size, size, message=message) for size in sizes if size is not None]

    def _item_or_tuple(self, entries: Sequence[Any]) -> Any:
        return tuple(entries) if self._is_multi else next(iter(entries))

    def _cells_inside(self) -> list[Any]:
        return [self._cell]

    @property
    def output_size(self) -> Any:
        """The size of the attention, or of the cell's output."""
        return self._attention_layer_size if self._output_attention else self._cell.output_size

    @property
    def state_size(self) -> AttentionWrapperState:
        """The sizes of the state's fields."""
        mechanisms = self._attention_mechanisms
        return AttentionWrapperState(
            cell_state=self._cell.state_size,
            time=tf.TensorShape([]),
            attention=self._attention_layer_size,
            alignments=self._item_or_tuple([mechanism.alignments_size for mechanism in mechanisms]),
            attention_state=self._item_or_tuple([mechanism.state_size for mechanism in mechanisms]),
            alignment_history=self._item_or_tuple(
                [mechanism.alignments_size if self._alignment_history else () for mechanism in mechanisms]
            ),
        )

    def zero_state(self, batch_size: Any, dtype: Any) -> AttentionWrapperState:
        """Return the state before the first step: that of the cell that was given, or zeros.

        Raises:
            tf.errors.InvalidArgumentError: The memories are of another batch size.
        """
        with tf.name_scope(None, f"{type(self).__name__}ZeroState", [batch_size]):
            cell_state = self._initial_cell_state
            if cell_state is None:
                cell_state = self._cell.zero_state(batch_size, dtype)
            message = (
                f"When calling zero_state of AttentionWrapper {self.name}: the batch sizes of the memory (encoder "
                "output) and the one that is asked for differ. With a BeamSearchDecoder, tile the encoder output by "
                "tile_batch with beam_width, and ask for batch_size * beam_width"
            )
            with tf.control_dependencies(self._batch_checks(batch_size, message)):
                cell_state = tf.nest.map_structure(lambda part: tf.identity(part, "checked_cell_state"), cell_state)
            mechanisms = self._attention_mechanisms
            alignments = [mechanism.initial_alignments(batch_size, dtype) for mechanism in mechanisms]
            histories: list[Any] = [()] * len(mechanisms)
            if self._alignment_history:
                options = {"size": 0, "dynamic_size": True}
                histories = [tf.TensorArray(dtype, **options, element_shape=part.shape) for part in alignments]
            return AttentionWrapperState(
                cell_state=cell_state,
                time=tf.zeros([], tf.int32),
                attention=_zeros(batch_size, self._attention_layer_size, dtype),
                alignments=self._item_or_tuple(alignments),
                attention_state=self._item_or_tuple([each.initial_state(batch_size, dtype) for each in mechanisms]),
                alignment_history=self._item_or_tuple(histories),
            )

    def call(self, inputs: Any, state: AttentionWrapperState) -> tuple[Any, AttentionWrapperState]:
        """Make a step on inputs of [B, ...]; raise WrongTypeError if the state is not an `AttentionWrapperState`."""
        if not isinstance(state, AttentionWrapperState):
            raise WrongTypeError(f"AttentionWrapper expected an AttentionWrapperState, got {shown(state)}")
        cell_output, cell_state = self._cell(self._cell_input_fn(inputs, state.attention), state.cell_state)
        cell_output = self._checked_output(cell_output)
        given = [state.attention_state, state.alignment_history]
        states, histories = given if self._is_multi else [[part] for part in given]
        layers = self._attention_layers or [None] * len(self._attention_mechanisms)
        seen = [
            self._attention_fn(mechanism, cell_output, attention_state, layer)
            for mechanism, attention_state, layer in zip(self._attention_mechanisms, states, layers, strict=True)
        ]
        attentions, alignments, next_states = zip(*seen, strict=True)
        if self._alignment_history:
            pairs = zip(histories, alignments, strict=True)
            histories = [history.write(state.time, alignment) for history, alignment in pairs]
        attention = tf.concat(attentions, 1)
        next_state = AttentionWrapperState(
            time=state.time + 1,
            cell_state=cell_state,
            attention=attention,
            attention_state=self._item_or_tuple(next_states),
            alignments=self._item_or_tuple(alignments),
            alignment_history=self._item_or_tuple(histories),
        )
        return (attention if self._output_attention else cell_output), next_state

    def _checked_output(self, cell_output: Any) -> Any:
        batch_size = cell_output.shape.as_list()[0] or tf.shape(cell_output)[0]
        message = (
            f"When applying AttentionWrapper {self.name}: the batch sizes of the memory (encoder output) and of the "
            "query (decoder output) differ. With a BeamSearchDecoder, tile the memory by tile_batch with beam_width."
        )
        with tf.control_dependencies(self._batch_checks(batch_size, message)):
            return tf.identity(cell_output, name="checked_cell_output")


def compute_attention(mechanism: Any, cell_output: Any, attention_state: Any, attention_layer: Any) -> Any:
    """Return the attention of a mechanism for a cell's output [B, size], its alignments and its next state."""
    alignments, next_state = mechanism(cell_output, state=attention_state)
    seen = tf.squeeze(tf.matmul(tf.expand_dims(alignments, 1), mechanism.values), [1])
    if attention_layer is None:
        return seen, alignments, next_state
    return attention_layer(tf.concat([cell_output, seen], 1)), alignments, next_state


def _checked_mechanisms(owner: object, given: Any) -> list[Any]:
    mechanisms = list(given) if isinstance(given, (list, tuple)) else [given]
    for mechanism in mechanisms:
        if not isinstance(mechanism, AttentionMechanism):
            raise WrongTypeError(
                mismatch(owner, "attention_mechanism", mechanism, "an AttentionMechanism or a list of them")
            )
    return mechanisms


def _zeros(batch_size: Any, size: int, dtype: Any) -> Any:
    zeros = tf.zeros(tf.stack([batch_size, size]), dtype)
    zeros.set_shape([tf.get_static_value(batch_size) if tf.is_tensor(batch_size) else batch_size, size])
    return zeros
