"""Functions whose results are remembered, so that they are called once."""

import functools
import sys
from collections.abc import Callable
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])

_RESULTS = "_tpack_memoized_results"


def memoized(func: F) -> F:
    """Decorate a function so that it is called once for each set of arguments, which must be hashable."""
    return functools.cache(func)  # type: ignore[return-value]


def memoized_method(method: F) -> F:
    """Decorate a method so that it is called once for each object and set of arguments, which must be hashable.

    The results are kept in the object and go with it, which ``memoized`` on a method would prevent.
    """

    @functools.wraps(method)
    def wrapper(self: Any, *args: Any, **kwargs: Any) -> Any:
        results = self.__dict__.setdefault("_memoized_results", {})
        return _remember(results, method.__qualname__, method, (self, *args), kwargs, key_args=args)

    return wrapper  # type: ignore[return-value]


def memoized_ignoreargs(func: F) -> F:
    """Decorate a function so that it is called once, and later calls return the same whatever their arguments."""
    results: list[Any] = []

    @functools.wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        if not results:
            results.append(func(*args, **kwargs))
        return results[0]

    return wrapper  # type: ignore[return-value]


def graph_memoized(func: F) -> F:
    """Decorate a function so that it is called once for each default graph of TensorFlow and set of arguments.

    The results are kept in the graph and go with it.
    """

    @functools.wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        # Who has a graph has loaded TensorFlow; this module works without.
        graph = sys.modules["tensorflow"].compat.v1.get_default_graph()
        if not hasattr(graph, _RESULTS):
            setattr(graph, _RESULTS, {})
        results = getattr(graph, _RESULTS)
        return _remember(results, func, func, args, kwargs, key_args=args)

    return wrapper  # type: ignore[return-value]


def _remember(
    results: dict[Any, Any], name: Any, func: Callable[..., Any], args: Any, kwargs: Any, *, key_args: Any
) -> Any:
    """Return what was remembered for these arguments, or call and remember."""
    key = (name, key_args, tuple(sorted(kwargs.items())))
    if key not in results:
        results[key] = func(*args, **kwargs)
    return results[key]
