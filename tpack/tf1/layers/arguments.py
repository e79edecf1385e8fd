"""Arguments of ``tf.layers`` and their checks, configurations of layers, and requirements on their inputs.

The function of a layer, ``dense(inputs, ...)`` for ``Dense(...)(inputs)``, has the arguments of its class behind the
input, and ``reuse``. Its ``name`` is that of the variable scope as it is: two calls with one name want the same
variables, which ``reuse`` has to allow.
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError
from tpack.tfutils.varmanip import SessionUpdate
from tpack.utils.validation import check_choice, check_count, check_function, mismatch, shown

# An argument of ``tf.get_variable``; None for that of the scope.
Initializer: TypeAlias = Callable[..., tf.Tensor] | tf.Tensor | None
# Returns the loss of a variable or of an output, a scalar, or None.
Regularizer: TypeAlias = Callable[[tf.Tensor], tf.Tensor | None] | None
# The names of functions of ``tf.nn`` that may stand for them.
ACTIVATIONS = (
    *("elu", "leaky_relu", "relu", "relu6", "selu", "sigmoid", "softmax", "softplus", "softsign", "swish", "tanh"),
)
_IN_CONFIGURATIONS = (
    tf.constant_initializer,
    tf.glorot_normal_initializer,
    tf.glorot_uniform_initializer,
    tf.initializers.identity,
    tf.ones_initializer,
    tf.orthogonal_initializer,
    tf.random_normal_initializer,
    tf.random_uniform_initializer,
    tf.truncated_normal_initializer,
    tf.uniform_unit_scaling_initializer,
    tf.variance_scaling_initializer,
    tf.zeros_initializer,
)
_CLASSES = {initializer.__name__: initializer for initializer in _IN_CONFIGURATIONS}
# What belongs to the place where a layer is, and not to the layer.
_OF_THE_PLACE = ("_scope", "_reuse")


def config_of(layer: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of a layer by name: its attributes, else those of the call, ``args`` and ``kwargs``.

    Raises:
        ConfigError: The class takes any number of arguments without names.
    """
    signature = inspect.signature(type(layer).__init__)
    kinds = {name: parameter.kind for name, parameter in list(signature.parameters.items())[1:]}
    bound = signature.bind(layer, *args, **kwargs)
    bound.apply_defaults()
    config: dict[str, Any] = {"name": layer.name, "trainable": layer.trainable, "dtype": layer.dtype}
    if inspect.Parameter.VAR_KEYWORD not in kinds.values():
        config = {name: value for name, value in config.items() if name in kinds}
    for name, kind in kinds.items():
        given = bound.arguments[name]
        if kind is inspect.Parameter.VAR_POSITIONAL and given:
            raise ConfigError(f"{type(layer).__name__} takes arguments without names: it has to say its get_config")
        if kind is inspect.Parameter.VAR_KEYWORD:
            more = {key: value for key, value in given.items() if key not in _OF_THE_PLACE}
            config.update({key: config.get(key, _plain(value)) for key, value in more.items()})
        elif kind is not inspect.Parameter.VAR_POSITIONAL and name not in config:
            config[name] = _plain(vars(layer).get(name, given))
    return config


def initializer_from_config(owner: object, config: dict[str, Any]) -> Callable[..., tf.Tensor]:
    """Return the initializer for a dict of ``class_name`` and ``config``; raise ConfigError if there is none."""
    name = config.get("class_name")
    if name not in _CLASSES or config.keys() - {"class_name", "config"}:
        known = ", ".join(sorted(_CLASSES))
        raise ConfigError(
            f"{type(owner).__name__} got the initializer {shown(config)}: expected "
            f"{{'class_name': ..., 'config': ...}} "
            f"with one of {known}"
        )
    return _CLASSES[name](**config.get("config", {}))


def default_session(layer: Any, asked: str) -> tf.Session:
    """Return the default session; raise ConfigError if there is none."""
    session = tf.get_default_session()
    if session is None:
        raise ConfigError(f"{layer.name}.{asked} found no default session; use `with session.as_default():`")
    return session


def load_weights(layer: Any, variables: Sequence[Any], values: Sequence[Any]) -> None:
    """Set variables of a layer in the default session, all or none.

    Raises:
        ConfigError: There are more or fewer values, or there is no default session.
        CheckpointError: One does not fit its variable.
    """
    if len(values) != len(variables):
        raise ConfigError(f"{layer.name}.set_weights got {len(values)} arrays: it has {len(variables)} variables")
    if variables:
        by_name = {v.op.name: _as_number_of(v, value) for v, value in zip(variables, values, strict=True)}
        SessionUpdate(default_session(layer, "set_weights"), variables).update(by_name)


def _as_number_of(variable: tf.Variable, value: Any) -> np.ndarray:
    """Return an array; whole numbers for a variable of fractions are such."""
    array = np.asarray(value)
    is_widened = array.dtype.kind in "iu" and variable.dtype.is_floating
    return array.astype(variable.dtype.base_dtype.as_numpy_dtype) if is_widened else array


def _plain(value: Any) -> Any:
    if type(value) in _IN_CONFIGURATIONS:
        return {"class_name": type(value).__name__, "config": value.get_config()}
    if isinstance(value, tf.DType):
        return value.name
    if callable(value):
        # ``tf.tanh`` is ``tf.nn.tanh`` with a wrapper around it.
        names = [n for n in ACTIVATIONS if inspect.unwrap(getattr(tf.nn, n)) is inspect.unwrap(value)]
        return names[0] if names else value
    return value


Activation: TypeAlias = Callable[[tf.Tensor], tf.Tensor] | str | None
"""A function of a layer's result, or its name in ``tf.nn``; None for none."""

Constraint: TypeAlias = Callable[[tf.Tensor], tf.Tensor] | None
"""What optimizers do to a variable after each update."""

Sizes: TypeAlias = int | Sequence[int]
"""A number for each dimension, or one for all."""

_FUNCTION = "a function, a name or None"

# The initializers that layers show as their defaults.
ZEROS = tf.zeros_initializer()
ONES = tf.ones_initializer()

CHANNELS_FIRST = "channels_first"
CHANNELS_LAST = "channels_last"

_INITIALIZERS: dict[str, Callable[[], Any]] = {
    "glorot_normal": tf.glorot_normal_initializer,
    "glorot_uniform": tf.glorot_uniform_initializer,
    "he_normal": tf.initializers.he_normal,
    "he_uniform": tf.initializers.he_uniform,
    "identity": tf.initializers.identity,
    "lecun_normal": tf.initializers.lecun_normal,
    "lecun_uniform": tf.initializers.lecun_uniform,
    "normal": lambda: tf.random_normal_initializer(stddev=0.05),
    "ones": tf.ones_initializer,
    "orthogonal": tf.orthogonal_initializer,
    "random_normal": lambda: tf.random_normal_initializer(stddev=0.05),
    "random_uniform": lambda: tf.random_uniform_initializer(-0.05, 0.05),
    "truncated_normal": lambda: tf.truncated_normal_initializer(stddev=0.05),
    "uniform": lambda: tf.random_uniform_initializer(-0.05, 0.05),
    "zeros": tf.zeros_initializer,
}
_REGULARIZERS: dict[str, Callable[[tf.Tensor], tf.Tensor]] = {
    "l1": lambda x: 0.01 * tf.reduce_sum(tf.abs(x)),
    "l1_l2": lambda x: 0.01 * tf.reduce_sum(tf.abs(x)) + 0.01 * tf.reduce_sum(tf.square(x)),
    "l2": lambda x: 0.01 * tf.reduce_sum(tf.square(x)),
}
_SMALL = 1e-7
_CONSTRAINTS: dict[str, Callable[[tf.Tensor], tf.Tensor]] = {
    "max_norm": lambda w: w * tf.minimum(_norms(w), 2.0) / (_SMALL + _norms(w)),
    "non_neg": lambda w: tf.where(w >= 0, w, tf.zeros_like(w)),
    "unit_norm": lambda w: w / (_SMALL + _norms(w)),
}


def activation_of(owner: object, activation: Activation) -> Callable[[tf.Tensor], tf.Tensor] | None:
    """Return an activation given as a function, by name or as None.

    Raises:
        ConfigError: The name is not known.
        WrongTypeError: It is neither a function nor a name.
    """
    if activation is None or activation == "linear":
        return None
    if isinstance(activation, str):
        return getattr(tf.nn, check_choice(owner, "activation", activation, ("linear", *ACTIVATIONS)))
    return check_function(owner, "activation", activation, _FUNCTION)


def initializer_of(owner: object, initializer: Any) -> Initializer:
    """Return an initializer that is given as such, as its class, a tensor, a name or a configuration, or not at all.

    One of Keras draws the same numbers each time, as it does in Keras.

    Raises:
        ConfigError: The name or configuration is not known.
    """
    if isinstance(initializer, dict):
        return initializer_from_config(owner, initializer)
    if isinstance(initializer, str):
        return _INITIALIZERS[check_choice(owner, "initializer", initializer, _INITIALIZERS)]()
    return initializer() if isinstance(initializer, type) else initializer


def _function_of(owner: object, kind: str, value: Any, named: dict[str, Any]) -> Any:
    if isinstance(value, str):
        return named[check_choice(owner, kind, value, named)]
    return None if value is None else check_function(owner, kind, value, _FUNCTION)


def regularizer_of(owner: object, regularizer: Any) -> Regularizer:
    """Return a regularizer given as a function, by name or as None.

    Raises:
        ConfigError: The name is not known.
        WrongTypeError: It is neither a function nor a name.
    """
    return _function_of(owner, "regularizer", regularizer, _REGULARIZERS)


def constraint_of(owner: object, constraint: Any) -> Constraint:
    """Return a constraint, given as `regularizer_of` takes a regularizer."""
    return _function_of(owner, "constraint", constraint, _CONSTRAINTS)


_KINDS = {"initializer": initializer_of, "regularizer": regularizer_of, "constraint": constraint_of}


def set_parts(layer: Any, given: dict[str, Any]) -> None:
    """Check arguments such as ``kernel_initializer`` or ``beta_constraint``, and make them attributes of a layer.

    Raises:
        ConfigError: A name is not known.
        WrongTypeError: One is neither a function nor a name.
    """
    for name, value in given.items():
        variable, _, kind = name.rpartition("_")
        if kind in _KINDS and variable != "activity":
            setattr(layer, name, _KINDS[kind](layer, value))


def parts_of(layer: Any, variable: str) -> dict[str, Any]:
    """Return the initializer, regularizer and constraint of a variable of a layer, as far as the layer has them."""
    return {kind: getattr(layer, f"{variable}_{kind}", None) for kind in _KINDS}


def check_data_format(owner: object, data_format: str) -> str:
    """Return the name of a data format in lower case; raise ConfigError if it is none."""
    name = data_format.lower() if isinstance(data_format, str) else data_format
    return check_choice(owner, "data_format", name, (CHANNELS_LAST, CHANNELS_FIRST))


def check_padding(owner: object, padding: str, *others: str) -> str:
    """Return the name of a rule to pad by, in lower case; raise ConfigError if it is none."""
    name = padding.lower() if isinstance(padding, str) else padding
    return check_choice(owner, "padding", name, ("valid", "same", *others))


def count_of(owner: object, name: str, value: Any) -> int:
    """Return a positive number; a whole ``float``, as scripts get by a division, is one.

    Raises:
        ConfigError: It is not positive, or not whole.
    """
    value = getattr(value, "value", value)
    is_whole = isinstance(value, float | np.floating) and value == int(value)
    return check_count(owner, name, int(value) if is_whole else value)


def sizes_of(owner: object, name: str, sizes: Any, rank: int) -> tuple[int, ...]:
    """Return a positive number for each dimension; raise ConfigError if there are more or fewer, or others."""
    values = list(sizes) if isinstance(sizes, list | tuple | np.ndarray | tf.TensorShape) else [sizes] * rank
    if len(values) != rank:
        raise ConfigError(mismatch(owner, name, sizes, f"one number or {rank}"))
    return tuple(check_count(owner, name, getattr(value, "value", value)) for value in values)


def _norms(w: tf.Tensor) -> tf.Tensor:
    return tf.sqrt(tf.reduce_sum(tf.square(w), axis=0, keepdims=True))


_FIRST = inspect.Parameter("inputs", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=Any)
_REUSE = inspect.Parameter("reuse", inspect.Parameter.POSITIONAL_OR_KEYWORD, default=None, annotation=Any)


def layer_function(name: str, layer: type[Any], *, has_variables: bool = True) -> Callable[..., tf.Tensor]:
    """Return the function of a layer's class.

    Args:
        name: of the function.
        layer: the class.
        has_variables: whether the function takes ``reuse``.
    """
    parameters = [p for p in _parameters_of(layer) if p.kind is not p.VAR_KEYWORD]
    signature = inspect.Signature([_FIRST, *parameters, *([_REUSE] if has_variables else [])])
    known = set(signature.parameters)

    def function(*args: Any, **kwargs: Any) -> tf.Tensor:
        given = dict(zip(signature.parameters, args, strict=False), **kwargs)
        if len(given) != len(args) + len(kwargs) or not given.keys() <= known or "inputs" not in given:
            # It says which argument is wrong.
            signature.bind(*args, **kwargs)
        inputs = given.pop("inputs")
        if has_variables:
            given.update(_reuse=given.pop("reuse", None), _scope=given.get("name"))
        return layer(**given)(inputs)

    function.__name__ = function.__qualname__ = name
    function.__module__ = layer.__module__
    function.__doc__ = f"""Apply `{layer.__name__}`, whose arguments these are.

    Args:
        inputs: the input.
        *args: the arguments of the class, in its order{"; then ``reuse``, as for a variable scope" * has_variables}.
        **kwargs: the same by name.
    """
    function.__signature__ = signature  # type: ignore[attr-defined]
    return function


def _parameters_of(layer: type[Any]) -> list[inspect.Parameter]:
    """Return the parameters of a class; before Python 3.11 its signature is that of ``__new__``, which takes any."""
    shown = vars(layer).get("__signature__")
    _, *parameters = inspect.signature(layer.__init__).parameters.values()
    return list(parameters if shown is None else shown.parameters.values())


class InputSpec:
    """Requirements of a layer on an input; None accepts anything.

    Args:
        dtype: its type.
        shape: its shape, in which None is any size.
        ndim: its number of dimensions.
        max_ndim: the largest number of dimensions.
        min_ndim: the smallest one.
        axes: the sizes of some axes, by their numbers, which may count from the end.
    """

    def __init__(
        self,
        dtype: Any = None,
        shape: Sequence[int | None] | None = None,
        ndim: int | None = None,
        max_ndim: int | None = None,
        min_ndim: int | None = None,
        axes: Mapping[int, int | None] | None = None,
    ) -> None:
        self.dtype = dtype
        self.shape = shape
        self.ndim = len(shape) if shape is not None else ndim
        self.max_ndim = max_ndim
        self.min_ndim = min_ndim
        self.axes = {int(axis): size for axis, size in (axes or {}).items()}

    def __repr__(self) -> str:
        given = [f"{name}={value}" for name, value in vars(self).items() if value or value == 0]
        return f"InputSpec({', '.join(given)})"

    def refusal(self, inputs: tf.Tensor) -> str | None:
        """Return why an input does not fit, or None if it does."""
        wants_rank = self.ndim is not None or self.max_ndim is not None or self.min_ndim is not None
        rank = inputs.shape.rank
        if rank is None:
            return "expected a known number of dimensions" if wants_rank or self.axes else None
        if self.ndim is not None and rank != self.ndim:
            return f"expected {self.ndim} dimensions"
        if self.max_ndim is not None and rank > self.max_ndim:
            return f"expected at most {self.max_ndim} dimensions"
        if self.min_ndim is not None and rank < self.min_ndim:
            return f"expected at least {self.min_ndim} dimensions"
        if self.dtype is not None and inputs.dtype.base_dtype != tf.as_dtype(self.dtype):
            return f"expected {tf.as_dtype(self.dtype).name}"
        return self._refused_size(inputs.shape.as_list())

    def _refused_size(self, sizes: list[int | None]) -> str | None:
        wanted = [*self.axes.items(), *enumerate(self.shape or ())]
        for axis, size in wanted:
            if not -len(sizes) <= axis < len(sizes):
                return f"expected a dimension {axis}"
            if size is not None and sizes[axis] is not None and sizes[axis] != size:
                return f"expected {size} as the size of dimension {axis}"
        return None
