"""The base of recurrent cells: a layer that takes an input and a state and gives an output and the next state.

A cell says by ``state_size`` and ``output_size`` what it carries on and what it gives: an integer, a ``TensorShape``,
or a nest of them. ``tf.nn.dynamic_rnn`` and its family ask for nothing else. What users derive from `RNNCell` makes its
variables by ``tf.get_variable`` in ``call``, or overrides ``__call__`` and does without the layer's scope.
"""

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any, TypeAlias

import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError, WrongTypeError
from tpack.tf1.layers.arguments import InputSpec
from tpack.tf1.layers.base import Layer
from tpack.utils.validation import shown

State: TypeAlias = Any
"""A tensor or a nest of tensors, as ``state_size`` says."""
Size: TypeAlias = Any
"""An integer, a ``TensorShape``, or a nest of them."""
Activation: TypeAlias = Callable[[tf.Tensor], tf.Tensor]

_ACTIVATIONS = (
    "elu",
    "leaky_relu",
    "relu",
    "relu6",
    "selu",
    "sigmoid",
    "softmax",
    "softplus",
    "softsign",
    "swish",
    "tanh",
)


class RNNCell(Layer):
    """A cell to derive from.

    A subclass has the properties ``state_size`` and ``output_size`` and the method ``call(inputs, state)``, which
    returns the output and the next state. Variables that it makes by ``tf.get_variable`` are found in its ``weights``,
    and have the name of the scope of the first call and of the class before theirs, such as ``rnn/my_cell/kernel``.

    Args:
        trainable: whether variables of ``add_variable`` are trained.
        name: the name of its variable scope; the default is made of the class's name.
    """

    def __init__(self, trainable: bool = True, name: str | None = None, dtype: Any = None, **kwargs: Any) -> None:
        super().__init__(trainable=trainable, name=name, dtype=dtype, **kwargs)

    def __call__(self, inputs: Any, state: State, scope: Any = None) -> tuple[Any, State]:
        """Return the output and the next state for inputs of [batch, depth] and a state of [batch, *state_size].

        The variables are in ``scope``, else in a scope named after the cell.
        """
        with tf.variable_scope(
            tf.get_variable_scope() if scope is None else scope,
            custom_getter=self._remember_variable,
            auxiliary_name_scope=scope is not None,
        ) as current:
            if scope is None:
                return super().__call__(inputs, state)
            return super().__call__(inputs, state, scope=current)

    @property
    def state_size(self) -> Size:
        """The shape of the state without the batch."""
        raise NotImplementedError(f"{type(self).__name__} has no state_size: a cell says what its state is")

    @property
    def output_size(self) -> Size:
        """The shape of the output without the batch."""
        raise NotImplementedError(f"{type(self).__name__} has no output_size: a cell says what its output is")

    def zero_state(self, batch_size: int | tf.Tensor, dtype: Any) -> State:
        """Return zeros of [batch_size, *state_size]; raise ConfigError if a size in ``state_size`` is not known."""
        with tf.name_scope(f"{type(self).__name__}ZeroState", values=[batch_size]):
            return tf.nest.map_structure(lambda size: zeros(size, batch_size, dtype), self.state_size)

    def get_initial_state(self, inputs: Any = None, batch_size: Any = None, dtype: Any = None) -> State:
        """Return `zero_state` of the inputs' batch size and dtype, or of those given.

        Raises:
            ConfigError: Neither is known, or they differ from those of the inputs.
        """
        if inputs is not None:
            inputs = tf.convert_to_tensor(inputs, name="inputs")
            _check_batch_size(batch_size, tf.compat.dimension_value(inputs.shape[0]))
            if dtype is not None and tf.as_dtype(dtype) != inputs.dtype:
                given = tf.as_dtype(dtype).name
                raise ConfigError(
                    f"get_initial_state got dtype={given} with inputs of {inputs.dtype.name}: expected one"
                )
            batch_size, dtype = tf.shape(inputs)[0], inputs.dtype
        if batch_size is None or dtype is None:
            raise ConfigError(f"get_initial_state got {batch_size=} and {dtype=} without inputs: expected both")
        return self.zero_state(batch_size, dtype)

    def _remember_variable(self, getter: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        variable = getter(*args, **kwargs)
        self._remember(variable, trainable=True)
        return variable


class LayerRNNCell(RNNCell):
    """A cell that makes its variables in ``build``, by ``add_variable``, as the cells of TensorFlow do."""

    def __call__(self, inputs: Any, state: State, scope: Any = None, *args: Any, **kwargs: Any) -> tuple[Any, State]:
        """Compute a step; see `RNNCell`."""
        return Layer.__call__(self, inputs, state, *args, scope=scope, **kwargs)


class UnitSizes:
    """The sizes of a cell whose state and output have ``num_units``; stands before `RNNCell` among the bases."""

    _num_units: int

    state_size = property(attrgetter("_num_units"), doc="The size of the state.")
    output_size = property(attrgetter("_num_units"), doc="The size of the output.")


class CellOfCells(RNNCell):
    """A cell that computes by others, whose variables are its own as well."""

    def _cells_inside(self) -> list[Any]:
        raise NotImplementedError

    @property
    def trainable_weights(self) -> list[Any]:
        """The variables that are trained, of all cells."""
        return self._gathered("trainable_weights", super().trainable_weights)

    @property
    def non_trainable_weights(self) -> list[Any]:
        """The variables that are not trained, of all cells."""
        return self._gathered("non_trainable_weights", super().non_trainable_weights)

    @property
    def weights(self) -> list[Any]:
        """All variables of all cells, those that are trained first."""
        return [*self.trainable_weights, *self.non_trainable_weights]

    variables = weights
    trainable_variables = trainable_weights
    non_trainable_variables = non_trainable_weights

    def _gathered(self, kind: str, own: list[Any]) -> list[Any]:
        """Return the variables of a kind, each once; a cell that calls no constructor of the base has none to show."""
        every = [*own, *(weight for cell in self._cells_inside() for weight in getattr(cell, kind, ()))]
        return list({id(weight): weight for weight in every}.values())


class CellAround(CellOfCells):
    """A cell around another one, which has its sizes, its state and its variables."""

    def __init__(self, cell: Any, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.cell = check_cell(self, "cell", cell)

    def _cells_inside(self) -> list[Any]:
        return [self.cell]

    state_size = property(attrgetter("cell.state_size"), doc="That of the cell inside.")
    output_size = property(attrgetter("cell.output_size"), doc="That of the cell inside.")

    def zero_state(self, batch_size: int | tf.Tensor, dtype: Any) -> State:
        """Return that of the cell inside."""
        with tf.name_scope(f"{type(self).__name__}ZeroState", values=[batch_size]):
            return self.cell.zero_state(batch_size, dtype)


def zeros(size: int | tf.TensorShape, batch_size: int | tf.Tensor, dtype: Any) -> tf.Tensor:
    """Return zeros of a batch of a size; raise ConfigError if the size is not known."""
    shape = tf.TensorShape(size if isinstance(size, tf.TensorShape) else [size])
    if not shape.is_fully_defined():
        raise ConfigError(f"zero_state got the shape {shape}: expected known sizes")
    static = tf.get_static_value(batch_size) if tf.is_tensor(batch_size) else batch_size
    if static is not None:
        return tf.zeros([int(static), *shape.as_list()], dtype)
    state = tf.zeros(tf.stack([batch_size, *shape.as_list()]), dtype)
    state.set_shape([None, *shape.as_list()])
    return state


def depth_of(owner: object, input_shape: Any) -> int:
    """Return the last dimension of inputs; raise ConfigError if it is not known."""
    shape = tf.TensorShape(input_shape)
    depth = tf.compat.dimension_value(shape[-1]) if shape.rank else None
    if depth is None:
        raise ConfigError(f"{type(owner).__name__} got inputs of shape {shape}: expected a known last dimension")
    return int(depth)


def check_floating(owner: object, dtype: Any) -> None:
    """Refuse a dtype that no cell computes in; raise ConfigError if it is neither floating nor complex."""
    if dtype is not None and not (tf.as_dtype(dtype).is_floating or tf.as_dtype(dtype).is_complex):
        raise ConfigError(f"{type(owner).__name__} got dtype {tf.as_dtype(dtype).name}: expected one of floating point")


def check_cell(owner: object, name: str, cell: Any) -> Any:
    """Return a cell, or any object that can be used as one; raise WrongTypeError, with what it lacks, for others."""
    has = {
        "an output_size": _has(cell, "output_size"),
        "a state_size": _has(cell, "state_size"),
        "a zero_state or get_initial_state": _has(cell, "zero_state") or _has(cell, "get_initial_state"),
        "a __call__": callable(cell) and not isinstance(cell, type),
    }
    lacking = [part for part, is_there in has.items() if not is_there]
    if lacking:
        raise WrongTypeError(
            f"{type(owner).__name__} got {name}={shown(cell)}: expected an RNNCell, and it lacks {', '.join(lacking)}"
        )
    return cell


def activation_of(owner: object, activation: Any, default: Activation = tf.tanh) -> Activation:
    """Return an activation given as a function, by its name in ``tf.nn`` or as None.

    Raises:
        ConfigError: The name is not known.
        WrongTypeError: It is neither a function nor a name.
    """
    if activation is None or activation == "":
        return default
    if callable(activation):
        return activation
    if not isinstance(activation, str):
        raise WrongTypeError(
            f"{type(owner).__name__} got activation={shown(activation)}: expected a function or a name"
        )
    if activation == "linear":
        return tf.identity
    if activation not in _ACTIVATIONS:
        known = ", ".join(("linear", *_ACTIVATIONS))
        raise ConfigError(
            f"{type(owner).__name__} got activation={activation!r}: expected a function or one of {known}"
        )
    return getattr(tf.nn, activation)


def matrix_inputs() -> InputSpec:
    """Return what most cells say of their inputs: that they are matrices."""
    return InputSpec(ndim=2)


def _has(cell: Any, name: str) -> bool:
    """Tell whether an object has something; what raises that it is abstract is there."""
    try:
        return hasattr(cell, name)
    except NotImplementedError:
        return True


def _check_batch_size(given: Any, actual: int | None) -> None:
    """Refuse a batch size that is not that of the inputs; what is not known agrees with everything."""
    known = tf.get_static_value(given) if tf.is_tensor(given) else given
    if known is not None and actual is not None and known != actual:
        raise ConfigError(f"get_initial_state got batch_size={known} with inputs of {actual}: expected one of both")


_EPSILON = 1e-12
_EPSILON_OF_HALF = 1e-3


def linear(
    args: tf.Tensor | Sequence[tf.Tensor],
    size: int,
    bias: bool = True,
    *,
    bias_initializer: Any = None,
    kernel_initializer: Any = None,
) -> tf.Tensor:
    """Multiply tensors of [batch, depth], joined, by the variable ``kernel``, and add ``bias``; return [batch, size].

    Raises:
        ConfigError: There are no tensors, or one is not a matrix of a known depth.
    """
    tensors: list[Any] = list(args) if isinstance(args, (list, tuple)) else [args]
    if not tensors or any(tensor.shape.rank != 2 or tensor.shape.as_list()[1] is None for tensor in tensors):
        raise ConfigError(f"linear got {[str(tensor.shape) for tensor in tensors]}: expected matrices of known depths")
    joined = tensors[0] if len(tensors) == 1 else tf.concat(tensors, 1)
    kernel = tf.get_variable("kernel", [joined.shape.as_list()[1], size], joined.dtype, kernel_initializer)
    product = tf.matmul(joined, kernel)
    if not bias:
        return product
    initializer = tf.zeros_initializer() if bias_initializer is None else bias_initializer
    return tf.nn.bias_add(product, tf.get_variable("bias", [size], joined.dtype, initializer))


def normalised(x: tf.Tensor, name: str, gain: float, shift: float) -> tf.Tensor:
    """Return each row of [batch, depth] with mean 0 and variance 1, times ``NAME/gamma`` plus ``NAME/beta``."""
    with tf.variable_scope(name, reuse=tf.get_variable_scope().reuse):
        shape = x.shape[-1:]
        gamma = tf.get_variable("gamma", shape, x.dtype, tf.constant_initializer(gain))
        beta = tf.get_variable("beta", shape, x.dtype, tf.constant_initializer(shift))
    mean, variance = tf.nn.moments(x, [1], keepdims=True)
    epsilon = _EPSILON_OF_HALF if x.dtype == tf.float16 else _EPSILON
    return tf.nn.batch_normalization(x, mean, variance, beta, gamma, epsilon)
