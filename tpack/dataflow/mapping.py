"""Data points changed, or dropped, by a function."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from tpack.dataflow.base import DataFlow, ProxyDataFlow
from tpack.errors import ConfigError, DataPointError


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
            mapped = self.func(self._select(number, point))
            if mapped is not None:
                copied: Any = dict(point) if isinstance(point, Mapping) else list(point)
                copied[self.index] = mapped
                yield copied

    def _select(self, number: int, point: Any) -> Any:
        """Return the component of a point, or say that the point has none such."""
        if not isinstance(point, (list, tuple, Mapping)):
            raise DataPointError(f"data point {number} is a {type(point).__name__}: wanted a list, a tuple or a dict")
        try:
            return point[self.index]  # type: ignore[index]
        except (LookupError, TypeError) as error:
            has = f"the keys {list(point)}" if isinstance(point, Mapping) else f"{len(point)} components"
            raise DataPointError(f"data point {number} has no component {self.index!r}: it has {has}") from error


def _check_callable(owner: DataFlow, func: Any) -> Callable[[Any], Any]:
    if not callable(func):
        raise ConfigError(f"{type(owner).__name__} got func={func!r}: wanted a function of one argument")
    return func
