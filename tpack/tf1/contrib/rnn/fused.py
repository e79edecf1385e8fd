"""Networks that take a whole sequence at once: `LSTMBlockFusedCell`, and cells made to do so.

They are called with inputs of [time, batch, depth], or a list of matrices, and return outputs of the same kind and the
last state.
"""

from typing import Any, TypeAlias

import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError
from tpack.tf1.contrib.rnn.block import add_lstm_variables, lstm_weights
from tpack.tf1.layers.base import Layer
from tpack.tf1.layers.input_spec import InputSpec
from tpack.tf1.rnn_cell.base import check_cell, depth_of
from tpack.tf1.rnn_cell.lstm import LSTMStateTuple
from tpack.tf1.signatures import like
from tpack.utils.validation import check_count

Sequences: TypeAlias = Any
"""A tensor of [time, batch, depth], or a list of tensors of [batch, depth]."""


class FusedRNNCell:
    """Base of cells that are called with a whole sequence."""

    def __call__(
        self,
        inputs: Sequences,
        initial_state: Any = None,
        dtype: Any = None,
        sequence_length: Any = None,
        scope: Any = None,
    ) -> tuple[Sequences, Any]:
        """Compute all steps of [time, batch, depth], or of a list of [batch, depth].

        The initial state is zeros of ``dtype`` by default; ``sequence_length`` [batch] is that of the inputs. Returned
        are the outputs, and the state after the last step of each sequence.
        """
        raise NotImplementedError(f"{type(self).__name__} has no __call__: it says how a sequence is computed")


class FusedRNNCellAdaptor(FusedRNNCell):
    """Calls a cell on a whole sequence.

    Args:
        use_dynamic_rnn: whether a loop computes the steps, or each has its own part of the graph.
    """

    def __init__(self, cell: Any, use_dynamic_rnn: bool = False) -> None:
        self._cell = check_cell(self, "cell", cell)
        self._use_dynamic_rnn = use_dynamic_rnn

    @like(FusedRNNCell.__call__)
    def __call__(self, inputs: Sequences, **options: Any) -> tuple[Sequences, Any]:
        """Compute all steps; see `FusedRNNCell`."""
        if self._use_dynamic_rnn:
            outputs, state = tf.nn.dynamic_rnn(self._cell, _stacked(inputs), time_major=True, **options)
        else:
            outputs, state = tf.nn.static_rnn(self._cell, _unstacked(inputs), **options)
        return _like(inputs, outputs), state


class TimeReversedFusedRNN(FusedRNNCell):
    """Goes through sequences from their ends to their beginnings."""

    def __init__(self, cell: FusedRNNCell) -> None:
        self._cell = cell

    @like(FusedRNNCell.__call__)
    def __call__(self, inputs: Sequences, sequence_length: Any, scope: Any, **given: Any) -> tuple[Sequences, Any]:
        """Compute all steps, the last first; see `FusedRNNCell`."""
        reversed_inputs = _like(inputs, _reversed(_stacked(inputs), sequence_length))
        options = {} if scope is None else {"scope": scope}
        outputs, state = self._cell(reversed_inputs, sequence_length=sequence_length, **given, **options)
        return _like(inputs, _reversed(_stacked(outputs), sequence_length)), state


class LSTMBlockWrapper(Layer):
    """The base of networks with long short-term memory that take a whole sequence.

    A subclass has ``num_units`` and ``_call_cell(inputs, initial_cell_state, initial_output, dtype, sequence_length)``,
    which returns what is remembered after each step, and the outputs.
    """

    def __call__(self, inputs: Sequences, *args: Any, **kwargs: Any) -> tuple[Sequences, LSTMStateTuple]:
        """Compute all steps; see `FusedRNNCell`."""
        outputs, state = super().__call__(_stacked(inputs), *args, **kwargs)
        return _like(inputs, outputs), state

    @property
    def num_units(self) -> int:
        """The size of the state and the output."""
        raise NotImplementedError(f"{type(self).__name__} has no num_units: it says how large its state is")

    def _call_cell(
        self, inputs: tf.Tensor, initial_cell_state: Any, initial_output: Any, dtype: Any, sequence_length: Any
    ) -> tuple[tf.Tensor, tf.Tensor]:
        raise NotImplementedError(f"{type(self).__name__} has no _call_cell: it computes all steps")

    def call(
        self, inputs: tf.Tensor, initial_state: Any = None, dtype: Any = None, sequence_length: Any = None
    ) -> tuple[tf.Tensor, LSTMStateTuple]:
        """Compute all steps of [time, batch, depth]; see `FusedRNNCell`.

        Raises:
            ConfigError: The inputs have another rank, or neither a state nor a dtype came.
        """
        if inputs.shape.rank != 3:
            raise ConfigError(
                f"{type(self).__name__} got inputs of shape {inputs.shape}: expected [time, batch, depth]"
            )
        if initial_state is None and dtype is None:
            raise ConfigError(f"{type(self).__name__} got neither initial_state nor dtype: expected one of them")
        if initial_state is None:
            zeros = tf.zeros(tf.stack([tf.shape(inputs)[1], self.num_units]), dtype)
            zeros.set_shape([inputs.shape[1], self.num_units])
            initial_state = (zeros, zeros)
        memory, output = initial_state
        lengths = None if sequence_length is None else tf.cast(sequence_length, tf.int32)
        memories, outputs = self._call_cell(inputs, memory, output, memory.dtype, lengths)
        final = LSTMStateTuple(_last(memories, memory, lengths), _last(outputs, output, lengths))
        return _masked(outputs, lengths), final


class LSTMBlockFusedCell(LSTMBlockWrapper):
    """A network with long short-term memory of which one operation computes all steps.

    Args:
        cell_clip: a bound for what is remembered, of which gradients take no notice.

    Creates:
        ``kernel``, ``bias``, and with peepholes ``w_i_diag``, ``w_f_diag`` and ``w_o_diag``.
    """

    def __init__(
        self,
        num_units: int,
        forget_bias: float = 1.0,
        cell_clip: float | None = None,
        use_peephole: bool = False,
        reuse: Any = None,
        dtype: Any = None,
        name: str | None = "lstm_fused_cell",
    ) -> None:
        super().__init__(_reuse=reuse, name=name, dtype=dtype)
        self.input_spec = InputSpec(ndim=3)
        self._num_units = check_count(self, "num_units", num_units)
        self._forget_bias = forget_bias
        self._cell_clip = -1 if cell_clip is None else cell_clip
        self._use_peephole = bool(use_peephole)

    @property
    def num_units(self) -> int:
        """The size of the state and the output."""
        return self._num_units

    def build(self, input_shape: Any) -> None:
        """Make the variables for inputs of a shape."""
        rows = depth_of(self, input_shape) + self._num_units
        add_lstm_variables(self, rows, self._num_units, use_peephole=self._use_peephole)
        self.built = True

    def _call_cell(
        self, inputs: tf.Tensor, initial_cell_state: Any, initial_output: Any, dtype: Any, sequence_length: Any
    ) -> tuple[tf.Tensor, tf.Tensor]:
        longest = tf.shape(inputs)[0] if sequence_length is None else tf.reduce_max(sequence_length)
        steps = tf.raw_ops.BlockLSTM(
            seq_len_max=tf.cast(longest, tf.int64),
            x=inputs,
            cs_prev=initial_cell_state,
            h_prev=initial_output,
            **lstm_weights(self, self._num_units, dtype),
            forget_bias=self._forget_bias,
            cell_clip=self._cell_clip,
            use_peephole=self._use_peephole,
        )
        return steps.cs, steps.h


def _stacked(sequences: Sequences) -> tf.Tensor:
    return tf.stack(sequences) if isinstance(sequences, (list, tuple)) else tf.convert_to_tensor(sequences)


def _unstacked(sequences: Sequences) -> list[tf.Tensor]:
    return list(sequences) if isinstance(sequences, (list, tuple)) else tf.unstack(sequences)


def _like(inputs: Sequences, outputs: Sequences) -> Sequences:
    return _unstacked(outputs) if isinstance(inputs, (list, tuple)) else _stacked(outputs)


def _reversed(sequences: tf.Tensor, lengths: Any) -> tf.Tensor:
    if lengths is None:
        return tf.reverse(sequences, [0])
    return tf.reverse_sequence(sequences, lengths, seq_axis=0, batch_axis=1)


def _masked(outputs: tf.Tensor, lengths: tf.Tensor | None) -> tf.Tensor:
    if lengths is None:
        return outputs
    mask = tf.transpose(tf.sequence_mask(lengths, tf.shape(outputs)[0]))
    return tf.where_v2(tf.expand_dims(mask, 2), outputs, tf.zeros([], outputs.dtype))


def _last(values: tf.Tensor, first: tf.Tensor, lengths: tf.Tensor | None) -> tf.Tensor:
    """Return the value after the last step of each example, which for an empty one is the first."""
    if lengths is None:
        return values[-1]
    with_first = tf.concat([tf.expand_dims(first, 0), values], 0)
    return tf.gather_nd(with_first, tf.stack([lengths, tf.range(tf.shape(lengths)[0])], 1))
