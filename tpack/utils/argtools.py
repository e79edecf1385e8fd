"""Small tools around functions and their arguments: short shapes, mapped arguments, remembered results."""

import functools
import inspect
import sys
import threading
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, Concatenate, ParamSpec, TypeVar

from tpack.errors import ConfigError
from tpack.utils.logger import log_once
from tpack.utils.renames import on_unknown_argument
from tpack.utils.validation import is_integer

__all__ = [
    "call_only_once",
    "execute_only_once",
    "get_data_format",
    "graph_memoized",
    "log_once",
    "map_arg",
    "memoized",
    "memoized_ignoreargs",
    "memoized_method",
    "shape2d",
    "shape4d",
]


F = TypeVar("F", bound=Callable[..., Any])
P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S")
_TO_KERAS = {"NCHW": "channels_first", "NHWC": "channels_last"}
_FROM_KERAS = {keras: short for short, keras in _TO_KERAS.items()}
_RESULTS = "_tpack_memoized_results"
_LOCK = threading.Lock()
_executed: set[tuple[str, int]] = set()


def call_only_once(method: Callable[Concatenate[S, P], R]) -> Callable[Concatenate[S, P], R]:
    """Decorate a method so that a second call on the same object is a ConfigError.

    A call that raised counts too: the object may be half set up.
    """

    @functools.wraps(method)
    def wrapper(self: S, *args: P.args, **kwargs: P.kwargs) -> R:
        called: set[str] = self.__dict__.setdefault("_called_only_once", set())
        if method.__qualname__ in called:
            raise ConfigError(f"{type(self).__name__}.{method.__name__}() was called before: expected one call")
        called.add(method.__qualname__)
        return method(self, *args, **kwargs)

    return wrapper


def map_arg(**maps: Callable[[Any], object]) -> Callable[[F], F]:
    """Decorate a function so that some of its arguments go through functions first.

    Args:
        **maps: a function for each argument by name. An argument that a call leaves out keeps its default as it is.

    Raises:
        ConfigError: The function that is decorated has no argument of such a name.

    Example:
        @map_arg(size=shape2d)
        def crop(image, size): ...
    """

    def decorate(func: F) -> F:
        signature = inspect.signature(func)
        unknown = maps.keys() - signature.parameters.keys()
        if unknown:
            raise ConfigError(f"{func.__qualname__} has no argument {', '.join(map(repr, sorted(unknown)))} to map")

        @functools.wraps(func)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            bound = signature.bind(*args, **kwargs)
            for name in maps.keys() & bound.arguments.keys():
                bound.arguments[name] = maps[name](bound.arguments[name])
            return func(*bound.args, **bound.kwargs)

        return wrapper  # type: ignore[return-value]

    return decorate


def shape2d(a: int | Sequence[int]) -> list[int]:
    """Return ``[a, a]`` for an integer, and a sequence of two integers as a list; raise ConfigError for others."""
    if is_integer(a):
        return [int(a), int(a)]
    if isinstance(a, Sequence) and len(a) == 2 and all(map(is_integer, a)):
        return [int(size) for size in a]
    raise ConfigError(f"{a!r} is no two-dimensional shape: expected an integer or two integers")


def shape4d(a: int | Sequence[int], data_format: str = "NHWC") -> list[int]:
    """Return the four-dimensional shape of a kernel or stride given in short, with 1 for batch and channels.

    Args:
        a: what ``shape2d`` takes.
        data_format: ``"NHWC"`` or ``"NCHW"``, or Keras's names of them.
    """
    height_width = shape2d(a)
    if get_data_format(data_format, keras_mode=False) == "NCHW":
        return [1, 1, *height_width]
    return [1, *height_width, 1]


def _with_older_arguments(function: F) -> F:
    """Let a function that does not check its arguments by their annotations be called with older names of them."""
    signature = inspect.signature(function)

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if not kwargs.keys() <= signature.parameters.keys():
            kwargs = on_unknown_argument(signature, function.__qualname__, args, kwargs)
        return function(*args, **kwargs)

    return call  # type: ignore[return-value]


@_with_older_arguments
def get_data_format(data_format: str, keras_mode: bool = True) -> str:
    """Translate the name of a data format into Keras's or into TensorFlow's.

    Args:
        data_format: ``"NHWC"``, ``"NCHW"``, ``"channels_last"`` or ``"channels_first"``.
        keras_mode: whether to return ``"channels_last"`` or ``"channels_first"``, and else ``"NHWC"`` or ``"NCHW"``.

    Raises:
        ConfigError: The name is none of the four.
    """
    if data_format not in _TO_KERAS and data_format not in _FROM_KERAS:
        raise ConfigError(f"data_format={data_format!r}: expected one of {', '.join([*_TO_KERAS, *_FROM_KERAS])}")
    return (_TO_KERAS if keras_mode else _FROM_KERAS).get(data_format, data_format)


def memoized(func: F) -> F:
    """Decorate a function so that it is called once for each set of arguments, which must be hashable."""
    return functools.cache(func)  # type: ignore[return-value]


def memoized_method(method: Callable[Concatenate[S, P], R]) -> Callable[Concatenate[S, P], R]:
    """Decorate a method so that its results are kept in the object for each set of hashable arguments."""

    @functools.wraps(method)
    def wrapper(self: S, *args: P.args, **kwargs: P.kwargs) -> R:
        results: dict[Hashable, R] = self.__dict__.setdefault("_memoized_results", {})
        return _remember(results, (method.__qualname__, args), lambda: method(self, *args, **kwargs), kwargs)

    return wrapper


def memoized_ignoreargs(func: Callable[P, R]) -> Callable[P, R]:
    """Decorate a function so that it is called once, and later calls return the same whatever their arguments."""
    results: list[R] = []

    @functools.wraps(func)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
        if not results:
            results.append(func(*args, **kwargs))
        return results[0]

    return wrapper


def graph_memoized(func: Callable[P, R]) -> Callable[P, R]:
    """Decorate a function so that its results are kept in the default graph for each set of arguments."""

    @functools.wraps(func)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
        graph = sys.modules["tensorflow"].compat.v1.get_default_graph()
        if not hasattr(graph, _RESULTS):
            setattr(graph, _RESULTS, {})
        results: dict[Hashable, R] = getattr(graph, _RESULTS)
        return _remember(results, (func, args), lambda: func(*args, **kwargs), kwargs)

    return wrapper


def execute_only_once() -> bool:
    """Return True to the first call from a line of code, and False to later calls from it.

    Example:
        ``if execute_only_once(): logger.info("...")``
    """
    # The frame of the caller.
    caller = sys._getframe(1)
    place = (caller.f_code.co_filename, caller.f_lineno)
    with _LOCK:
        if place in _executed:
            return False
        _executed.add(place)
        return True


def _remember(
    results: dict[Hashable, R], call: tuple[Hashable, ...], make: Callable[[], R], kwargs: Mapping[str, Hashable]
) -> R:
    """Return what was remembered for a call and its keyword arguments, or make it and remember."""
    key = (call, tuple(sorted(kwargs.items())))
    if key not in results:
        results[key] = make()
    return results[key]
