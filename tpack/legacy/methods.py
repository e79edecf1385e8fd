"""Older names of methods of users' classes, and the present methods made of them."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from tpack.legacy.table import say
from tpack.utils.renames import Renamed, add_method, is_written


def take_older_method(cls: type, method: Renamed, function: Any) -> None:
    """Add the present name of a method that a class has under its older name.

    The class stays unchanged if a user's base class has the present method, so that the other one is a helper of its
    own, or if the older name is not a method.

    Args:
        cls: the class.
        method: the two names.
        function: the attribute of the older name, of the class or the first of its bases that has either name.
    """
    older, today, _ = method
    if callable(function) and not _is_helper(cls, today):
        say(f"{older}()", f"{today}()")
        add_method(cls, today, _AS_TODAY[older](function))


def _is_helper(cls: type, today: str) -> bool:
    """Tell whether a user's class has the present method, so that the other name has another meaning."""
    return any(not _is_of_tpack(vars(base)[today]) for base in cls.__mro__ if is_written(base, today))


def _is_of_tpack(method: object) -> bool:
    return getattr(method, "__module__", None) is None or str(method.__module__).partition(".")[0] == "tpack"


def _iterating(get_data: Callable[[Any], Any]) -> Callable[[Any], Iterator[Any]]:
    def iterate(self: Any) -> Iterator[Any]:
        """Begin a pass over the data."""
        return iter(get_data(self))

    return iterate


def _without_arguments(method: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def call(self: Any) -> Any:
        """Return the result of the method under the older name."""
        return method(self)

    return call


def _building(build: Callable[[Any, Sequence[Any]], Any]) -> Callable[..., Any]:
    def build_graph(self: Any, *inputs: Any) -> Any:
        """Build the model from tensors, which the method of the older name takes as one list."""
        is_list = len(inputs) == 1 and isinstance(inputs[0], (list, tuple))
        return build(self, list(inputs[0] if is_list else inputs))

    return build_graph


_AS_TODAY: dict[str, Callable[[Any], Callable[..., Any]]] = {
    "get_data": _iterating,
    "size": _without_arguments,
    "_get_inputs": _without_arguments,
    "_build_graph": _building,
    "_get_optimizer": _without_arguments,
    "get_inputs_desc": _without_arguments,
}
"""For each older name the function that makes the present method of the older one."""
