"""Methods that users' classes define under older names: they take the place of today's, and can be called by both.

A base class of today gives its `OlderMethods` to `take_older_methods` whenever a subclass is made. Of an older name and
today's, the one that the subclass defines, or the first of its bases that has either, is made known under the other
name as well, in the same class; so overriding and ``super()`` work in a mixture of both. Where a user's base class has
today's method and calls the other as a helper of its own, both are left as they are.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from tpack.older_names.table import say


class OlderMethod(NamedTuple):
    """A method that had another name.

    Attributes:
        older: that name.
        today: the name of today.
        as_today: makes today's method out of the older one.
        as_older: makes the older one out of today's; None if nobody calls it by that name.
    """

    older: str
    today: str
    as_today: Callable[[Callable[..., Any]], Callable[..., Any]]
    as_older: Callable[[Callable[..., Any]], Callable[..., Any]] | None = None


def take_older_methods(cls: type, methods: Sequence[OlderMethod]) -> None:
    """Let the methods of a new class that have older names be found by those of today, and the other way round.

    Args:
        cls: the class.
        methods: what its base knows.
    """
    for method in methods:
        holder = next((base for base in cls.__mro__ if _has(base, method.today) or _has(base, method.older)), None)
        if holder is None or (method.today in vars(holder) and method.older in vars(holder)):
            continue
        if method.today in vars(holder):
            if method.as_older is not None:
                _add(cls, method.older, method.as_older(vars(holder)[method.today]))
        elif callable(vars(holder)[method.older]) and not _is_helper(cls, method):
            say(f"{method.older}()", f"{method.today}()")
            _add(cls, method.today, method.as_today(vars(holder)[method.older]))


def _has(cls: type, name: str) -> bool:
    """Tell whether a class itself has a method that was not made here."""
    return name in vars(cls) and not hasattr(vars(cls)[name], "made_of_older")


def _is_helper(cls: type, method: OlderMethod) -> bool:
    """Tell whether a user's class has today's method, so that the other name is a matter of its own."""
    return any(not _is_of_tpack(vars(base)[method.today]) for base in cls.__mro__ if _has(base, method.today))


def _is_of_tpack(method: object) -> bool:
    return getattr(method, "__module__", None) is None or str(method.__module__).partition(".")[0] == "tpack"


def _add(cls: type, name: str, made: Any) -> None:
    made.__name__ = name
    made.__qualname__ = f"{cls.__qualname__}.{name}"
    made.made_of_older = True
    setattr(cls, name, made)


def _iterating(get_data: Callable[[Any], Any]) -> Callable[[Any], Iterator[Any]]:
    def iterate(self: Any) -> Iterator[Any]:
        """Begin a pass over the data."""
        return iter(get_data(self))

    return iterate


def _getting_data(iterate: Callable[[Any], Iterator[Any]]) -> Callable[[Any], Iterator[Any]]:
    def get_data(self: Any) -> Iterator[Any]:
        """Begin a pass over the data, as ``iter`` does."""
        say("get_data()", "iter(), or a for loop")
        return iterate(self)

    return get_data


def _measuring(size: Callable[[Any], int]) -> Callable[[Any], int]:
    def measure(self: Any) -> int:
        """Return the number of data points of a pass."""
        return size(self)

    return measure


def _sizing(measure: Callable[[Any], int]) -> Callable[[Any], int]:
    def size(self: Any) -> int:
        """Return the number of data points of a pass, as ``len`` does."""
        say("size()", "len()")
        return measure(self)

    return size


FLOW_METHODS = (
    OlderMethod("get_data", "__iter__", _iterating, _getting_data),
    OlderMethod("size", "__len__", _measuring, _sizing),
)
"""What data flows of users define."""


def _without_arguments(method: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def call(self: Any) -> Any:
        """Return what the method of the older name does."""
        return method(self)

    return call


def _building(build: Callable[[Any, Sequence[Any]], Any]) -> Callable[..., Any]:
    def build_graph(self: Any, *inputs: Any) -> Any:
        """Build the model from tensors, which the method of the older name takes as one list."""
        is_list = len(inputs) == 1 and isinstance(inputs[0], (list, tuple))
        return build(self, list(inputs[0] if is_list else inputs))

    return build_graph


def _getting_signature(get_signature: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def get_inputs_desc(self: Any) -> Any:
        """Return the inputs, as ``get_input_signature`` does."""
        say("get_inputs_desc()", "get_input_signature()")
        return get_signature(self)

    return get_inputs_desc


MODEL_METHODS = (
    OlderMethod("_get_inputs", "inputs", _without_arguments),
    OlderMethod("_build_graph", "build_graph", _building),
    OlderMethod("_get_optimizer", "optimizer", _without_arguments),
    OlderMethod("get_inputs_desc", "get_input_signature", _without_arguments, _getting_signature),
)
"""What models define, and are asked for."""
