"""Small tools of tensorpack, for scripts that use them."""

import argparse
import functools
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, NoReturn

from tpack.errors import DependencyError
from tpack.utils import logger

building_rtfd = False
"""Whether tensorpack's documentation is being built; never here."""

globalns = SimpleNamespace()
"""Global values of a script."""


def use_global_argument(args: argparse.Namespace) -> None:
    """Put the arguments of a command line into `globalns`."""
    vars(globalns).update(vars(args))


def log_deprecated(name: str = "", text: str = "", eos: str = "", max_num_warnings: int | None = None) -> None:
    """Warn that something will be removed.

    Args:
        name: its name.
        text: the replacement.
        eos: the time of removal.
        max_num_warnings: not used.
    """
    when = f" after {eos}" if eos else " soon"
    logger.warning(f"{name} will go{when}. {text}" if name else text)


def deprecated(text: str = "", eos: str = "", max_num_warnings: int | None = None) -> Callable[[Any], Any]:
    """Decorate a function that will be removed: the first call warns.

    Args:
        text: the replacement.
        eos: the time of removal.
        max_num_warnings: not used.
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
    """Return a function of a name that raises a `DependencyError` for one or several missing packages."""
    missing = dependency if isinstance(dependency, str) else ", ".join(dependency)

    def dummy(*args: Any, **kwargs: Any) -> NoReturn:
        raise DependencyError(f"{func} needs {missing}, which is not installed")

    return dummy


def create_dummy_class(klass: str, dependency: str | list[str]) -> type[Any]:
    """Return a class of a name whose constructor raises a `DependencyError` for one or several missing packages."""
    fail = create_dummy_func(klass, dependency)
    return type(klass, (), {"__init__": fail})


class IterSpeedCounter:
    """Log how often a line is reached: a call of the counter counts.

    Args:
        print_every: the number of calls from one line of the log to the next.
        name: the first word of the line.
    """

    def __init__(self, print_every: int, name: str | None = None) -> None:
        self.cnt = 0
        self.print_every = int(print_every)
        self.name = name or "IterSpeed"
        self.reset()

    def reset(self) -> None:
        """Measure from now on."""
        self.start = time.perf_counter()

    def __call__(self) -> None:
        """Count."""
        if self.cnt == 0:
            self.reset()
        self.cnt += 1
        if self.cnt % self.print_every == 0:
            secs = time.perf_counter() - self.start
            logger.info(f"{self.name}: {secs:.2f} s for {self.cnt} times, {secs / self.cnt:.3g} s each")


def load_caffe(*args: Any, **kwargs: Any) -> NoReturn:
    """Raise a `DependencyError`: tpack reads no files of Caffe."""
    raise DependencyError("load_caffe and get_caffe_pb need Caffe, whose files tpack does not read: use an .npz file")


get_caffe_pb = load_caffe
