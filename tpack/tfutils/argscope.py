"""Default arguments for layers: arguments common to most calls in a block are written once, around it.

They live in a context variable, end with their ``with`` block, and are unset in new threads that do not run in a copy
of the context. The input and output shapes of such layers are logged once per graph, from the main training tower.
"""

import functools
import inspect
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from difflib import get_close_matches
from threading import Event
from types import ModuleType
from typing import Any, TypeVar

import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError
from tpack.tower.context import get_current_tower_context
from tpack.tower.per_graph import PerGraph
from tpack.utils import logger
from tpack.utils.validation import check_arguments, mismatch

F = TypeVar("F", bound=Callable[..., Any])
_IN_FORCE: ContextVar[Mapping[str, Mapping[str, Any]]] = ContextVar("tpack_argscope")
_logged_layers: PerGraph[set[str]] = PerGraph(set)
_logging_disabled = Event()


@contextmanager
@check_arguments
def argscope(layers: Callable[..., Any] | Sequence[Callable[..., Any]], **kwargs: Any) -> Iterator[None]:
    """Use ``kwargs`` as arguments of some layers in this block, where a call does not give them itself.

    An inner block adds to an outer one and takes precedence. Layers are distinguished by the name of their function.

    Args:
        layers: a layer or a list of them: functions made by ``layer_register`` or ``enable_argscope_for_function``.
        **kwargs: the arguments. Each of the layers must know all of them.

    Raises:
        ConfigError: A function is not a layer, or does not know an argument. The message lists near names.

    Example:
        with argscope([Conv2D, MaxPooling], data_format="channels_first"), argscope(Conv2D, activation=tf.nn.relu):
            x = Conv2D("conv0", image, 32, 3)
    """
    functions: list[Any] = list(layers) if isinstance(layers, list | tuple) else [layers]
    scope = get_arg_scope()
    for function in functions:
        if not getattr(function, "__argscope_enabled__", False):
            way_out = "layer_register or enable_argscope_for_function"
            raise ConfigError(mismatch("argscope", "layers", function, "layers", way_out))
        scope[function.__name__].update(canonical_arguments(function, kwargs))
    token = _IN_FORCE.set(scope)
    try:
        yield
    finally:
        _IN_FORCE.reset(token)


def get_arg_scope() -> defaultdict[str, dict[str, Any]]:
    """Return a copy of the arguments in force: a dict by the layer's name, empty for a layer without any."""
    return defaultdict(dict, {name: dict(kwargs) for name, kwargs in _IN_FORCE.get({}).items()})


def complete_arguments(function: Callable[..., Any], args: Iterable[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keyword arguments of a call of a layer, and those in force that the call does not give.

    Raises:
        ConfigError: The function does not know a keyword, or got it under two names.
    """
    given = canonical_arguments(function, kwargs)
    in_force = _IN_FORCE.get({}).get(function.__name__)
    if not in_force:
        return given
    positional = {name for name, _ in zip(_positional_names(function), args, strict=False)}
    return {**{name: value for name, value in in_force.items() if name not in positional}, **given}


def canonical_arguments(function: Callable[..., Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Return keyword arguments under a function's names; its ``__argument_aliases__`` maps older names to today's.

    Raises:
        ConfigError: The function does not know one of them, or got one under two names.
    """
    aliases: Mapping[str, str] = getattr(function, "__argument_aliases__", {})
    known = _known_names(function)
    canonical: dict[str, Any] = {}
    for name, value in kwargs.items():
        target = aliases.get(name, name)
        if known is not None and target not in known:
            near = get_close_matches(name, [*known, *aliases], n=3) or sorted(known)
            raise ConfigError(f"{function.__name__} has no argument {name!r}; near names: {', '.join(near)}")
        if target in canonical:
            raise ConfigError(f"{function.__name__} got {target!r} under two names: expected it once, as {target!r}")
        canonical[target] = value
    return canonical


@check_arguments
def enable_argscope_for_function(func: F, log_shape: bool = True) -> F:
    """Return a function that does the same and takes default arguments from ``argscope``.

    Args:
        func: any function; its first argument is the input whose shape is logged.
        log_shape: log the shapes of the input and result, once for each ``name``.

    Raises:
        ConfigError: It is not callable.
    """

    @functools.wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        kwargs = complete_arguments(wrapper, args, kwargs)
        outputs = func(*args, **kwargs)
        if log_shape and args and kwargs.get("name"):
            scope = tf.get_variable_scope().name
            log_shapes(f"{scope}/{kwargs['name']}" if scope else str(kwargs["name"]), args[0], outputs)
        return outputs

    mark_as_layer(wrapper, func)
    return wrapper  # type: ignore[return-value]


def mark_as_layer(layer: Callable[..., Any], function: Callable[..., Any]) -> None:
    """Let ``layer``, which calls ``function``, take default arguments from ``argscope``.

    The arguments are those of ``function``; scripts find it as ``layer.symbolic_function``.
    """
    layer.symbolic_function = function  # type: ignore[attr-defined]
    layer.__argscope_enabled__ = True  # type: ignore[attr-defined]


@check_arguments
def enable_argscope_for_module(module: ModuleType, log_shape: bool = True) -> None:
    """Replace the public functions of a module, for all its users, by ones with default arguments from ``argscope``.

    Names that the module lists and cannot load, such as those of another package, are left out and logged.

    Args:
        module: the module.
        log_shape: as in ``enable_argscope_for_function``.

    Raises:
        ConfigError: It is not a module, or cannot be loaded.
    """
    try:
        names = [name for name in dir(module) if not name.startswith("_")]
    except Exception as error:
        raise ConfigError(f"enable_argscope_for_module cannot load {module.__name__}: {error}") from error
    for name in names:
        try:
            function = getattr(module, name)
        except Exception as error:
            logger.warning(f"{module.__name__}.{name} cannot be loaded and is left out of argscope: {error}")
            continue
        if inspect.isfunction(function) and not getattr(function, "__argscope_enabled__", False):
            setattr(module, name, enable_argscope_for_function(function, log_shape))


def _known_names(function: Callable[..., Any]) -> list[str] | None:
    """Return the names that a function accepts as keywords, not those of what it wraps; None if it accepts any."""
    parameters = _parameters(getattr(function, "symbolic_function", function), follow_wrapped=False)
    if parameters is None or any(p.kind is p.VAR_KEYWORD for p in parameters):
        return None
    return [p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]


def _positional_names(function: Callable[..., Any]) -> list[str]:
    """Return the names of a function's positional arguments, and of those it passes on behind ``*args``."""
    own = getattr(function, "symbolic_function", function)
    parameters = _parameters(own, follow_wrapped=False) or []
    if any(p.kind is p.VAR_POSITIONAL for p in parameters):
        parameters = _parameters(own, follow_wrapped=True) or []
    return [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]


def _parameters(function: Callable[..., Any], *, follow_wrapped: bool) -> list[inspect.Parameter] | None:
    """Return the parameters of a function; None if it does not reveal them, as some that are written in C."""
    try:
        return list(inspect.signature(function, follow_wrapped=follow_wrapped).parameters.values())
    except (ValueError, TypeError):
        return None


def disable_layer_logging() -> None:
    """Stop logging the shapes of layers in this process."""
    _logging_disabled.set()


def log_shapes(name: str, inputs: object, outputs: object) -> None:
    """Log the shapes around a layer, once per graph and not in towers other than the main one.

    Args:
        name: the layer's full name.
        inputs: a tensor, or a list or tuple of them.
        outputs: the same; anything but tensors is left out.
    """
    tower = get_current_tower_context()
    if _logging_disabled.is_set() or (tower is not None and not tower.is_main_tower):
        return
    logged = _logged_layers.of(tf.get_default_graph())
    if name not in logged:
        logged.add(name)
        logger.info(f"{name:<20} {_shapes(inputs)} --> {_shapes(outputs)}")


def _shapes(value: object) -> str:
    values = value if isinstance(value, list | tuple) else [value]
    return ", ".join(_shape(v) for v in values if tf.is_tensor(v))


def _shape(tensor: tf.Tensor) -> str:
    if tensor.shape.rank is None:
        return "[unknown rank]"
    return f"[{', '.join('?' if size is None else str(size) for size in tensor.shape.as_list())}]"
