"""More cells around a cell: with attention to the last outputs, with matrices, an embedding, or a highway."""

from typing import Any

import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError
from tpack.tf1.rnn_cell.base import CellAround, CellOfCells, State, check_cell, depth_of, linear
from tpack.utils import logger
from tpack.utils.validation import check_bool, check_count, check_function


class AttentionCellWrapper(CellOfCells):
    """A cell that attends to its last outputs.

    The inputs and what it attended to last go through a matrix into the cell; the outputs and what it attends to now
    through another one.

    Args:
        attn_length: how many outputs it attends to.
        attn_size: the size of the output; the default is that of the cell.
        attn_vec_size: the size in which states and outputs are compared; the default is ``attn_size``.
        input_size: the size that the inputs of the cell get; the default is that of the inputs.
        state_is_tuple: whether the state is a tuple of the cell's state, what was attended to, and the last outputs, or
            one tensor of all.

    Creates:
        ``kernel`` and ``bias``, ``attn_w``, ``attn_v``, ``kernel`` and ``bias`` under ``attention``, ``kernel`` and
        ``bias`` under ``attn_output_projection``, and the variables of the cell.

    Raises:
        ConfigError: The state of the cell is nested where that of this one is to be one tensor.

    Source:
        Vinyals et al., Grammar as a Foreign Language, 2014.
    """

    def __init__(
        self,
        cell: Any,
        attn_length: int,
        attn_size: int | None = None,
        attn_vec_size: int | None = None,
        input_size: int | None = None,
        state_is_tuple: bool = True,
        reuse: Any = None,
    ) -> None:
        super().__init__(_reuse=reuse)
        self._cell = check_cell(self, "cell", cell)
        self._state_is_tuple = check_bool(self, "state_is_tuple", state_is_tuple)
        if tf.nest.is_nested(cell.state_size) and not state_is_tuple:
            raise ConfigError(
                f"AttentionCellWrapper got state_is_tuple=False and a cell with a state of {cell.state_size}: "
                "expected a "
                "cell whose state is one tensor"
            )
        self._length = check_count(self, "attn_length", attn_length)
        self._size = cell.output_size if attn_size is None else check_count(self, "attn_size", attn_size)
        self._compared = self._size if attn_vec_size is None else check_count(self, "attn_vec_size", attn_vec_size)
        self._input_size = input_size

    @property
    def state_size(self) -> Any:
        """The sizes of the cell's state, of what was attended to and of the last outputs, or their sum."""
        sizes = (self._cell.state_size, self._size, self._size * self._length)
        return sizes if self._state_is_tuple else sum(sizes)

    @property
    def output_size(self) -> int:
        """The size of the output."""
        return self._size

    def _cells_inside(self) -> list[Any]:
        return [self._cell]

    def call(self, inputs: tf.Tensor, state: State) -> tuple[tf.Tensor, State]:
        """Compute a step."""
        if not self._state_is_tuple:
            sizes = [self._cell.state_size, self._size, self._size * self._length]
            state = tf.split(state, sizes, axis=1)
        cell_state, attended, flat_outputs = state
        last_outputs = tf.reshape(flat_outputs, [-1, self._length, self._size])
        joined = linear([inputs, attended], self._input_size or depth_of(self, inputs.shape))
        output, cell_state = self._cell(joined, cell_state)
        attended = self._attend(tf.concat(tf.nest.flatten(cell_state), 1), last_outputs)
        with tf.variable_scope("attn_output_projection"):
            output = linear([output, attended], self._size)
        kept = tf.concat([last_outputs[:, 1:], tf.expand_dims(output, 1)], 1)
        new_state = (cell_state, attended, tf.reshape(kept, [-1, self._length * self._size]))
        return output, new_state if self._state_is_tuple else tf.concat(new_state, 1)

    def _attend(self, query: tf.Tensor, outputs: tf.Tensor) -> tf.Tensor:
        """Return the mean of the last outputs, weighed by how they compare with the state."""
        with tf.variable_scope("attention"):
            shape = [1, 1, self._size, self._compared]
            matrix = tf.reshape(tf.get_variable("attn_w", shape, query.dtype), shape[2:])
            weights = tf.get_variable("attn_v", [self._compared], query.dtype)
            keys = tf.reshape(tf.matmul(tf.reshape(outputs, [-1, self._size]), matrix), [-1, self._length, shape[-1]])
            compared = tf.tanh(keys + tf.expand_dims(linear(query, self._compared), 1))
        scores = tf.nn.softmax(tf.reduce_sum(weights * compared, 2))
        return tf.reduce_sum(tf.expand_dims(scores, 2) * outputs, 1)


class InputProjectionWrapper(CellAround):
    """A cell whose inputs go through a matrix.

    Args:
        num_proj: the size that the inputs get.
        activation: a function of them; the default is none.
        input_size: not used; a warning says so.

    Creates:
        ``kernel``, ``bias``, and the variables of the cell.
    """

    def __init__(
        self, cell: Any, num_proj: int, activation: Any = None, input_size: Any = None, reuse: Any = None
    ) -> None:
        super().__init__(cell, _reuse=reuse)
        if input_size is not None:
            logger.warning("InputProjectionWrapper got input_size, which is not used: the inputs say their size")
        self._num_proj = check_count(self, "num_proj", num_proj)
        self._activation = None if activation is None else check_function(self, "activation", activation)

    def call(self, inputs: tf.Tensor, state: State) -> tuple[Any, State]:
        """Compute a step."""
        projected = linear(inputs, self._num_proj)
        return self.cell(projected if self._activation is None else self._activation(projected), state)


class HighwayWrapper(CellAround):
    """A cell around which the inputs have a way of their own, as wide as a gate lets them.

    It adds no scope to the names of variables.

    Args:
        couple_carry_transform_gates: whether as much of the output is taken as is not of the inputs.
        carry_bias_init: what the bias of the gate begins with.

    Creates:
        ``carry_w`` and ``carry_b``, and without coupling ``transform_w`` and ``transform_b``, in the scope of the call.

    Source:
        Srivastava et al., Highway Networks, 2015. Zilly et al., Recurrent Highway Networks, 2016.
    """

    def __init__(self, cell: Any, couple_carry_transform_gates: bool = True, carry_bias_init: float = 1.0) -> None:
        super().__init__(cell)
        self._is_coupled = check_bool(self, "couple_carry_transform_gates", couple_carry_transform_gates)
        self._bias = carry_bias_init

    def __call__(self, inputs: Any, state: State, scope: Any = None) -> tuple[Any, State]:
        """Compute a step."""
        options = {} if scope is None else {"scope": scope}
        outputs, new_state = self.cell(inputs, state, **options)
        with tf.variable_scope(
            tf.get_variable_scope(), custom_getter=self._remember_variable, auxiliary_name_scope=False
        ):
            return tf.nest.map_structure(self._carry, inputs, outputs), new_state

    def _carry(self, value: tf.Tensor, output: tf.Tensor) -> tf.Tensor:
        if not value.shape.is_compatible_with(output.shape):
            raise ConfigError(f"HighwayWrapper got inputs of {value.shape} and outputs of {output.shape}: expected one")
        carried = self._gate("carry", value, self._bias)
        taken = 1 - carried if self._is_coupled else self._gate("transform", value, -self._bias)
        return value * carried + output * taken

    def _gate(self, name: str, value: tf.Tensor, bias: float) -> tf.Tensor:
        size = depth_of(self, value.shape)
        weights = tf.get_variable(f"{name}_w", [size, size], value.dtype)
        biases = tf.get_variable(f"{name}_b", [size], value.dtype, tf.constant_initializer(bias))
        return tf.sigmoid(tf.nn.bias_add(tf.matmul(value, weights), biases))
