"""Layers without a notion of space: dense ones, dropout and flattening; and what all layers with weights share."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError, WrongTypeError
from tpack.models.data_format import has_basic_kernels
from tpack.step.step_seeds import uniform_of_step
from tpack.tf1.layers.arguments import (
    CHANNELS_LAST,
    ZEROS,
    Activation,
    Constraint,
    Initializer,
    InputSpec,
    Regularizer,
    activation_of,
    check_data_format,
    count_of,
    layer_function,
    parts_of,
    set_parts,
)
from tpack.tf1.layers.base import Layer
from tpack.tf1.signatures import like, parameter

_LONG_FORMATS = {1: ("NWC", "NCW"), 2: ("NHWC", "NCHW"), 3: ("NDHWC", "NCDHW")}


class WeightedLayer(Layer):
    """A layer with a kernel, or several, that may end with a bias and an activation.

    Args:
        activation: a function of the result, such as ``tf.nn.relu``, or its name; None for none.
        kernel_initializer: None for that of the scope, or Glorot's uniform one.
        bias_initializer: of the bias.
        bias_regularizer: a function of the bias that returns a loss for REGULARIZATION_LOSSES.
        bias_constraint: what optimizers do to the bias after each update.
    """

    def __init__(
        self,
        activation: Activation = None,
        use_bias: bool = True,
        kernel_initializer: Initializer = None,
        bias_initializer: Initializer = ZEROS,
        kernel_regularizer: Regularizer = None,
        bias_regularizer: Regularizer = None,
        activity_regularizer: Regularizer = None,
        kernel_constraint: Constraint = None,
        bias_constraint: Constraint = None,
        trainable: bool = True,
        name: str | None = None,
        **kwargs: Any,
    ) -> None:
        given = locals()
        super().__init__(activity_regularizer=activity_regularizer, trainable=trainable, name=name, **kwargs)
        self.activation = activation_of(self, activation)
        self.use_bias = use_bias
        set_parts(self, given)
        self.kernel: Any = None
        self.bias: Any = None

    def get_config(self) -> dict[str, Any]:
        """Return the arguments that make a layer like this one; no activation is ``"linear"``."""
        config = super().get_config()
        return {**config, "activation": "linear" if self.activation is None else config["activation"]}

    def _add(self, name: str, shape: Sequence[int], kind: str) -> Any:
        """Make a variable with the initializer, regularizer and constraint of a kind, such as ``kernel``."""
        return self.add_weight(name, shape, **parts_of(self, kind))

    def _make_bias(self, size: int) -> None:
        if self.use_bias:
            self.bias = self._add("bias", [size], "bias")

    def _activate(self, outputs: tf.Tensor) -> tf.Tensor:
        return outputs if self.activation is None else self.activation(outputs)

    def _check_floating(self) -> None:
        dtype = tf.as_dtype(self.dtype or tf.float32)
        if not (dtype.is_floating or dtype.is_complex):
            raise WrongTypeError(f"{self.name} got inputs of {dtype.name}: expected floating-point ones")


class Dense(WeightedLayer):
    """Multiply the last dimension with a matrix, ``kernel``, and add ``bias``.

    Args:
        units: the size of the last dimension of the output.
        **given: see `WeightedLayer`.

    Shapes:
        [..., inputs] to [..., units], of at least two dimensions.

    Creates:
        ``kernel`` [inputs, units] and ``bias`` [units].
    """

    @like(WeightedLayer.__init__, after={"self": {"units": parameter("units", int)}})
    def __init__(self, units: int, **given: Any) -> None:
        super().__init__(**given)
        self.units = count_of(self, "units", units)
        self.input_spec = InputSpec(min_ndim=2)

    def build(self, input_shape: Any) -> None:
        """Make ``kernel`` and ``bias``; raise ConfigError if the size of the input's last dimension is not known."""
        self._check_floating()
        shape = tf.TensorShape(input_shape)
        size = shape.as_list()[-1] if shape.rank else None
        if size is None:
            raise ConfigError(f"{self.name} got inputs of shape {shape}: expected a known last dimension")
        self.input_spec = InputSpec(min_ndim=2, axes={-1: size})
        self.kernel = self._add("kernel", [size, self.units], "kernel")
        self._make_bias(self.units)
        self.built = True

    def call(self, inputs: Any, *args: Any, **kwargs: Any) -> tf.Tensor:
        """Return the output."""
        if inputs.dtype.base_dtype.name != self.dtype:
            inputs = tf.cast(inputs, self.dtype or tf.float32)
        outputs = self._multiply(inputs)
        return self._activate(tf.nn.bias_add(outputs, self.bias) if self.use_bias else outputs)

    def _multiply(self, inputs: Any) -> tf.Tensor:
        if isinstance(inputs, tf.SparseTensor):
            return tf.sparse.sparse_dense_matmul(inputs, self.kernel)
        if inputs.shape.rank == 2:
            return tf.matmul(inputs, self.kernel)
        outputs = tf.tensordot(inputs, self.kernel, [[inputs.shape.rank - 1], [0]])
        outputs.set_shape([*inputs.shape.as_list()[:-1], self.units])
        return outputs

    def compute_output_shape(self, input_shape: Any) -> tf.TensorShape:
        """Return the shape of the output for one of the input."""
        shape = tf.TensorShape(input_shape).with_rank_at_least(2)
        return shape[:-1].concatenate(self.units)


class Dropout(Layer):
    """Set a random part of the elements to zero while training, and multiply the others so that the mean stays.

    In a training tower of a trainer, what is dropped follows from the seed of the graph, the step and the place, so
    that a run that was resumed drops what an uninterrupted one would; see `tpack.step.step_seeds`.

    Args:
        rate: the probability to drop an element, a number or a scalar tensor.
        noise_shape: where it has a 1, what is dropped is the same along the dimension.
    """

    def __init__(
        self, rate: Any = 0.5, noise_shape: Any = None, seed: int | None = None, name: str | None = None, **kwargs: Any
    ) -> None:
        super().__init__(name=name, **kwargs)
        self.rate = rate
        self.noise_shape = noise_shape
        self.seed = seed

    def call(self, inputs: tf.Tensor, training: Any = False) -> tf.Tensor:
        """Drop elements if ``training``, a truth value or a boolean tensor; else return all of them."""
        if is_never(training):
            return tf.identity(inputs)
        # Inside of a condition it could not tell the step.
        uniform = uniform_of_step("tf.layers.dropout", self.seed)
        return where_training(training, lambda: self._dropped(inputs, uniform), lambda: tf.identity(inputs))

    def _dropped(self, inputs: tf.Tensor, uniform: Any) -> tf.Tensor:
        noise_shape = self._noise_shape_of(inputs)
        if uniform is None:
            return tf.nn.dropout(inputs, rate=self.rate, noise_shape=noise_shape, seed=self.seed)
        return tf.nn.experimental.general_dropout(inputs, self.rate, uniform, noise_shape=noise_shape)

    def _noise_shape_of(self, inputs: tf.Tensor) -> Any:
        if self.noise_shape is None or tf.is_tensor(self.noise_shape):
            return self.noise_shape
        return [tf.shape(inputs)[axis] if size is None else size for axis, size in enumerate(self.noise_shape)]

    def compute_output_shape(self, input_shape: Any) -> tf.TensorShape:
        """Return the shape of the input."""
        return tf.TensorShape(input_shape)


class Flatten(Layer):
    """Make one dimension of all but the first.

    Args:
        data_format: ``"channels_last"``, which is the default, or ``"channels_first"``, whose channels become the last
            dimension before they are flattened.
        **kwargs: as for `Layer`, ``name`` among them.

    Shapes:
        [batch, ...] to [batch, the product of the others]; [batch] to [batch, 1].
    """

    def __init__(self, data_format: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.data_format = check_data_format(self, "channels_last" if data_format is None else data_format)
        self.input_spec = InputSpec(min_ndim=1)

    def call(self, inputs: tf.Tensor, *args: Any, **kwargs: Any) -> tf.Tensor:
        """Return the flat input."""
        rank = inputs.shape.rank
        if self.data_format == "channels_first" and rank > 1:
            inputs = tf.transpose(inputs, [0, *range(2, rank), 1])
        if rank == 1:
            return tf.expand_dims(inputs, 1)
        batch_size, size = self.compute_output_shape(inputs.shape).as_list()
        if size is None:
            rows = tf.shape(inputs)[0] if batch_size is None else batch_size
            outputs = tf.reshape(inputs, [rows, -1])
        else:
            outputs = tf.reshape(inputs, [-1 if batch_size is None and size else batch_size or 0, size])
        outputs.set_shape([batch_size, size])
        return outputs

    def compute_output_shape(self, input_shape: Any) -> tf.TensorShape:
        """Return the shape of the output for one of the input."""
        batch_size, *sizes = tf.TensorShape(input_shape).with_rank_at_least(1).as_list()
        return tf.TensorShape([batch_size, None if None in sizes else int(np.prod(sizes))])


def is_never(training: Any) -> bool:
    """Tell whether ``training`` is known to be false."""
    if tf.is_tensor(training):
        training = tf.get_static_value(training)
        return training is not None and not training
    return not training


def where_training(training: Any, train: Callable[[], Any], infer: Callable[[], Any]) -> Any:
    """Return what one of two functions returns, which is chosen in the graph where ``training`` is not known."""
    if is_never(training):
        return infer()
    if tf.is_tensor(training) and tf.get_static_value(training) is None:
        return tf.cond(tf.cast(training, tf.bool), train, infer)
    return train()


def in_format(
    layer: Any, inputs: tf.Tensor, operation: Callable[[tf.Tensor, str], tf.Tensor], *, is_last_only: bool = False
) -> tf.Tensor:
    """Apply an operation of (tensor, format such as ``"NHWC"``) in a format with kernels; see `convolutional`."""
    last, first = _LONG_FORMATS[layer.num_axes]
    if layer.data_format == CHANNELS_LAST:
        return operation(inputs, last)
    if not is_last_only and not has_basic_kernels(inputs.dtype.base_dtype):
        return operation(inputs, first)
    rank = layer.num_axes + 2
    outputs = operation(tf.transpose(inputs, [0, *range(2, rank), 1]), last)
    return tf.transpose(outputs, [0, rank - 1, *range(1, rank - 1)])


dense = layer_function("dense", Dense)


def dropout(
    inputs: Any,
    rate: Any = 0.5,
    noise_shape: Any = None,
    seed: int | None = None,
    training: Any = False,
    name: str | None = None,
) -> tf.Tensor:
    """Apply `Dropout` if ``training``, a truth value or a boolean tensor; else return the input."""
    return Dropout(rate, noise_shape=noise_shape, seed=seed, name=name)(inputs, training=training)


def flatten(inputs: Any, name: str | None = None, data_format: str = "channels_last") -> tf.Tensor:
    """Apply `Flatten` to a tensor of at least one dimension."""
    return Flatten(name=name, data_format=data_format)(inputs)
