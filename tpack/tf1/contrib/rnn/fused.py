"""Networks that take a whole sequence at once, `LSTMBlockFusedCell` and cells made to do so; cells in one operation.

Networks are called with inputs of [time, batch, depth], or a list of matrices, and return outputs of the same kind and
the last state. TensorFlow still has the operations of `LSTMBlockCell` and `GRUBlockCell` and those of their gradients;
the link of the two is here. They compute in float16 and float32, `LSTMCell` and `GRUCell` by formula.
"""

import functools
from typing import Any, TypeAlias

import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError
from tpack.tf1.layers.arguments import InputSpec
from tpack.tf1.layers.base import Layer
from tpack.tf1.rnn_cell.base import LayerRNNCell, UnitSizes, check_cell, depth_of, matrix_inputs
from tpack.tf1.rnn_cell.lstm import LSTMSizes, LSTMStateTuple
from tpack.tf1.signatures import like
from tpack.utils.validation import check_count, shown

Sequences: TypeAlias = Any
"""A tensor of [time, batch, depth], or a list of tensors of [batch, depth]."""


_LSTM_GRADIENT = "TpackLSTMBlockCell"
_GRU_GRADIENT = "TpackGRUBlockCell"
_NO_CLIP = -1.0


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


class _LSTMBlock:
    """The constructor and the variables of cells that one operation computes; stands first among the bases."""

    def __init__(
        self,
        num_units: int,
        forget_bias: float = 1.0,
        cell_clip: float | None = None,
        use_peephole: bool = False,
        reuse: Any = None,
        dtype: Any = None,
        name: str | None = None,
    ) -> None:
        super().__init__(_reuse=reuse, name=name, dtype=dtype)  # type: ignore[call-arg]
        self._num_units = check_count(self, "num_units", num_units)
        clip = _NO_CLIP if cell_clip is None else cell_clip
        self._options = {"forget_bias": forget_bias, "cell_clip": clip, "use_peephole": bool(use_peephole)}

    def build(self, input_shape: Any) -> None:
        """Make the variables for inputs of a shape."""
        cell: Any = self
        rows, columns = depth_of(self, input_shape) + self._num_units, 4 * self._num_units
        kernel = cell.add_variable("kernel", shape=[rows, columns])
        bias = cell.add_variable("bias", shape=[columns], initializer=tf.constant_initializer(0.0))
        self._weights = {"w": kernel, "b": bias}
        if self._options["use_peephole"]:
            for gate in "ifo":
                self._weights[f"wc{gate}"] = cell.add_variable(f"w_{gate}_diag", shape=[self._num_units])
        cell.built = True

    def _operands(self, dtype: tf.DType) -> dict[str, Any]:
        """Return the weights and options of the operation, which takes peepholes even if it does not use them."""
        weights = dict(self._weights)
        if not self._options["use_peephole"]:
            weights.update(dict.fromkeys(("wci", "wcf", "wco"), tf.zeros([self._num_units], dtype)))
        return {**weights, **self._options}


class LSTMBlockFusedCell(_LSTMBlock, LSTMBlockWrapper):
    """A network with long short-term memory of which one operation computes all steps.

    Args:
        cell_clip: a bound for what is remembered, of which gradients take no notice.

    Creates:
        ``kernel``, ``bias``, and with peepholes ``w_i_diag``, ``w_f_diag`` and ``w_o_diag``.
    """

    @like(_LSTMBlock.__init__, name="lstm_fused_cell")
    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self.input_spec = InputSpec(ndim=3)

    @property
    def num_units(self) -> int:
        """The size of the state and the output."""
        return self._num_units

    def _call_cell(
        self, inputs: tf.Tensor, initial_cell_state: Any, initial_output: Any, dtype: Any, sequence_length: Any
    ) -> tuple[tf.Tensor, tf.Tensor]:
        longest = tf.shape(inputs)[0] if sequence_length is None else tf.reduce_max(sequence_length)
        steps = tf.raw_ops.BlockLSTM(
            seq_len_max=tf.cast(longest, tf.int64),
            x=inputs,
            cs_prev=initial_cell_state,
            h_prev=initial_output,
            **self._operands(dtype),
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


class LSTMBlockCell(_LSTMBlock, LSTMSizes, LayerRNNCell):
    """A cell with long short-term memory, in one operation.

    Args:
        cell_clip: a bound for what is remembered, of which gradients take no notice.
        name: of the variable scope; the default lets it load what `LSTMCell` saved.

    Creates:
        ``kernel``, ``bias``, and with peepholes ``w_i_diag``, ``w_f_diag`` and ``w_o_diag``.

    Raises:
        ConfigError: A state comes that is not a pair.
    """

    @like(_LSTMBlock.__init__, without="dtype", after={"use_peephole": {"dtype": None}}, name="lstm_cell")
    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self.input_spec = matrix_inputs()

    def call(self, inputs: tf.Tensor, state: Any) -> tuple[tf.Tensor, LSTMStateTuple]:
        """Compute a step; a state that is not a pair is refused."""
        if tf.is_tensor(state) or len(state) != 2:
            raise ConfigError(f"LSTMBlockCell got the state {shown(state)}: expected an LSTMStateTuple of c and h")
        memory, last = state
        _register_gradients()
        with tf.get_default_graph().gradient_override_map({"LSTMBlockCell": _LSTM_GRADIENT}):
            step = tf.raw_ops.LSTMBlockCell(x=inputs, cs_prev=memory, h_prev=last, **self._operands(inputs.dtype))
        return step.h, LSTMStateTuple(step.cs, step.h)


class GRUBlockCell(UnitSizes, LayerRNNCell):
    """A gated recurrent unit in one operation, with variables under names of its own; see `GRUBlockCellV2`.

    Args:
        cell_size: the older name of ``num_units``.

    Creates:
        ``w_ru``, ``b_ru``, ``w_c`` and ``b_c``.

    Raises:
        ConfigError: The size came under both names, or under none.
    """

    _NAMES = {"w_ru": "w_ru", "b_ru": "b_ru", "w_c": "w_c", "b_c": "b_c"}

    def __init__(
        self,
        num_units: int | None = None,
        cell_size: int | None = None,
        reuse: Any = None,
        name: str | None = "gru_cell",
    ) -> None:
        super().__init__(_reuse=reuse, name=name)
        if (num_units is None) == (cell_size is None):
            raise ConfigError(f"{type(self).__name__} got {num_units=} and {cell_size=}: expected one of them")
        self.input_spec = matrix_inputs()
        self._num_units = check_count(self, "num_units", cell_size if num_units is None else num_units)

    def build(self, inputs_shape: Any) -> None:
        """Make the variables for inputs of a shape."""
        rows = depth_of(self, inputs_shape) + self._num_units
        columns = {"ru": 2 * self._num_units, "c": self._num_units}
        biases = {"ru": tf.constant_initializer(1.0), "c": tf.constant_initializer(0.0)}
        self._weights = {}
        for part, size in columns.items():
            self._weights[f"w_{part}"] = self.add_variable(self._NAMES[f"w_{part}"], shape=[rows, size])
            self._weights[f"b_{part}"] = self.add_variable(
                self._NAMES[f"b_{part}"], shape=[size], initializer=biases[part]
            )
        self.built = True

    def call(self, inputs: tf.Tensor, h_prev: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Compute a step."""
        _register_gradients()
        with tf.get_default_graph().gradient_override_map({"GRUBlockCell": _GRU_GRADIENT}):
            step = tf.raw_ops.GRUBlockCell(x=inputs, h_prev=h_prev, **self._weights)
        return step.h, step.h


class GRUBlockCellV2(GRUBlockCell):
    """A gated recurrent unit in one operation, with the variables of `GRUCell`, whose checkpoints it loads.

    Creates:
        ``gates/kernel``, ``gates/bias``, ``candidate/kernel`` and ``candidate/bias``.
    """

    _NAMES = {"w_ru": "gates/kernel", "b_ru": "gates/bias", "w_c": "candidate/kernel", "b_c": "candidate/bias"}


@functools.cache
def _register_gradients() -> None:
    """Register the gradients, which TensorFlow takes by name and once for the life of the process."""
    tf.RegisterGradient(_LSTM_GRADIENT)(_lstm_gradient)
    tf.RegisterGradient(_GRU_GRADIENT)(_gru_gradient)


def _lstm_gradient(op: tf.Operation, *grads: tf.Tensor) -> list[tf.Tensor]:
    """Return the gradients of an LSTMBlockCell's inputs: x, cs_prev, h_prev, w, wci, wcf, wco, b."""
    inputs = dict(zip(("x", "cs_prev", "h_prev", "w", "wci", "wcf", "wco", "b"), op.inputs, strict=True))
    outputs = dict(zip(("i", "cs", "f", "o", "ci", "co"), op.outputs[:6], strict=True))
    back = tf.raw_ops.LSTMBlockCellGrad(
        **inputs, **outputs, cs_grad=grads[1], h_grad=grads[6], use_peephole=op.get_attr("use_peephole")
    )
    x, h_prev, w = inputs["x"], inputs["h_prev"], inputs["w"]
    gates = back.dicfo
    of_joined = tf.matmul(gates, w, transpose_b=True)
    of_x, of_h = tf.split(of_joined, [tf.shape(x)[1], tf.shape(h_prev)[1]], axis=1)
    of_w = tf.matmul(tf.concat([x, h_prev], 1), gates, transpose_a=True)
    of_peepholes = [back.wci_grad, back.wcf_grad, back.wco_grad]
    of_x.set_shape(x.shape)
    of_h.set_shape(h_prev.shape)
    return [of_x, back.cs_prev_grad, of_h, of_w, *of_peepholes, tf.reduce_sum(gates, 0)]


def _gru_gradient(op: tf.Operation, *grads: tf.Tensor) -> list[tf.Tensor]:
    """Return the gradients of a GRUBlockCell's inputs: x, h_prev, w_ru, w_c, b_ru, b_c."""
    x, h_prev, w_ru, w_c, b_ru, b_c = op.inputs
    reset, update, candidate, _ = op.outputs
    back = tf.raw_ops.GRUBlockCellGrad(
        x=x, h_prev=h_prev, w_ru=w_ru, w_c=w_c, b_ru=b_ru, b_c=b_c, r=reset, u=update, c=candidate, d_h=grads[3]
    )
    of_gates, of_candidate = back.d_r_bar_u_bar, back.d_c_bar
    of_w_ru = tf.matmul(tf.concat([x, h_prev], 1), of_gates, transpose_a=True)
    of_w_c = tf.matmul(tf.concat([x, h_prev * reset], 1), of_candidate, transpose_a=True)
    return [back.d_x, back.d_h_prev, of_w_ru, of_w_c, tf.reduce_sum(of_gates, 0), tf.reduce_sum(of_candidate, 0)]
