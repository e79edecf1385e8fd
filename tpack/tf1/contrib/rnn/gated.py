"""More gated cells: with one gate, with two outputs, without a matrix for the state, and of independent units."""

from typing import Any

import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError
from tpack.tf1.rnn_cell.base import LayerRNNCell, RNNCell, UnitSizes, activation_of, depth_of, linear, matrix_inputs
from tpack.tf1.rnn_cell.lstm import LSTMStateTuple
from tpack.tf1.signatures import like
from tpack.utils.validation import check_count

_INITIALIZERS: Any = {"reuse": {"kernel_initializer": None, "bias_initializer": None}}


class UGRNNCell(UnitSizes, RNNCell):
    """A cell with one gate, which says how much of the state stays.

    Creates:
        ``kernel`` and ``bias``.

    Source:
        Collins et al., Capacity and Trainability in Recurrent Neural Networks, 2016.
    """

    def __init__(
        self,
        num_units: int,
        initializer: Any = None,
        forget_bias: float = 1.0,
        activation: Any = tf.tanh,
        reuse: Any = None,
    ) -> None:
        super().__init__(_reuse=reuse)
        self._num_units = check_count(self, "num_units", num_units)
        self._initializer, self._forget_bias, self._activation = initializer, forget_bias, activation

    def call(self, inputs: tf.Tensor, state: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Compute a step."""
        depth_of(self, inputs.shape)
        with tf.variable_scope(tf.get_variable_scope(), initializer=self._initializer):
            gate, candidate = tf.split(linear([inputs, state], 2 * self._num_units), 2, axis=1)
        kept = tf.sigmoid(gate + self._forget_bias)
        new_state = kept * state + (1 - kept) * self._activation(candidate)
        return new_state, new_state


class IntersectionRNNCell(UnitSizes, RNNCell):
    """A cell with a gate for the state and one for the output, which lets the inputs through.

    Args:
        num_in_proj: the size that a matrix gives the inputs; needed if theirs is not ``num_units``.
        forget_bias: what is added to both gates.
        y_activation: the function of the output.

    Creates:
        ``in_projection/kernel`` and ``in_projection/bias`` where the inputs are projected, ``kernel`` and ``bias``.

    Raises:
        ConfigError: The inputs have another size than the state, and nothing gives them that size.

    Source:
        Collins et al., Capacity and Trainability in Recurrent Neural Networks, 2016.
    """

    def __init__(
        self,
        num_units: int,
        num_in_proj: int | None = None,
        initializer: Any = None,
        forget_bias: float = 1.0,
        y_activation: Any = tf.nn.relu,
        reuse: Any = None,
    ) -> None:
        super().__init__(_reuse=reuse)
        self._num_units, self._num_in_proj = check_count(self, "num_units", num_units), num_in_proj
        self._initializer, self._forget_bias, self._y_activation = initializer, forget_bias, y_activation

    def call(self, inputs: tf.Tensor, state: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Compute a step."""
        with tf.variable_scope(tf.get_variable_scope(), initializer=self._initializer):
            inputs = self._project(inputs)
            products = tf.split(linear([inputs, state], 4 * self._num_units), 4, axis=1)
        state_gate, new, output_gate, output = products
        kept = tf.sigmoid(state_gate + self._forget_bias)
        passed = tf.sigmoid(output_gate + self._forget_bias)
        new_state = kept * state + (1 - kept) * tf.tanh(new)
        return passed * inputs + (1 - passed) * self._y_activation(output), new_state

    def _project(self, inputs: tf.Tensor) -> tf.Tensor:
        depth = depth_of(self, inputs.shape)
        if depth == self._num_units:
            return inputs
        if self._num_in_proj != self._num_units:
            raise ConfigError(
                f"IntersectionRNNCell got inputs of depth {depth}, num_units={self._num_units} and "
                f"num_in_proj={self._num_in_proj}: expected num_in_proj={self._num_units}"
            )
        with tf.variable_scope("in_projection"):
            return linear(inputs, self._num_units)


class _Unit(UnitSizes, LayerRNNCell):
    """The constructor and the sizes of the cells below."""

    def __init__(
        self,
        num_units: int,
        activation: Any = None,
        reuse: Any = None,
        name: str | None = None,
        dtype: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(_reuse=reuse, name=name, dtype=dtype, **kwargs)
        self.input_spec = matrix_inputs()
        self._num_units = check_count(self, "num_units", num_units)
        self._activation = activation_of(self, activation)


class SRUCell(_Unit):
    """A simple recurrent unit: no matrix is multiplied with the state.

    Creates:
        ``kernel`` of [depth, 4 * num_units] and ``bias`` of [2 * num_units].

    Source:
        Lei et al., Training RNNs as Fast as CNNs, 2017.
    """

    @like(_Unit.__init__, without="dtype")
    def __init__(self, **given: Any) -> None:
        super().__init__(**given)

    def build(self, inputs_shape: Any) -> None:
        """Make the variables for inputs of a shape."""
        shape = [depth_of(self, inputs_shape), 4 * self._num_units]
        self._kernel = self.add_variable("kernel", shape=shape)
        self._bias = self.add_variable("bias", shape=[2 * self._num_units], initializer=tf.zeros_initializer())
        self.built = True

    def call(self, inputs: tf.Tensor, state: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Compute a step."""
        candidate, forget, reset, passed = tf.split(tf.matmul(inputs, self._kernel), 4, axis=1)
        gates = tf.sigmoid(tf.nn.bias_add(tf.concat([forget, reset], 1), self._bias))
        forget, reset = tf.split(gates, 2, axis=1)
        memory = forget * state + (1 - forget) * candidate
        return reset * self._activation(memory) + (1 - reset) * passed, memory


class IndRNNCell(_Unit):
    """The plain cell, each unit of which sees of the state itself only.

    Creates:
        ``kernel_w`` of [depth, num_units], ``kernel_u`` of [1, num_units] and ``bias``.

    Source:
        Li et al., Independently Recurrent Neural Network, 2018.
    """

    def build(self, inputs_shape: Any) -> None:
        """Make the variables for inputs of a shape."""
        self._weights = _Independent(self, "", depth_of(self, inputs_shape), self._num_units)
        self.built = True

    def call(self, inputs: tf.Tensor, state: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Compute a step."""
        output = self._activation(self._weights(inputs, state))
        return output, output


class IndyGRUCell(_Unit):
    """The gated recurrent unit, each unit of which sees of the state itself only.

    Args:
        kernel_initializer: of the matrices that the inputs are multiplied with.
        bias_initializer: of both biases; the default is ones for the gates and zeros for the candidate.

    Creates:
        ``gates/kernel_w``, ``gates/kernel_u``, ``gates/bias``, ``candidate/kernel``, ``candidate/kernel_u`` and
        ``candidate/bias``.
    """

    @like(_Unit.__init__, without="kwargs", after=_INITIALIZERS)
    def __init__(self, kernel_initializer: Any, bias_initializer: Any, **given: Any) -> None:
        super().__init__(**given)
        self._initializers = (kernel_initializer, bias_initializer)

    def build(self, inputs_shape: Any) -> None:
        """Make the variables for inputs of a shape."""
        depth = depth_of(self, inputs_shape)
        kernel, bias = self._initializers
        gate_bias = tf.constant_initializer(1.0) if bias is None else bias
        self._gates = _Independent(self, "gates/", depth, 2 * self._num_units, kernel=kernel, bias=gate_bias)
        self._candidate = _Independent(
            self, "candidate/", depth, self._num_units, kernel_name="kernel", kernel=kernel, bias=bias
        )
        self.built = True

    def call(self, inputs: tf.Tensor, state: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Compute a step."""
        gates = tf.sigmoid(self._gates(inputs, tf.tile(state, [1, 2])))
        reset, update = tf.split(gates, 2, axis=1)
        new_state = update * state + (1 - update) * self._activation(self._candidate(inputs, reset * state))
        return new_state, new_state


class IndyLSTMCell(_Unit):
    """The cell with long short-term memory, each unit of which sees of the last output itself only.

    Args:
        kernel_initializer: of the matrix that the inputs are multiplied with.
        bias_initializer: of the bias; the default is zeros.

    Creates:
        ``kernel_w``, ``kernel_u`` and ``bias``.

    Source:
        Gonnet and Deselaers, IndyLSTMs: Independently Recurrent LSTMs, 2019.
    """

    @like(_Unit.__init__, without="kwargs", after={"num_units": {"forget_bias": 1.0}, **_INITIALIZERS})
    def __init__(self, forget_bias: float, kernel_initializer: Any, bias_initializer: Any, **given: Any) -> None:
        super().__init__(**given)
        self._forget_bias = forget_bias
        self._initializers = (kernel_initializer, bias_initializer)

    @property
    def state_size(self) -> LSTMStateTuple:
        """The sizes of what is remembered and of the output."""
        return LSTMStateTuple(self._num_units, self._num_units)

    def build(self, inputs_shape: Any) -> None:
        """Make the variables for inputs of a shape."""
        kernel, bias = self._initializers
        depth = depth_of(self, inputs_shape)
        self._weights = _Independent(self, "", depth, 4 * self._num_units, kernel=kernel, bias=bias)
        self.built = True

    def call(self, inputs: tf.Tensor, state: Any) -> tuple[tf.Tensor, LSTMStateTuple]:
        """Compute a step."""
        memory, last = state
        gates = self._weights(inputs, tf.tile(last, [1, 4]))
        enter, candidate, forget, leave = tf.split(gates, 4, axis=1)
        kept = memory * tf.sigmoid(forget + self._forget_bias)
        memory = kept + tf.sigmoid(enter) * self._activation(candidate)
        output = self._activation(memory) * tf.sigmoid(leave)
        return output, LSTMStateTuple(memory, output)


class _Independent:
    """The variables of independent units: a matrix for the inputs, a number for each unit, and a bias."""

    def __init__(
        self,
        layer: LayerRNNCell,
        prefix: str,
        depth: int,
        size: int,
        *,
        kernel_name: str = "kernel_w",
        kernel: Any = None,
        bias: Any = None,
    ) -> None:
        of_state = tf.random_uniform_initializer(-1, 1)
        self._kernel = layer.add_variable(f"{prefix}{kernel_name}", shape=[depth, size], initializer=kernel)
        self._factors = layer.add_variable(f"{prefix}kernel_u", shape=[1, size], initializer=of_state)
        of_bias = tf.zeros_initializer() if bias is None else bias
        self._bias = layer.add_variable(f"{prefix}bias", shape=[size], initializer=of_bias)

    def __call__(self, inputs: tf.Tensor, state: tf.Tensor) -> tf.Tensor:
        return tf.nn.bias_add(tf.matmul(inputs, self._kernel) + state * self._factors, self._bias)
