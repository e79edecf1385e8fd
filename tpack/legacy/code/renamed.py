"""Older names of present classes and functions, which log their first use."""

import functools
from collections.abc import Callable
from typing import Any, TypeVar

from tpack.legacy.table import say

Made = TypeVar("Made", bound=Callable[..., Any])


def older_class(name: str, today: type[Any], *, module: str) -> type[Any]:
    """Return a subclass that equals a present class.

    Args:
        name: the older name.
        today: the class.
        module: the ``__name__`` of the subclass's module.
    """

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807 (it is that of the class below)
        if type(self).__name__ == name:
            say(name, today.__name__)
        today.__init__(self, *args, **kwargs)

    doc = f"The older name of `{today.__name__}`."
    return type(name, (today,), {"__init__": __init__, "__module__": module, "__doc__": doc})


def older_function(name: str, today: str) -> Callable[[Made], Made]:
    """Decorate a function with an older name; the log names its replacement ``today``."""

    def decorate(function: Made) -> Made:
        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            say(name, today)
            return function(*args, **kwargs)

        return call  # type: ignore[return-value]

    return decorate
