"""``arg_scope``: arguments that most calls in a block of code have in common are written once, around it.

What is in force lives in a context variable: it ends with its ``with`` block, and the threads in which towers are built
run in copies of the context of who builds them.
"""

import functools
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

from tpack.errors import ConfigError, WrongTypeError
from tpack.utils.validation import shown

F = TypeVar("F", bound=Callable[..., Any])
ArgScope = dict[str, dict[str, Any]]
"""Arguments by the key of the function that they are for."""
_IN_FORCE: ContextVar[ArgScope] = ContextVar("tpack_tf1_arg_scope")


def arg_scope_func_key(op: Callable[..., Any]) -> str:
    """Return the key under which a scope keeps the arguments of a function."""
    return getattr(op, "_key_op", str(op))


def current_arg_scope() -> ArgScope:
    """Return the arguments in force, by function."""
    return _IN_FORCE.get({})


def has_arg_scope(func: Callable[..., Any]) -> bool:
    """Tell whether a function takes arguments from scopes, as `add_arg_scope` makes it."""
    return hasattr(func, "_key_op")


def arg_scoped_arguments(func: Callable[..., Any]) -> tuple[str, ...]:
    """Return the names of the arguments that a scope can set for a function: those with defaults.

    Raises:
        ConfigError: The function takes no arguments from scopes.
    """
    _check_scoped(func)
    parameters = inspect.signature(func).parameters.values()
    return tuple(parameter.name for parameter in parameters if parameter.default is not parameter.empty)


@contextmanager
def arg_scope(
    list_ops_or_scope: Sequence[Callable[..., Any]] | Mapping[str, Mapping[str, Any]], **kwargs: Any
) -> Iterator[ArgScope]:
    """Use ``kwargs`` as arguments of some functions in this block, where a call does not give them itself.

    An inner block adds to an outer one and wins where both give the same argument.

    Args:
        list_ops_or_scope: the functions; or what another block gave as its ``as``, which then is in force alone.
        **kwargs: the arguments; none with the scope of another block.

    Raises:
        WrongTypeError: It is neither a list of functions nor a scope.
        ConfigError: A scope came with arguments, or a function takes none from scopes.

    Example:
        with arg_scope([conv2d, fully_connected], weights_regularizer=l2_regularizer(1e-4)) as scope:
            ...
        with arg_scope(scope):
            ...
    """
    token = _IN_FORCE.set(_next_scope(list_ops_or_scope, kwargs))
    try:
        yield _IN_FORCE.get()
    finally:
        _IN_FORCE.reset(token)


def add_arg_scope(func: F) -> F:
    """Return a function that does the same and takes arguments from `arg_scope`."""

    @functools.wraps(func)
    def func_with_args(*args: Any, **kwargs: Any) -> Any:
        in_force = current_arg_scope().get(func_with_args._key_op)  # type: ignore[attr-defined]
        return func(*args, **({**in_force, **kwargs} if in_force else kwargs))

    func_with_args._key_op = str(func)  # type: ignore[attr-defined]
    return func_with_args  # type: ignore[return-value]


def _next_scope(functions: Any, arguments: Mapping[str, Any]) -> ArgScope:
    if isinstance(functions, Mapping):
        if arguments:
            raise ConfigError(
                f"arg_scope got a scope to use again and arguments ({', '.join(arguments)}): expected one"
            )
        return {key: dict(given) for key, given in functions.items()}
    if not isinstance(functions, list | tuple):
        raise WrongTypeError(
            f"arg_scope got {shown(functions)}: expected a list of functions, or the scope of another one"
        )
    for function in functions:
        _check_scoped(function)
    scope = {key: dict(given) for key, given in current_arg_scope().items()}
    for function in functions:
        scope.setdefault(arg_scope_func_key(function), {}).update(arguments)
    return scope


def _check_scoped(function: Callable[..., Any]) -> None:
    if not has_arg_scope(function):
        raise ConfigError(
            f"arg_scope sets arguments of functions that are decorated with @add_arg_scope, got {shown(function)}"
        )
