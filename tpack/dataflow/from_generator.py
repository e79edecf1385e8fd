"""Data points from a generator function."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from tpack.dataflow.base import DataFlow
from tpack.dataflow.from_iterable import DataFromIterable
from tpack.errors import ConfigError


class DataFromGenerator(DataFlow):
    """Call a generator function for each pass and yield what it yields. The length is not known."""

    def __init__(self, gen: Callable[[], Iterable[Any]] | Iterable[Any]) -> None:
        """Make the flow.

        Args:
            gen: a function without arguments that returns an iterable, typically a generator function; or an iterable,
                as ``DataFromIterable`` takes.

        Raises:
            ConfigError: It is neither.
        """
        if not callable(gen) and not hasattr(gen, "__iter__"):
            raise ConfigError(f"DataFromGenerator got a {type(gen).__name__}: wanted a generator function")
        self._gen = gen if callable(gen) else DataFromIterable(gen)

    def __iter__(self) -> Iterator[Any]:
        yield from self._gen() if callable(self._gen) else self._gen
