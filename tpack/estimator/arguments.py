"""Call a user's function with those of the optional arguments that it takes."""

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any

_NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


def takes_argument(fn: Callable[..., Any], name: str) -> bool:
    """Tell whether a function, partial or callable object takes an argument of this name.

    What a partial has fixed by name is not taken any more.
    """
    if isinstance(fn, functools.partial) and name in fn.keywords:
        return False
    parameters = inspect.signature(fn).parameters.values()
    if any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in parameters):
        return True
    return any(parameter.name == name and parameter.kind in _NAMED for parameter in parameters)


def required_arguments(fn: Callable[..., Any]) -> list[str]:
    """Return the names of the arguments that a function cannot do without."""
    parameters = inspect.signature(fn).parameters.values()
    return [p.name for p in parameters if p.kind in _NAMED and p.default is inspect.Parameter.empty]


def call_with_accepted(fn: Callable[..., Any], optional: Mapping[str, Any], **arguments: Any) -> Any:
    """Call ``fn`` with ``arguments``, and with those of ``optional`` that it takes."""
    return fn(**arguments, **{name: value for name, value in optional.items() if takes_argument(fn, name)})
