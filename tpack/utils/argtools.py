"""Small tools around arguments of functions: shapes given in short, arguments mapped, calls allowed once.

Scripts also find here what remembers results (``tpack.utils.memoize``) and logs a line once (``tpack.utils.once``).
"""

import functools
import inspect
from collections.abc import Callable, Sequence
from numbers import Integral
from typing import Any, TypeGuard, TypeVar

from tpack.errors import ConfigError
from tpack.utils.memoize import graph_memoized, memoized, memoized_ignoreargs, memoized_method
from tpack.utils.once import log_once

__all__ = [
    "call_only_once",
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

_TO_KERAS = {"NCHW": "channels_first", "NHWC": "channels_last"}
_FROM_KERAS = {keras: short for short, keras in _TO_KERAS.items()}


def call_only_once(method: F) -> F:
    """Decorate a method so that a second call on the same object is a ConfigError.

    A call that raised counts too: the object may be half set up.
    """

    @functools.wraps(method)
    def wrapper(self: Any, *args: Any, **kwargs: Any) -> Any:
        called: set[str] = self.__dict__.setdefault("_called_only_once", set())
        if method.__qualname__ in called:
            raise ConfigError(f"{type(self).__name__}.{method.__name__}() was called before: wanted one call an object")
        called.add(method.__qualname__)
        return method(self, *args, **kwargs)

    return wrapper  # type: ignore[return-value]


def map_arg(**maps: Callable[[Any], Any]) -> Callable[[F], F]:
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
    """Return ``[a, a]`` for an integer, and a sequence of two integers as a list.

    Raises:
        ConfigError: ``a`` is neither.
    """
    if _is_int(a):
        return [int(a), int(a)]
    if isinstance(a, Sequence) and len(a) == 2 and all(map(_is_int, a)):
        return [int(size) for size in a]
    raise ConfigError(f"{a!r} is no two-dimensional shape: wanted an integer or two integers")


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


def get_data_format(data_format: str, keras_mode: bool = True) -> str:
    """Translate the name of a data format into Keras's or into TensorFlow's.

    Args:
        data_format: ``"NHWC"``, ``"NCHW"``, ``"channels_last"`` or ``"channels_first"``.
        keras_mode: whether to return ``"channels_last"`` or ``"channels_first"``, and else ``"NHWC"`` or ``"NCHW"``.

    Raises:
        ConfigError: The name is none of the four.
    """
    if data_format not in _TO_KERAS and data_format not in _FROM_KERAS:
        raise ConfigError(f"data_format={data_format!r}: wanted one of {', '.join([*_TO_KERAS, *_FROM_KERAS])}")
    return (_TO_KERAS if keras_mode else _FROM_KERAS).get(data_format, data_format)


def _is_int(value: Any) -> TypeGuard[int]:
    # A size that was computed may be a numpy integer.
    return isinstance(value, Integral) and not isinstance(value, bool)
