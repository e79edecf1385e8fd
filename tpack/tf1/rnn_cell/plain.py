"""Cells whose state is one tensor, which is their output too: `BasicRNNCell` and `GRUCell`."""

from typing import Any

import tensorflow.compat.v1 as tf

from tpack.tf1.rnn_cell.base import LayerRNNCell, UnitSizes, activation_of, check_floating, depth_of, matrix_inputs
from tpack.tf1.signatures import like
from tpack.utils.validation import check_count


class _Plain(UnitSizes, LayerRNNCell):
    """The constructor of cells of one size and one activation."""

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


class BasicRNNCell(_Plain):
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


class GRUCell(_Plain):
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

    @like(_Plain.__init__, after={"reuse": {"kernel_initializer": None, "bias_initializer": None}})
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
