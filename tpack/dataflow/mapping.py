"""Data points changed, or dropped, by a function."""

from collections.abc import Callable, Iterator
from typing import Any

from tpack.dataflow.base import DataFlow, ProxyDataFlow
from tpack.dataflow.point import Point
from tpack.errors import ConfigError


class MapData(ProxyDataFlow):
    """Yield what a function makes of each data point; None drops the point.

    The length is that of the wrapped flow, which is too much if points are dropped.
    """

    def __init__(self, ds: DataFlow, func: Callable[[Any], Any]) -> None:
        """Make the flow.

        Args:
            ds: the flow.
            func: gets a data point and returns a data point or None. It may change the point it gets only if the
                source does not yield the same object again, as ``DataFromList`` does.

        Raises:
            ConfigError: ``func`` cannot be called.
        """
        super().__init__(ds)
        self.func = _check_callable(self, func)

    def __iter__(self) -> Iterator[Any]:
        for point in self.ds:
            mapped = self.func(point)
            if mapped is not None:
                yield mapped


class MapDataComponent(ProxyDataFlow):
    """Yield data points in which one component is what a function makes of it; None drops the whole point.

    The point of the wrapped flow is not changed: lists and tuples become a new list, dicts a new dict.
    """

    def __init__(self, ds: DataFlow, func: Callable[[Any], Any], index: int | str = 0) -> None:
        """Make the flow.

        Args:
            ds: a flow of lists, tuples or dicts.
            func: gets the component and returns the new one or None. It must not change the one it gets.
            index: which component: its place, or its key in a dict.

        Raises:
            ConfigError: ``func`` cannot be called.
        """
        super().__init__(ds)
        self.func = _check_callable(self, func)
        self.index = index

    def __iter__(self) -> Iterator[Any]:
        for number, point in enumerate(self.ds):
            is_list = isinstance(point, (list, tuple))
            # The usual case, for speed; `Point` knows the others, and what to say where there is no such component.
            is_there = is_list and type(self.index) is int and 0 <= self.index < len(point)
            mapped = self.func(point[self.index] if is_there else Point(number, point).get(self.index))
            if mapped is not None:
                copied: Any = list(point) if is_list else dict(point)
                copied[self.index] = mapped
                yield copied


def _check_callable(owner: DataFlow, func: Any) -> Callable[[Any], Any]:
    if not callable(func):
        raise ConfigError(f"{type(owner).__name__} got func={func!r}: wanted a function of one argument")
    return func
