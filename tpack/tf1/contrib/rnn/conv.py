"""Cells with long short-term memory of images and other grids: `ConvLSTMCell`."""

from collections.abc import Sequence
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError
from tpack.tf1.rnn_cell.base import RNNCell
from tpack.tf1.rnn_cell.lstm import LSTMStateTuple, lstm_step
from tpack.utils.validation import check_choice, check_count, shown


class ConvLSTMCell(RNNCell):
    """A cell whose inputs and outputs are grids of channels, and whose gates come of a convolution.

    Args:
        conv_ndims: how many dimensions the grid has: 1, 2 or 3.
        input_shape: the shape of an input without the batch; the channels are last.
        output_channels: how many channels the state and the output have.
        kernel_shape: the size of the convolution in each dimension.
        skip_connection: whether the inputs are appended to the outputs.
        initializers: not used, as in TensorFlow 1.15; the scope's initializer is.

    Creates:
        ``kernel`` and ``biases``.

    Raises:
        ConfigError: The shapes are not of ``conv_ndims`` dimensions, or inputs of another shape come.

    Source:
        Shi et al., Convolutional LSTM Network: A Machine Learning Approach for Precipitation Nowcasting, 2015.
    """

    def __init__(
        self,
        conv_ndims: int,
        input_shape: Any,
        output_channels: int,
        kernel_shape: Sequence[int],
        use_bias: bool = True,
        skip_connection: bool = False,
        forget_bias: float = 1.0,
        initializers: Any = None,
        name: str | None = "conv_lstm_cell",
    ) -> None:
        super().__init__(name=name)
        self._ndims = check_choice(self, "conv_ndims", conv_ndims, (1, 2, 3))
        self._input_shape = tf.TensorShape(input_shape)
        if self._input_shape.rank != conv_ndims + 1:
            shape = self._input_shape
            raise ConfigError(f"{type(self).__name__} got input_shape={shape}: expected {conv_ndims + 1} dimensions")
        self._kernel_shape = list(kernel_shape)
        if len(self._kernel_shape) != conv_ndims:
            raise ConfigError(
                f"{type(self).__name__} got kernel_shape={shown(kernel_shape)}: expected {conv_ndims} dimensions"
            )
        self._channels = check_count(self, "output_channels", output_channels)
        self._use_bias, self._skip_connection = bool(use_bias), bool(skip_connection)
        self._forget_bias = forget_bias

    @property
    def state_size(self) -> LSTMStateTuple:
        """The shapes of what is remembered and of the output, without what the inputs add to it."""
        shape = self._input_shape[:-1].concatenate([self._channels])
        return LSTMStateTuple(shape, shape)

    @property
    def output_size(self) -> tf.TensorShape:
        """The shape of the output."""
        skipped = self._input_shape.as_list()[-1] if self._skip_connection else 0
        return self._input_shape[:-1].concatenate([self._channels + skipped])

    def call(self, inputs: tf.Tensor, state: Any, scope: Any = None) -> tuple[tf.Tensor, LSTMStateTuple]:
        """Compute a step; inputs of another number of dimensions are refused."""
        if inputs.shape.rank != self._ndims + 2:
            raise ConfigError(
                f"{type(self).__name__} got inputs of {inputs.shape}: expected {self._ndims + 2} dimensions"
            )
        memory, last = state
        gates = self._convolve(tf.concat([inputs, last], axis=-1))
        output, memory = lstm_step(gates, memory, self._forget_bias)
        if self._skip_connection:
            return tf.concat([output, inputs], axis=-1), LSTMStateTuple(memory, output)
        return output, LSTMStateTuple(memory, output)

    def _convolve(self, joined: tf.Tensor) -> tf.Tensor:
        shape = [*self._kernel_shape, joined.shape[-1], 4 * self._channels]
        kernel = tf.get_variable("kernel", shape, joined.dtype)
        product = tf.nn.convolution(joined, kernel, padding="SAME")
        if not self._use_bias:
            return product
        return product + tf.get_variable("biases", [shape[-1]], joined.dtype, tf.zeros_initializer())


class Conv1DLSTMCell(ConvLSTMCell):
    """A `ConvLSTMCell` of sequences of channels; ``conv_ndims`` is 1."""

    def __init__(self, name: str | None = "conv_1d_lstm_cell", **kwargs: Any) -> None:
        super().__init__(conv_ndims=1, name=name, **kwargs)


class Conv2DLSTMCell(ConvLSTMCell):
    """A `ConvLSTMCell` of images; ``conv_ndims`` is 2."""

    def __init__(self, name: str | None = "conv_2d_lstm_cell", **kwargs: Any) -> None:
        super().__init__(conv_ndims=2, name=name, **kwargs)


class Conv3DLSTMCell(ConvLSTMCell):
    """A `ConvLSTMCell` of volumes; ``conv_ndims`` is 3."""

    def __init__(self, name: str | None = "conv_3d_lstm_cell", **kwargs: Any) -> None:
        super().__init__(conv_ndims=3, name=name, **kwargs)
