"""More gated cells: with one gate, two outputs, no matrix for the state, independent units, or phases.

`PhasedLSTMCell` is for events at any time.
"""

import math
from collections.abc import Callable
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError
from tpack.tf1.rnn_cell.base import LayerRNNCell, RNNCell, UnitSizes, depth_of, linear
from tpack.tf1.rnn_cell.lstm import LSTMSizes, LSTMStateTuple, PlainCell, lstm_step
from tpack.tf1.signatures import like
from tpack.utils.validation import check_count, check_number

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


class SRUCell(PlainCell):
    """A simple recurrent unit: no matrix is multiplied with the state.

    Creates:
        ``kernel`` of [depth, 4 * num_units] and ``bias`` of [2 * num_units].

    Source:
        Lei et al., Training RNNs as Fast as CNNs, 2017.
    """

    @like(PlainCell.__init__, without="dtype")
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


class IndRNNCell(PlainCell):
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


class IndyGRUCell(PlainCell):
    """The gated recurrent unit, each unit of which sees of the state itself only.

    Args:
        kernel_initializer: of the matrices that the inputs are multiplied with.
        bias_initializer: of both biases; the default is ones for the gates and zeros for the candidate.

    Creates:
        ``gates/kernel_w``, ``gates/kernel_u``, ``gates/bias``, ``candidate/kernel``, ``candidate/kernel_u`` and
        ``candidate/bias``.
    """

    @like(PlainCell.__init__, without="kwargs", after=_INITIALIZERS)
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


class IndyLSTMCell(LSTMSizes, PlainCell):
    """The cell with long short-term memory, each unit of which sees of the last output itself only.

    Args:
        kernel_initializer: of the matrix that the inputs are multiplied with.
        bias_initializer: of the bias; the default is zeros.

    Creates:
        ``kernel_w``, ``kernel_u`` and ``bias``.

    Source:
        Gonnet and Deselaers, IndyLSTMs: Independently Recurrent LSTMs, 2019.
    """

    @like(PlainCell.__init__, without="kwargs", after={"num_units": {"forget_bias": 1.0}, **_INITIALIZERS})
    def __init__(self, forget_bias: float, kernel_initializer: Any, bias_initializer: Any, **given: Any) -> None:
        super().__init__(**given)
        self._forget_bias = forget_bias
        self._initializers = (kernel_initializer, bias_initializer)

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
        output, memory = lstm_step(gates, memory, self._forget_bias, self._activation)
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


class PhasedLSTMCell(LSTMSizes, RNNCell):
    """A cell that is open in phases, each unit in its own; its inputs are a pair of times, [batch, 1], and values.

    Args:
        leak: how much gets through while a unit is closed.
        ratio_on: for which part of a period units are open to begin with.
        trainable_ratio_on: whether that is trained.
        period_init_min: the shortest period to begin with.
        period_init_max: the longest period to begin with.

    Creates:
        ``kernel`` and ``bias`` under ``mask_gates``, ``new_input`` and ``output_gate``; ``period``, ``phase`` and
        ``ratio_on``.

    Source:
        Neil et al., Phased LSTM: Accelerating Recurrent Network Training for Long or Event-based Sequences, 2016.
    """

    def __init__(
        self,
        num_units: int,
        use_peepholes: bool = False,
        leak: float = 0.001,
        ratio_on: float = 0.1,
        trainable_ratio_on: bool = True,
        period_init_min: float = 1.0,
        period_init_max: float = 1000.0,
        reuse: Any = None,
    ) -> None:
        super().__init__(_reuse=reuse)
        self._num_units = check_count(self, "num_units", num_units)
        self._use_peepholes, self._leak, self._ratio_on = bool(use_peepholes), leak, ratio_on
        self._trainable_ratio_on = bool(trainable_ratio_on)
        low = check_number(self, "period_init_min", period_init_min, 0, is_low_allowed=False)
        self._periods = (low, check_number(self, "period_init_max", period_init_max, low))

    def call(self, inputs: Any, state: Any) -> tuple[tf.Tensor, LSTMStateTuple]:
        """Compute a step."""
        old, last = state
        time, x = inputs
        enter, forget = tf.split(tf.sigmoid(self._linear("mask_gates", 2, x, last, old)), 2, axis=1)
        memory = old * forget + enter * tf.tanh(self._linear("new_input", 1, x, last, None))
        leave = tf.sigmoid(self._linear("output_gate", 1, x, last, memory))
        output = tf.tanh(memory) * leave
        openness = self._openness(time, x.dtype)
        memory = openness * memory + (1 - openness) * old
        output = openness * output + (1 - openness) * last
        return output, LSTMStateTuple(memory, output)

    def _linear(self, name: str, factor: int, x: tf.Tensor, last: tf.Tensor, memory: tf.Tensor | None) -> tf.Tensor:
        args = [x, last, memory] if self._use_peepholes and memory is not None else [x, last]
        with tf.variable_scope(name):
            return linear(args, factor * self._num_units)

    def _openness(self, time: tf.Tensor, dtype: tf.DType) -> tf.Tensor:
        """Return how open each unit is: it opens in one half of its phase, closes in the other, and then leaks."""
        period = tf.get_variable("period", [self._num_units], dtype, _log_uniform(*self._periods))
        phase = tf.get_variable("phase", [self._num_units], dtype, _uniform_below(period))
        ratio = tf.constant_initializer(self._ratio_on)
        on = tf.get_variable("ratio_on", [self._num_units], dtype, ratio, trainable=self._trainable_ratio_on)
        shifted, length = time - tf.cast(phase, time.dtype), tf.cast(period, time.dtype)
        # Periods are not trained by the number of those that have passed, a step function.
        in_period = shifted + tf.stop_gradient(tf.mod(shifted, length) - shifted)
        cycle = tf.cast(in_period / length, dtype)
        rising = 2 * cycle / on
        is_open = tf.where_v2(cycle < 0.5 * on, rising, 2 - rising)
        return tf.where_v2(cycle < on, is_open, self._leak * cycle)


def _log_uniform(low: float, high: float) -> Callable[..., tf.Tensor]:
    """Return an initializer of numbers whose logarithms are equally likely."""

    def initialize(shape: Any, dtype: Any = tf.float32, partition_info: Any = None) -> tf.Tensor:
        return tf.exp(tf.random_uniform(shape, math.log(low), math.log(high), dtype))

    return initialize


def _uniform_below(bound: Any) -> Callable[..., tf.Tensor]:
    """Return an initializer of numbers from zero to what a variable begins with."""

    def initialize(shape: Any, dtype: Any = tf.float32, partition_info: Any = None) -> tf.Tensor:
        return tf.random_uniform(shape, dtype=dtype) * bound.initial_value

    return initialize
