"""Small tools that tensorpack had beside its own matter, for scripts that use them."""

import argparse
import functools
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, NoReturn

from tpack.errors import DependencyError
from tpack.utils import logger

building_rtfd = False
"""Whether the documentation of tensorpack is being made; here it never is."""

globalns = SimpleNamespace()
"""A place for what a whole script uses."""


def use_global_argument(args: argparse.Namespace) -> None:
    """Put the arguments of a command line into `globalns`."""
    vars(globalns).update(vars(args))


def log_deprecated(name: str = "", text: str = "", eos: str = "", max_num_warnings: int | None = None) -> None:
    """Warn of something that is about to go.

    Args:
        name: what it is.
        text: what to use instead.
        eos: when it goes.
        max_num_warnings: not used: each warning is written as often as it is asked for.
    """
    when = f" after {eos}" if eos else " soon"
    logger.warning(f"{name} will go{when}. {text}" if name else text)


def deprecated(text: str = "", eos: str = "", max_num_warnings: int | None = None) -> Callable[[Any], Any]:
    """Decorate a function that is about to go: the first call warns.

    Args:
        text: what to use instead.
        eos: when it goes.
        max_num_warnings: not used: there is one.
    """

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        warned: list[bool] = []

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            if not warned:
                warned.append(True)
                log_deprecated(function.__name__, text, eos)
            return function(*args, **kwargs)

        return call

    return decorate


def create_dummy_func(func: str, dependency: str | list[str]) -> Callable[..., NoReturn]:
    """Return a function that raises a `DependencyError` for a package that is missing.

    Args:
        func: its name.
        dependency: the package, or several.
    """
    missing = dependency if isinstance(dependency, str) else ", ".join(dependency)

    def dummy(*args: Any, **kwargs: Any) -> NoReturn:
        raise DependencyError(f"{func} needs {missing}, which is not installed")

    return dummy


def create_dummy_class(klass: str, dependency: str | list[str]) -> type[Any]:
    """Return a class that raises a `DependencyError` for a package that is missing, when an object is made.

    Args:
        klass: its name.
        dependency: the package, or several.
    """
    fail = create_dummy_func(klass, dependency)
    return type(klass, (), {"__init__": fail})
