"""Layers made of functions: they open a scope, take defaults from ``argscope``, and are known by name.

A layer is called as ``Layer("name", inputs, ...)``. The name becomes a variable scope, so a function that asks for
``"W"`` makes the variable ``name/W``.

Every ``get_variable`` of a layer passes through a guard. It explains a name that another layer has already used, where
TensorFlow only says that a variable exists. And it applies a regularizer once in each training tower: TensorFlow
applies it where it creates the variable, so only the first of the towers that share variables would pay for them, and
K towers would not learn the same as one.
"""

import functools
import inspect
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias, TypeVar

import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError, WrongTypeError
from tpack.models.variables import Regularizer
from tpack.tfutils.argscope import complete_arguments, disable_layer_logging, log_shapes, mark_as_layer
from tpack.tower.context import get_current_tower_context
from tpack.tower.getters import CastVariable
from tpack.tower.names import VARIABLE_KEYS
from tpack.tower.per_graph import PerGraph
from tpack.utils import logger
from tpack.utils.validation import check_arguments, mismatch, shown

__all__ = ["disable_layer_logging", "get_registered_layer", "layer_register"]


Layer: TypeAlias = Callable[..., Any]
"""A function that makes a part of a model; most return a tensor."""
F = TypeVar("F", bound=Layer)
_Getter: TypeAlias = Callable[..., tf.Variable]

WEIGHT_ALIASES = {"nl": "activation", "W_init": "kernel_initializer", "b_init": "bias_initializer"}
"""Older names of the arguments of layers with a kernel, for `argument_aliases`."""

_PACKAGE = __name__.rpartition(".")[0]
_layers: dict[str, list[Layer]] = {}
# The keys of the layers built in each graph.
_built: PerGraph[set[str]] = PerGraph(set)


@check_arguments
def layer_register(log_shape: bool = False, use_scope: bool | None = True) -> Callable[[F], F]:
    """Make a layer of a function whose first argument is a tensor, or a list or tuple of tensors.

    A name can be used for one layer in a scope, unless the layer has no variables or the scope reuses them: the error
    names the layer.

    Args:
        log_shape: log the shapes of input and output when a layer of a name is first made in a graph.
        use_scope: True: the first argument of the layer is its name. None: the name is optional; without it the
            variables are made in the current scope. False: as None, with a warning if there is a name.

    Attributes:
        symbolic_function: the function that a layer was made of.

    Example:
        @layer_register(log_shape=True)
        def Scale(x, init=1.0):
            return x * tf.get_variable("factor", [], initializer=tf.constant_initializer(init))

        y = Scale("scale0", x, init=0.5)
    """

    def decorate(function: F) -> F:
        @functools.wraps(function)
        def layer(*args: Any, **kwargs: Any) -> Any:
            if tf.executing_eagerly():
                raise ConfigError(
                    f"{layer.__name__} got a call in eager mode: expected a graph; use it in a model's build_graph, or "
                    "inside of `with tf.Graph().as_default():`"
                )
            name, args = _split_name(layer, args)
            inputs = _inputs_of(layer, name, args)
            args = (inputs, *args[1:])
            kwargs = complete_arguments(layer, args, kwargs)
            with layer_scope(layer.__name__, name) as scope:
                outputs = function(*args, **kwargs)
            if log_shape:
                log_shapes(scope.name if name else layer.__name__, inputs, outputs)
            return outputs

        layer.use_scope = use_scope  # type: ignore[attr-defined]
        mark_as_layer(layer, function)
        _register(layer.__name__, layer)
        return layer  # type: ignore[return-value]

    return decorate


def get_registered_layer(name: str) -> Layer | None:
    """Return the layer of a name, or None.

    Raises:
        ConfigError: Several functions of this name are layers.
    """
    _load_own(name)
    layers = _layers.get(name, [])
    if len(layers) > 1:
        where = ", ".join(f"{layer.__module__}.{layer.__qualname__}" for layer in layers)
        raise ConfigError(f"{name!r} is the name of {len(layers)} layers ({where}): expected one")
    return layers[0] if layers else None


def register_alias(name: str, layer: F) -> F:
    """Register a layer by another name too, and return it."""
    _register(name, layer)
    return layer


def registered_layer_names() -> list[str]:
    """Return the names of all layers."""
    for name in sys.modules[_PACKAGE].__all__:
        _load_own(name)
    return sorted(_layers)


def _load_own(name: str) -> None:
    """Load the module of a layer of this package, which registers it; the package loads names on first use."""
    package = sys.modules[_PACKAGE]
    if name in package.__all__:
        getattr(package, name)


def argument_aliases(**aliases: str) -> Callable[[F], F]:
    """Accept other names of a layer's arguments, which older scripts use.

    Args:
        **aliases: the other name, and the argument that it means.
    """

    def decorate(function: F) -> F:
        function.__argument_aliases__ = aliases  # type: ignore[attr-defined]
        return function

    return decorate


def _register(name: str, layer: Layer) -> None:
    """Add a layer, replacing an earlier one of the same definition, as in a reloaded module."""
    others = [
        other
        for other in _layers.get(name, [])
        if (other.__module__, other.__qualname__) != (layer.__module__, layer.__qualname__)
    ]
    _layers[name] = [*others, layer]


def _split_name(layer: Layer, args: tuple[Any, ...]) -> tuple[str | None, tuple[Any, ...]]:
    """Return the layer name in a call, or None, and its other positional arguments."""
    kind, use_scope = layer.__name__, layer.use_scope  # type: ignore[attr-defined]
    if args and isinstance(args[0], str):
        if not args[0]:
            raise ConfigError(f"{kind} got an empty name: expected some text")
        if use_scope is False:
            logger.warning(f"{kind} got the name {args[0]!r}: expected none; use use_scope=None to register it")
        return args[0], args[1:]
    if use_scope:
        got = (repr(args[0])[:100] if tf.is_tensor(args[0]) else shown(args[0])) if args else "nothing"
        raise ConfigError(f"{kind} got {got} first: expected its name; use {kind}('name', inputs, ...)")
    return None, args


def _inputs_of(layer: Layer, name: str | None, args: tuple[Any, ...]) -> tf.Tensor | list[tf.Tensor]:
    """Return the input of a call, with cast variables as tensors."""
    inputs = args[0] if args else None
    if isinstance(inputs, list | tuple):
        tensors = [_as_tensor(value) for value in inputs]
        inputs = tensors
    else:
        inputs = _as_tensor(inputs)
        tensors = [inputs]
    if not tensors or not all(map(tf.is_tensor, tensors)):
        argument = next(iter(inspect.signature(layer).parameters))
        owner = f"{layer.__name__} {name!r}" if name else layer.__name__
        raise WrongTypeError(mismatch(owner, argument, inputs, "a tensor, or a list of tensors"))
    return inputs


def _as_tensor(value: object) -> object:
    return value.value() if isinstance(value, CastVariable) else value


@contextmanager
def layer_scope(kind: str, name: str | None) -> Iterator[tf.VariableScope]:
    """Open the scope of a layer's variables and operations.

    Args:
        kind: the name of the layer's function.
        name: the variable scope to open; None stays in the current one.

    Raises:
        ConfigError: A layer of this name has made the same variable, and the scope does not reuse variables.
    """
    guard = _Guard(kind, name)
    with _ask_in_current_scope(guard) if name is None else tf.variable_scope(name, custom_getter=guard) as scope:
        guard.key = scope.name if name is not None else f"{scope.name}:{kind}"
        yield scope
        _built.of(tf.get_default_graph()).add(guard.key)


@contextmanager
def _ask_in_current_scope(guard: "_Guard") -> Iterator[tf.VariableScope]:
    """Put a custom getter before that of the current variable scope for a block.

    Opening the scope again would do that too, but forget which default names the block used.
    """
    scope = tf.get_variable_scope()
    before = scope.custom_getter

    def before_guarded(getter: _Getter, *args: Any, **kwargs: Any) -> tf.Variable:
        return guard(functools.partial(before, getter), *args, **kwargs)

    scope.set_custom_getter(guard if before is None else before_guarded)
    try:
        yield scope
    finally:
        scope.set_custom_getter(before)


class _Guard:
    """The custom getter of one call of a layer."""

    def __init__(self, kind: str, name: str | None) -> None:
        self._kind = kind
        self._name = name
        self.key = ""

    def __call__(self, getter: _Getter, name: str, *args: Any, **kwargs: Any) -> tf.Variable:
        """Get the variable ``name``."""
        regularizer = kwargs.get("regularizer")
        # The innermost layer comes first and applies the regularizer; the layers around it leave it alone.
        if regularizer is None or isinstance(regularizer, _Created):
            return self._get(getter, name, *args, **kwargs)
        created = _Created()
        result = self._get(getter, name, *args, **{**kwargs, "regularizer": created})
        # The variable itself: a custom getter may have returned a function of it, such as a cast.
        _regularize_in_this_tower(
            name, _find_variable(name) if created.variable is None else created.variable, regularizer
        )
        return result

    def _get(self, getter: _Getter, name: str, *args: Any, **kwargs: Any) -> tf.Variable:
        try:
            return getter(name, *args, **kwargs)
        except ConfigError:
            raise
        except ValueError as error:
            was_built = self.key in _built.of(tf.get_default_graph())
            if not kwargs.get("reuse") and was_built and _find_variable(name) is not None:
                raise ConfigError(self._used_twice(name)) from error
            raise

    def _used_twice(self, variable_name: str) -> str:
        if self._name is None:
            problem = f"{self._kind} got a second call without a name in one variable scope"
            remedy = f"a name, {self._kind}('name', x)"
        else:
            problem, remedy = f"{self._kind} {self.key!r} got the name of another layer", "a name for each layer"
        return (
            f"{problem}, whose variable {variable_name!r} exists: expected {remedy}; use "
            "tf.variable_scope(..., reuse=tf.AUTO_REUSE) to share the variables"
        )


class _Created:
    """A regularizer that notes the variable that TensorFlow creates, without any loss."""

    variable: tf.Variable | None = None

    def __call__(self, variable: tf.Variable) -> None:
        """Note the variable."""
        self.variable = variable


def _regularize_in_this_tower(name: str, variable: tf.Variable | None, regularizer: Regularizer) -> None:
    """Add the loss of a variable to the collection, except in a tower that has it already or is for prediction."""
    tower = get_current_tower_context()
    if variable is None or (tower is not None and not tower.is_training):
        return
    # The loss of a layer in a loop or condition belongs to the graph around that, as the variable does.
    with tf.init_scope():
        losses = tf.get_collection_ref(tf.GraphKeys.REGULARIZATION_LOSSES)
        if any(getattr(loss, "regularized_variable_name", None) == name for loss in losses):
            return
        # Variables are made outside of name scopes, so this one is at the top of the graph.
        with tf.name_scope(f"{name}/Regularizer"):
            loss = regularizer(variable)
        if loss is not None:
            loss = tf.convert_to_tensor(loss)
            loss.regularized_variable_name = name
            losses.append(loss)


def _find_variable(name: str) -> tf.Variable | None:
    graph = tf.get_default_graph()
    return next((v for key in VARIABLE_KEYS for v in graph.get_collection_ref(key) if v.op.name == name), None)
