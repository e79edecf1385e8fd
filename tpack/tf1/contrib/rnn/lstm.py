"""More cells with long short-term memory: normalised, with coupled gates, in groups, and found by a search."""

from typing import Any

import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError
from tpack.tf1.rnn_cell.base import LayerRNNCell, RNNCell, depth_of, linear, matrix_inputs, normalised
from tpack.tf1.rnn_cell.lstm import LSTMSizes, LSTMStateTuple
from tpack.tf1.rnn_cell.wrappers import drop
from tpack.utils import logger
from tpack.utils.validation import check_bool, check_count


class LayerNormBasicLSTMCell(LSTMSizes, RNNCell):
    """A cell whose gates and memory are normalised, and which can drop out of what it remembers.

    Args:
        input_size: not used; a warning says so.
        norm_gain: what gamma begins with.
        norm_shift: what beta begins with.
        dropout_keep_prob: the probability to keep an element of the candidate, a number or a scalar tensor.
        dropout_prob_seed: the seed of what is dropped.

    Creates:
        ``kernel``, and ``gamma`` and ``beta`` under ``input``, ``transform``, ``forget``, ``output`` and ``state``, or
        else ``bias``.

    Source:
        Ba et al., Layer Normalization, 2016. Semeniuta et al., Recurrent Dropout without Memory Loss, 2016.
    """

    def __init__(
        self,
        num_units: int,
        forget_bias: float = 1.0,
        input_size: Any = None,
        activation: Any = tf.tanh,
        layer_norm: bool = True,
        norm_gain: float = 1.0,
        norm_shift: float = 0.0,
        dropout_keep_prob: Any = 1.0,
        dropout_prob_seed: int | None = None,
        reuse: Any = None,
    ) -> None:
        super().__init__(_reuse=reuse)
        if input_size is not None:
            logger.warning("LayerNormBasicLSTMCell got input_size, which is not used: the inputs say their size")
        self._num_units = check_count(self, "num_units", num_units)
        self._forget_bias, self._activation = forget_bias, activation
        self._layer_norm = check_bool(self, "layer_norm", layer_norm)
        self._norm = {"gain": norm_gain, "shift": norm_shift}
        self._keep_prob, self._seed = dropout_keep_prob, dropout_prob_seed

    def call(self, inputs: tf.Tensor, state: Any) -> tuple[tf.Tensor, LSTMStateTuple]:
        """Compute a step."""
        memory, last = state
        enter, candidate, forget, leave = self._gates(tf.concat([inputs, last], 1))
        candidate = drop(self._activation(candidate), self._keep_prob, self._seed, "LayerNormBasicLSTMCell")
        memory = memory * tf.sigmoid(forget + self._forget_bias) + tf.sigmoid(enter) * candidate
        if self._layer_norm:
            memory = normalised(memory, "state", **self._norm)
        output = self._activation(memory) * tf.sigmoid(leave)
        return output, LSTMStateTuple(memory, output)

    def _gates(self, joined: tf.Tensor) -> list[tf.Tensor]:
        kernel = tf.get_variable("kernel", [joined.shape[-1], 4 * self._num_units], joined.dtype)
        product = tf.matmul(joined, kernel)
        if not self._layer_norm:
            product = tf.nn.bias_add(product, tf.get_variable("bias", [4 * self._num_units], joined.dtype))
            return tf.split(product, 4, axis=1)
        names = ("input", "transform", "forget", "output")
        parts = zip(names, tf.split(product, 4, axis=1), strict=True)
        return [normalised(part, name, **self._norm) for name, part in parts]


class _ProjectedSizes:
    """The sizes of a cell whose output a matrix may make."""

    _num_units: int
    _num_proj: int | None

    @property
    def state_size(self) -> LSTMStateTuple:
        """The sizes of what is remembered and of the output."""
        return LSTMStateTuple(self._num_units, self.output_size)

    @property
    def output_size(self) -> int:
        """The size of the output."""
        return self._num_units if self._num_proj is None else self._num_proj


class CoupledInputForgetGateLSTMCell(_ProjectedSizes, RNNCell):
    """A cell that takes in as much of the new as it forgets of the old.

    Args:
        proj_clip: a bound for the output, where it is made by a matrix.
        num_unit_shards: how many variables the matrix of the gates is split into.
        num_proj_shards: how many variables the projection is split into.
        state_is_tuple: whether the state is an `LSTMStateTuple`, or one tensor of both.
        layer_norm: whether to normalise the gates and the memory, in place of a bias.
        norm_gain: what gamma begins with.
        norm_shift: what beta begins with.

    Creates:
        ``W_0``, ``W_1`` and so on, one for each shard; ``B``; with peepholes ``W_F_diag`` and ``W_O_diag``; ``gamma``
        and ``beta`` under ``transform``, ``forget``, ``output`` and ``state``; and ``W_P_0`` and so on.

    Raises:
        ConfigError: There are more shards than rows.

    Source:
        Greff et al., LSTM: A Search Space Odyssey, 2015.
    """

    def __init__(
        self,
        num_units: int,
        use_peepholes: bool = False,
        initializer: Any = None,
        num_proj: int | None = None,
        proj_clip: float | None = None,
        num_unit_shards: int = 1,
        num_proj_shards: int = 1,
        forget_bias: float = 1.0,
        state_is_tuple: bool = True,
        activation: Any = tf.tanh,
        reuse: Any = None,
        layer_norm: bool = False,
        norm_gain: float = 1.0,
        norm_shift: float = 0.0,
    ) -> None:
        super().__init__(_reuse=reuse)
        self._num_units = check_count(self, "num_units", num_units)
        self._num_proj = None if num_proj is None else check_count(self, "num_proj", num_proj)
        self._use_peepholes, self._initializer, self._proj_clip = bool(use_peepholes), initializer, proj_clip
        self._num_unit_shards = check_count(self, "num_unit_shards", num_unit_shards)
        self._num_proj_shards = check_count(self, "num_proj_shards", num_proj_shards)
        self._forget_bias, self._activation = forget_bias, activation
        self._state_is_tuple = check_bool(self, "state_is_tuple", state_is_tuple)
        self._layer_norm = check_bool(self, "layer_norm", layer_norm)
        self._norm = {"gain": norm_gain, "shift": norm_shift}

    @property
    def state_size(self) -> Any:
        """The sizes of what is remembered and of the output, or their sum."""
        sizes = LSTMStateTuple(self._num_units, self.output_size)
        return sizes if self._state_is_tuple else sum(sizes)

    def call(self, inputs: tf.Tensor, state: Any) -> tuple[tf.Tensor, Any]:
        """Compute a step."""
        memory, last = state if self._state_is_tuple else tf.split(state, [self._num_units, self.output_size], axis=1)
        with tf.variable_scope(tf.get_variable_scope(), initializer=self._initializer):
            candidate, forget, leave = self._gates(inputs, last)
            of_forget, of_leave = self._peepholes(inputs.dtype)
            kept = tf.sigmoid(forget + self._forget_bias + (of_forget * memory if self._use_peepholes else 0))
            memory = kept * memory + (1 - kept) * self._activation(candidate)
            if self._layer_norm:
                memory = normalised(memory, "state", **self._norm)
            leave = leave + of_leave * memory if self._use_peepholes else leave
            output = self._project(tf.sigmoid(leave) * self._activation(memory))
        return output, LSTMStateTuple(memory, output) if self._state_is_tuple else tf.concat([memory, output], 1)

    def _gates(self, inputs: tf.Tensor, last: tf.Tensor) -> list[tf.Tensor]:
        joined = tf.concat([inputs, last], 1)
        shape = [depth_of(self, inputs.shape) + self.output_size, 3 * self._num_units]
        kernel = _sharded("W", shape, joined.dtype, self._num_unit_shards)
        bias = tf.get_variable("B", [3 * self._num_units], joined.dtype, tf.zeros_initializer())
        product = tf.matmul(joined, kernel)
        if not self._layer_norm:
            return tf.split(tf.nn.bias_add(product, bias), 3, axis=1)
        parts = zip(("transform", "forget", "output"), tf.split(product, 3, axis=1), strict=True)
        return [normalised(part, name, **self._norm) for name, part in parts]

    def _peepholes(self, dtype: tf.DType) -> tuple[Any, Any]:
        if not self._use_peepholes:
            return None, None
        of_forget = tf.get_variable("W_F_diag", [self._num_units], dtype)
        return of_forget, tf.get_variable("W_O_diag", [self._num_units], dtype)

    def _project(self, output: tf.Tensor) -> tf.Tensor:
        if self._num_proj is None:
            return output
        kernel = _sharded("W_P", [self._num_units, self._num_proj], output.dtype, self._num_proj_shards)
        output = tf.matmul(output, kernel)
        return output if self._proj_clip is None else tf.clip_by_value(output, -self._proj_clip, self._proj_clip)


class GLSTMCell(_ProjectedSizes, RNNCell):
    """A cell in groups: each group of the inputs and outputs has a matrix of its own.

    Args:
        number_of_groups: how many groups; it divides both sizes and the depth of the inputs.

    Creates:
        ``group0/kernel`` and so on, ``bias_i``, ``bias_j``, ``bias_f``, ``bias_o``, and ``projection/kernel``.

    Raises:
        ConfigError: A size cannot be divided into the groups.

    Source:
        Kuchaiev and Ginsburg, Factorization tricks for LSTM networks, 2017.
    """

    def __init__(
        self,
        num_units: int,
        initializer: Any = None,
        num_proj: int | None = None,
        number_of_groups: int = 1,
        forget_bias: float = 1.0,
        activation: Any = tf.tanh,
        reuse: Any = None,
    ) -> None:
        super().__init__(_reuse=reuse)
        self._num_units = check_count(self, "num_units", num_units)
        self._num_proj = None if num_proj is None else check_count(self, "num_proj", num_proj)
        self._groups = check_count(self, "number_of_groups", number_of_groups)
        self._initializer, self._forget_bias, self._activation = initializer, forget_bias, activation
        self._check_divides("num_units", self._num_units)
        self._check_divides("num_proj", self.output_size)

    def call(self, inputs: tf.Tensor, state: Any) -> tuple[tf.Tensor, LSTMStateTuple]:
        """Compute a step."""
        memory, last = state
        self._check_divides("inputs of the last dimension", depth_of(self, inputs.shape))
        with tf.variable_scope(tf.get_variable_scope(), initializer=self._initializer):
            enter, candidate, forget, leave = self._gates(inputs, last)
            kept = tf.sigmoid(forget + self._forget_bias) * memory
            memory = kept + tf.sigmoid(enter) * tf.tanh(candidate)
            output = tf.sigmoid(leave) * self._activation(memory)
            if self._num_proj is not None:
                with tf.variable_scope("projection"):
                    output = linear(output, self._num_proj, bias=False)
        return output, LSTMStateTuple(memory, output)

    def _gates(self, inputs: tf.Tensor, last: tf.Tensor) -> list[tf.Tensor]:
        columns = 4 * self._num_units // self._groups
        of_groups = []
        groups = zip(tf.split(inputs, self._groups, axis=1), tf.split(last, self._groups, axis=1), strict=True)
        for index, pair in enumerate(groups):
            with tf.variable_scope(f"group{index}"):
                of_groups.append(tf.split(linear(list(pair), columns, bias=False), 4, axis=1))
        gates = []
        for name, parts in zip("ijfo", zip(*of_groups, strict=True), strict=True):
            bias = tf.get_variable(f"bias_{name}", [self._num_units], inputs.dtype, tf.zeros_initializer())
            gates.append(tf.concat(parts, 1) + bias)
        return gates

    def _check_divides(self, name: str, size: int) -> None:
        if size % self._groups:
            raise ConfigError(f"GLSTMCell got {name} of {size}: expected a multiple of number_of_groups={self._groups}")


class NASCell(_ProjectedSizes, LayerRNNCell):
    """A cell whose formula was found by a search.

    Creates:
        ``recurrent_kernel``, ``kernel``, ``bias`` and ``projection_weights``.

    Source:
        Zoph and Le, Neural Architecture Search with Reinforcement Learning, 2016.
    """

    def __init__(
        self, num_units: int, num_proj: int | None = None, use_bias: bool = False, reuse: Any = None, **kwargs: Any
    ) -> None:
        super().__init__(_reuse=reuse, **kwargs)
        self.input_spec = matrix_inputs()
        self._num_units = check_count(self, "num_units", num_units)
        self._num_proj = None if num_proj is None else check_count(self, "num_proj", num_proj)
        self._use_bias = bool(use_bias)

    def build(self, inputs_shape: Any) -> None:
        """Make the variables for inputs of a shape."""
        depth, columns = depth_of(self, inputs_shape), 8 * self._num_units
        self._recurrent_kernel = self.add_variable("recurrent_kernel", shape=[self.output_size, columns])
        self._kernel = self.add_variable("kernel", shape=[depth, columns])
        if self._use_bias:
            self._bias = self.add_variable("bias", shape=[columns], initializer=tf.zeros_initializer())
        if self._num_proj is not None:
            self._projection = self.add_variable("projection_weights", shape=[self._num_units, self._num_proj])
        self.built = True

    def call(self, inputs: tf.Tensor, state: Any) -> tuple[tf.Tensor, LSTMStateTuple]:
        """Compute a step."""
        memory, last = state
        recurrent = tf.matmul(last, self._recurrent_kernel)
        if self._use_bias:
            recurrent = tf.nn.bias_add(recurrent, self._bias)
        new = tf.split(tf.matmul(inputs, self._kernel), 8, axis=1)
        old = tf.split(recurrent, 8, axis=1)
        sums = [one + other for one, other in zip(new, old, strict=True)]
        first = tf.tanh(tf.sigmoid(sums[0]) * tf.nn.relu(sums[1]))
        second = tf.tanh(tf.sigmoid(sums[2]) + tf.nn.relu(new[3] * old[3]))
        third = tf.tanh(tf.tanh(sums[4]) * tf.sigmoid(sums[5]))
        fourth = tf.sigmoid(tf.tanh(sums[6]) + tf.sigmoid(sums[7]))
        memory = tf.tanh(first + memory) * second
        output = tf.tanh(memory * tf.tanh(third + fourth))
        if self._num_proj is not None:
            output = tf.matmul(output, self._projection)
        return output, LSTMStateTuple(memory, output)


def _sharded(name: str, shape: list[int], dtype: tf.DType, num_shards: int) -> tf.Tensor:
    """Return a matrix that is the rows of several variables, the first of which have one more if they differ."""
    rows, more = divmod(shape[0], num_shards)
    if not rows:
        raise ConfigError(
            f"{name} of {shape[0]} rows was to be split into {num_shards} shards: expected at most as many"
        )
    sizes = [rows + (index < more) for index in range(num_shards)]
    parts = [tf.get_variable(f"{name}_{index}", [size, shape[1]], dtype) for index, size in enumerate(sizes)]
    return parts[0] if num_shards == 1 else tf.concat(parts, 0)
