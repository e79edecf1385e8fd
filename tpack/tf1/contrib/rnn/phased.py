"""A cell for events at any time: `PhasedLSTMCell`."""

import math
from collections.abc import Callable
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.tf1.rnn_cell.base import RNNCell, linear
from tpack.tf1.rnn_cell.lstm import LSTMSizes, LSTMStateTuple
from tpack.utils.validation import check_count, check_number


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
