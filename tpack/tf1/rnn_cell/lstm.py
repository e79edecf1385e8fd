"""Cells with long short-term memory, `BasicLSTMCell` and `LSTMCell`, and without: `BasicRNNCell`, `GRUCell`.

The state of the last two is one tensor, their output too; that of the others an `LSTMStateTuple`. Those compute four
gates by one matrix, in the order input, candidate, forget, output. `LSTMCell` has options on top: peepholes, a
projection of the output, and bounds. With ``state_is_tuple=False``, as in scripts of 2016, the state is the two parts
side by side.
"""

import collections
from typing import Any, TypeAlias

import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError, WrongTypeError
from tpack.tf1.rnn_cell.base import LayerRNNCell, UnitSizes, activation_of, check_floating, depth_of, matrix_inputs
from tpack.tf1.signatures import like, parameter
from tpack.utils.validation import check_bool, check_count


class LSTMStateTuple(collections.namedtuple("LSTMStateTuple", ("c", "h"))):
    """The state of a cell with long short-term memory: ``c``, what it remembers, and ``h``, its last output."""

    __slots__ = ()

    @property
    def dtype(self) -> tf.DType:
        """The dtype of both; a state of two is refused."""
        if self.c.dtype != self.h.dtype:
            raise WrongTypeError(f"LSTMStateTuple has {self.c.dtype.name} for c and {self.h.dtype.name} for h")
        return self.c.dtype


LSTMState: TypeAlias = LSTMStateTuple | tf.Tensor


class LSTMSizes(UnitSizes):
    """The sizes of a cell with long short-term memory and no projection."""

    @property
    def state_size(self) -> LSTMStateTuple:
        """The sizes of the memory and of the output."""
        return LSTMStateTuple(self._num_units, self._num_units)


class PlainCell(UnitSizes, LayerRNNCell):
    """Base of the cells of one size and one activation that make their variables in ``build``."""

    def __init__(
        self,
        num_units: int,
        activation: Any = None,
        reuse: Any = None,
        name: str | None = None,
        dtype: Any = None,
        **kwargs: Any,
    ) -> None:
        check_floating(self, dtype)
        super().__init__(_reuse=reuse, name=name, dtype=dtype, **kwargs)
        self.input_spec = matrix_inputs()
        self._num_units = check_count(self, "num_units", num_units)
        self._activation = activation_of(self, activation)


class _LSTM(PlainCell):
    """The common constructor, and how the state is taken apart and put together."""

    @like(PlainCell.__init__, after={"num_units": {"forget_bias": 1.0, "state_is_tuple": True}})
    def __init__(self, forget_bias: float, state_is_tuple: bool, **given: Any) -> None:
        super().__init__(**given)
        self._forget_bias = forget_bias
        self._state_is_tuple = check_bool(self, "state_is_tuple", state_is_tuple)

    @property
    def state_size(self) -> LSTMStateTuple | int:
        """The sizes of ``c`` and ``h``, or their sum."""
        if self._state_is_tuple:
            return LSTMStateTuple(self._num_units, self.output_size)
        return self._num_units + self.output_size

    def _take_apart(self, state: Any) -> tuple[tf.Tensor, tf.Tensor]:
        if not self._state_is_tuple:
            return tuple(tf.split(state, [self._num_units, self.output_size], axis=1))
        if tf.is_tensor(state) or len(state) != 2:
            raise ConfigError(f"{type(self).__name__} got the state {state}: expected an LSTMStateTuple of c and h")
        return tuple(state)

    def _put_together(self, memory: tf.Tensor, output: tf.Tensor) -> LSTMState:
        return LSTMStateTuple(memory, output) if self._state_is_tuple else tf.concat([memory, output], 1)


def lstm_step(
    gates: tf.Tensor, memory: tf.Tensor, forget_bias: float, activation: Any = tf.tanh
) -> tuple[tf.Tensor, tf.Tensor]:
    """Return the output and the memory after a step, from the gates side by side: input, candidate, forget, output."""
    enter, candidate, forget, leave = tf.split(gates, 4, axis=-1)
    kept = memory * tf.sigmoid(forget + tf.constant(forget_bias, forget.dtype))
    memory = kept + tf.sigmoid(enter) * activation(candidate)
    return activation(memory) * tf.sigmoid(leave), memory


class BasicLSTMCell(_LSTM):
    """The cell without options.

    Args:
        forget_bias: what is added to the forget gate; give 0.0 to restore a checkpoint of CudnnLSTM.
        state_is_tuple: whether the state is an `LSTMStateTuple`, or one tensor of both.

    Creates:
        ``kernel`` of [depth + num_units, 4 * num_units] and ``bias``.

    Raises:
        ConfigError: A state comes that is not a pair.

    Source:
        Zaremba et al., Recurrent Neural Network Regularization, 2014.
    """

    def build(self, inputs_shape: Any) -> None:
        """Make the variables for inputs of a shape."""
        depth = depth_of(self, inputs_shape)
        check_floating(self, self.dtype)
        columns = 4 * self._num_units
        self._kernel = self.add_variable("kernel", shape=[depth + self._num_units, columns])
        self._bias = self.add_variable("bias", shape=[columns], initializer=tf.zeros_initializer())
        self.built = True

    def call(self, inputs: tf.Tensor, state: Any) -> tuple[tf.Tensor, LSTMState]:
        """Compute a step."""
        memory, last = self._take_apart(state)
        gates = tf.nn.bias_add(tf.matmul(tf.concat([inputs, last], 1), self._kernel), self._bias)
        output, memory = lstm_step(gates, memory, self._forget_bias, self._activation)
        return output, self._put_together(memory, output)


class LSTMCell(_LSTM):
    """The cell with peepholes, a projection and bounds.

    Args:
        cell_clip: a bound for what is remembered.
        initializer: of the matrices and peepholes; the default is that of the scope.
        num_proj: the size of the output, which a matrix then makes; the default is ``num_units``, without a matrix.
        proj_clip: a bound for the output, where it is made by a matrix.
        num_unit_shards: how many variables the kernel is split into.
        num_proj_shards: how many variables the projection is split into.
        forget_bias: what is added to the forget gate; give 0.0 to restore a checkpoint of CudnnLSTM.
        state_is_tuple: whether the state is an `LSTMStateTuple`, or one tensor of both.

    Creates:
        ``kernel`` of [depth + output_size, 4 * num_units], ``bias``, with peepholes ``w_f_diag``, ``w_i_diag`` and
        ``w_o_diag`` of [num_units], and with a projection ``projection/kernel``.

    Raises:
        ConfigError: A state comes that is not a pair.

    Source:
        Sak et al., Long Short-Term Memory Recurrent Neural Network Architectures for Large Scale Acoustic Modeling,
        2014.
    """

    @like(
        _LSTM.__init__,
        after={
            "num_units": {
                "use_peepholes": False,
                "cell_clip": parameter("cell_clip", float | None, None),
                "initializer": None,
                "num_proj": parameter("num_proj", int | None, None),
                "proj_clip": parameter("proj_clip", float | None, None),
                "num_unit_shards": parameter("num_unit_shards", int | None, None),
                "num_proj_shards": parameter("num_proj_shards", int | None, None),
            }
        },
    )
    def __init__(
        self,
        use_peepholes: bool,
        cell_clip: float | None,
        initializer: Any,
        num_proj: int | None,
        proj_clip: float | None,
        num_unit_shards: int | None,
        num_proj_shards: int | None,
        **given: Any,
    ) -> None:
        super().__init__(**given)
        self._num_proj = None if num_proj is None else check_count(self, "num_proj", num_proj)
        self._use_peepholes = bool(use_peepholes)
        self._cell_clip, self._proj_clip = cell_clip, proj_clip
        self._initializer = initializer
        self._shards = (num_unit_shards, num_proj_shards)

    @property
    def output_size(self) -> int:
        """The size of the output."""
        return self._num_units if self._num_proj is None else self._num_proj

    def build(self, inputs_shape: Any) -> None:
        """Make the variables for inputs of a shape."""
        rows = depth_of(self, inputs_shape) + self.output_size
        check_floating(self, self.dtype)
        self._kernel = self._add_matrix("kernel", [rows, 4 * self._num_units], self._shards[0])
        bias_initializer = tf.zeros_initializer()
        self._bias = self.add_variable("bias", shape=[4 * self._num_units], initializer=bias_initializer)
        if self._use_peepholes:
            self._w_f_diag, self._w_i_diag, self._w_o_diag = (
                self.add_variable(f"w_{gate}_diag", shape=[self._num_units], initializer=self._initializer)
                for gate in "fio"
            )
        if self._num_proj is not None:
            self._proj_kernel = self._add_matrix(
                "projection/kernel", [self._num_units, self._num_proj], self._shards[1]
            )
        self.built = True

    def call(self, inputs: tf.Tensor, state: Any) -> tuple[tf.Tensor, LSTMState]:
        """Compute a step."""
        memory, last = self._take_apart(state)
        gates = tf.nn.bias_add(tf.matmul(tf.concat([inputs, last], 1), self._kernel), self._bias)
        enter, candidate, forget, leave = tf.split(gates, 4, axis=1)
        forget += tf.constant(self._forget_bias, forget.dtype)
        if self._use_peepholes:
            forget, enter = forget + self._w_f_diag * memory, enter + self._w_i_diag * memory
        memory = tf.sigmoid(forget) * memory + tf.sigmoid(enter) * self._activation(candidate)
        if self._cell_clip is not None:
            memory = tf.clip_by_value(memory, -self._cell_clip, self._cell_clip)
        if self._use_peepholes:
            leave += self._w_o_diag * memory
        output = self._project(tf.sigmoid(leave) * self._activation(memory))
        return output, self._put_together(memory, output)

    def _project(self, output: tf.Tensor) -> tf.Tensor:
        if self._num_proj is None:
            return output
        output = tf.matmul(output, self._proj_kernel)
        return output if self._proj_clip is None else tf.clip_by_value(output, -self._proj_clip, self._proj_clip)

    def _add_matrix(self, name: str, shape: list[int], shards: int | None) -> Any:
        partitioner = None if shards is None else tf.fixed_size_partitioner(shards)
        # What splits a variable asks the dtype for its size, which the name of one has not.
        dtype = tf.as_dtype(self.dtype)
        return self.add_variable(name, shape, dtype, initializer=self._initializer, partitioner=partitioner)


class BasicRNNCell(PlainCell):
    """The plain cell: ``activation([inputs, state] @ kernel + bias)`` is output and next state.

    Creates:
        ``kernel`` of [depth + num_units, num_units] and ``bias``.
    """

    def build(self, inputs_shape: Any) -> None:
        """Make the variables for inputs of a shape."""
        depth = depth_of(self, inputs_shape)
        check_floating(self, self.dtype)
        self._kernel = self.add_variable("kernel", shape=[depth + self._num_units, self._num_units])
        self._bias = self.add_variable("bias", shape=[self._num_units], initializer=tf.zeros_initializer())
        self.built = True

    def call(self, inputs: tf.Tensor, state: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Compute a step."""
        output = tf.nn.bias_add(tf.matmul(tf.concat([inputs, state], 1), self._kernel), self._bias)
        output = self._activation(output)
        return output, output


class GRUCell(PlainCell):
    """The gated recurrent unit: a candidate, and a gate that says how much of the state stays.

    Args:
        activation: of the candidate, a function, or its name in ``tf.nn``; the default is tanh.
        kernel_initializer: of both matrices; the default is that of the scope.
        bias_initializer: of both biases; the default is ones for the gates and zeros for the candidate.

    Creates:
        ``gates/kernel`` of [depth + num_units, 2 * num_units], ``gates/bias``, ``candidate/kernel`` of
        [depth + num_units, num_units] and ``candidate/bias``.

    Source:
        Cho et al., Learning Phrase Representations using RNN Encoder-Decoder, 2014.
    """

    @like(PlainCell.__init__, after={"reuse": {"kernel_initializer": None, "bias_initializer": None}})
    def __init__(self, kernel_initializer: Any, bias_initializer: Any, **given: Any) -> None:
        super().__init__(**given)
        self._kernel_initializer = kernel_initializer
        self._bias_initializer = bias_initializer

    def build(self, inputs_shape: Any) -> None:
        """Make the variables for inputs of a shape."""
        rows = depth_of(self, inputs_shape) + self._num_units
        check_floating(self, self.dtype)
        self._gate_kernel, self._gate_bias = self._add_pair("gates", rows, 2 * self._num_units, 1.0)
        self._candidate_kernel, self._candidate_bias = self._add_pair("candidate", rows, self._num_units, 0.0)
        self.built = True

    def call(self, inputs: tf.Tensor, state: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Compute a step."""
        gates = tf.nn.bias_add(tf.matmul(tf.concat([inputs, state], 1), self._gate_kernel), self._gate_bias)
        reset, update = tf.split(tf.sigmoid(gates), 2, axis=1)
        joined = tf.concat([inputs, reset * state], 1)
        candidate = self._activation(tf.nn.bias_add(tf.matmul(joined, self._candidate_kernel), self._candidate_bias))
        new_state = update * state + (1 - update) * candidate
        return new_state, new_state

    def _add_pair(self, name: str, rows: int, columns: int, bias: float) -> tuple[Any, Any]:
        """Make a matrix and a bias, which begins with a number unless the user says how."""
        initializer = self._bias_initializer
        if initializer is None:
            initializer = tf.constant_initializer(bias)
        kernel = self.add_variable(f"{name}/kernel", shape=[rows, columns], initializer=self._kernel_initializer)
        return kernel, self.add_variable(f"{name}/bias", shape=[columns], initializer=initializer)
