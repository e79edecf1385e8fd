"""Make a layer out of a function: it opens a scope, takes defaults from ``argscope``, and is known by its name.

A layer is called as ``Layer("name", inputs, ...)``. The name becomes a variable scope, so a function that asks for
``"W"`` makes the variable ``name/W``.
"""

import functools
from collections.abc import Callable
from typing import Any, TypeVar

import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError
from tpack.models.layer_scope import layer_scope
from tpack.tfutils.argscope import complete_arguments
from tpack.tfutils.shape_log import disable_layer_logging, log_shapes
from tpack.tower.cast_variable import CastVariable
from tpack.utils import logger

__all__ = ["disable_layer_logging", "get_registered_layer", "layer_register"]

F = TypeVar("F", bound=Callable[..., Any])

_layers: dict[str, list[Callable[..., Any]]] = {}


def layer_register(log_shape: bool = False, use_scope: bool | None = True) -> Callable[[F], F]:
    """Make a layer out of a function whose first argument is a tensor, or a list or tuple of tensors.

    A name can be used for one layer in a scope, unless the layer has no variables or the scope reuses them: the error
    names the layer.

    Args:
        log_shape: log the shapes of input and output the first time that a layer of a name is made in a graph.
        use_scope: True: the layer is called with its name as first argument. None: the name may be left out, and then
            the layer's variables are made in the current scope. False: as None, and a name is taken with a warning.

    Example:
        @layer_register(log_shape=True)
        def Scale(x, init=1.0):
            return x * tf.get_variable("factor", [], initializer=tf.constant_initializer(init))

        y = Scale("scale0", x, init=0.5)
    """

    def decorate(function: F) -> F:
        @functools.wraps(function)
        def layer(*args: Any, **kwargs: Any) -> Any:
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
        layer.__argscope_enabled__ = True  # type: ignore[attr-defined]
        _register(layer.__name__, layer)
        return layer  # type: ignore[return-value]

    return decorate


def get_registered_layer(name: str) -> Callable[..., Any] | None:
    """Return the layer of a name, or None if there is none.

    Raises:
        ConfigError: Several functions of this name are layers.
    """
    layers = _layers.get(name, [])
    if len(layers) > 1:
        where = ", ".join(f"{layer.__module__}.{layer.__qualname__}" for layer in layers)
        raise ConfigError(f"{name!r} is the name of {len(layers)} layers ({where}): wanted one to choose by its name")
    return layers[0] if layers else None


def register_alias(name: str, layer: F) -> F:
    """Let a layer be found by another name too, and return it."""
    _register(name, layer)
    return layer


def registered_layer_names() -> list[str]:
    """Return the names of all layers."""
    return sorted(_layers)


def _register(name: str, layer: Callable[..., Any]) -> None:
    """Add a layer; one that was defined by the same lines before, such as in a reloaded module, is replaced."""
    others = [
        other
        for other in _layers.get(name, [])
        if (other.__module__, other.__qualname__) != (layer.__module__, layer.__qualname__)
    ]
    _layers[name] = [*others, layer]


def _split_name(layer: Callable[..., Any], args: tuple[Any, ...]) -> tuple[str | None, tuple[Any, ...]]:
    """Return a call's layer name, None if it gives none, and its other positional arguments."""
    kind, use_scope = layer.__name__, layer.use_scope  # type: ignore[attr-defined]
    if args and isinstance(args[0], str):
        if not args[0]:
            raise ConfigError(f"{kind}: the name of a layer cannot be empty")
        if use_scope is False:
            logger.warning(
                f"{kind} wants no name, got {args[0]!r}: call it without, or register it with use_scope=None"
            )
        return args[0], args[1:]
    if use_scope:
        got = repr(args[0])[:100] if args else "nothing"
        raise ConfigError(f"{kind} wants its name first, as {kind}('name', inputs, ...), got {got}")
    return None, args


def _inputs_of(layer: Callable[..., Any], name: str | None, args: tuple[Any, ...]) -> Any:
    """Return a call's input, with variables that are cast where they are used as the tensors that they stand for."""
    inputs = args[0] if args else None
    if isinstance(inputs, list | tuple):
        tensors = [_as_tensor(value) for value in inputs]
        inputs = tensors
    else:
        inputs = _as_tensor(inputs)
        tensors = [inputs]
    if not tensors or not all(map(tf.is_tensor, tensors)):
        called = f"{layer.__name__} {name!r}" if name else layer.__name__
        raise ConfigError(f"{called} wants a tensor, or a list of tensors, as its input, got {inputs!r:.100}")
    return inputs


def _as_tensor(value: Any) -> Any:
    return value.value() if isinstance(value, CastVariable) else value
