"""Data points changed or dropped by a function, or reduced to some of their components."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from tpack.dataflow.base import DataFlow, ProxyDataFlow
from tpack.errors import ConfigError, DataPointError
from tpack.utils.argument_types import check_arguments


@check_arguments
class MapData(ProxyDataFlow):
    """Yield what a function makes of each data point; None drops the point.

    The length is that of the wrapped flow, which is too much if points are dropped.

    Args:
        ds: the flow.
        func: gets a data point and returns a data point or None. It may change the point it gets only if the
            source does not yield the same object again, as ``DataFromList`` does.

    Raises:
        ConfigError: ``func`` cannot be called.
    """

    def __init__(self, ds: DataFlow, func: Callable[[Any], Any]) -> None:
        super().__init__(ds)
        self.func = func

    def __iter__(self) -> Iterator[Any]:
        for point in self.ds:
            mapped = self.func(point)
            if mapped is not None:
                yield mapped


@check_arguments
class MapDataComponent(ProxyDataFlow):
    """Yield data points in which one component is what a function makes of it; None drops the whole point.

    The point of the wrapped flow is not changed: lists and tuples become a new list, dicts a new dict.

    Args:
        ds: a flow of lists, tuples or dicts.
        func: gets the component and returns the new one or None. It must not change the one it gets.
        index: which component: its place, or its key in a dict.

    Raises:
        ConfigError: ``func`` cannot be called.
    """

    def __init__(self, ds: DataFlow, func: Callable[[Any], Any], index: int | str = 0) -> None:
        super().__init__(ds)
        self.func = func
        self.index = index

    def __iter__(self) -> Iterator[Any]:
        for number, point in enumerate(self.ds):
            is_list = isinstance(point, (list, tuple))
            # The usual case, for speed; `Point` knows the others, and what to say where there is no such component.
            is_there = is_list and type(self.index) is int and 0 <= self.index < len(point)
            mapped = self.func(point[self.index] if is_there else Point(number, point).get(self.index))
            if mapped is not None:
                copied: list[Any] | dict[Any, Any] = list(point) if is_list else dict(point)
                copied[self.index] = mapped  # type: ignore[index]
                yield copied


@check_arguments
def SelectComponent(ds: DataFlow, idxs: Sequence[int | str]) -> DataFlow:  # noqa: N802 (the name that scripts use)
    """Return a flow of lists of some components of each data point, in the order given.

    Args:
        ds: a flow of lists, tuples or dicts.
        idxs: which components: their places, or their keys in a dict. One may come more than once.

    Raises:
        ConfigError: ``idxs`` is not a list or is empty. A data point without such a component raises DataPointError
            when it is reached.

    Example:
        SelectComponent(ds, [1, 0])  # of [image, label] to [label, image]
    """
    if len(idxs) == 0:
        raise ConfigError("SelectComponent got idxs=[]: wanted a list of at least one place")
    return MapData(ds, partial(_select, list(idxs)))


def _select(idxs: list[int | str], point: Any) -> list[Any]:
    """Return a list of components."""
    try:
        return [point[index] for index in idxs]
    except (LookupError, TypeError) as error:
        kind = type(point).__name__
        raise DataPointError(f"a data point, a {kind}, has not all of the components {idxs}: {error!r}") from error


class Point:
    """A data point whose components are read and replaced, and its number in the pass for messages.

    Args:
        number: its number in the pass.
        components: the point.

    Raises:
        DataPointError: It is not a list, a tuple or a dict.
    """

    def __init__(self, number: int, components: object) -> None:
        if not isinstance(components, (list, tuple, Mapping)):
            kind = type(components).__name__
            raise DataPointError(f"data point {number} is a {kind}: wanted a list, a tuple or a dict")
        self._number = number
        self._components: Any = components

    def get(self, index: int | str) -> Any:
        """Return a component.

        Args:
            index: its place, or its key in a dict.

        Raises:
            DataPointError: There is no such component.
        """
        try:
            return self._components[index]
        except (LookupError, TypeError) as error:
            is_dict = isinstance(self._components, Mapping)
            has = f"the keys {list(self._components)}" if is_dict else f"{len(self._components)} components"
            raise DataPointError(f"data point {self._number} has no component {index!r}: it has {has}") from error

    def replace(self, components: Mapping[Any, Any]) -> list[Any] | dict[Any, Any]:
        """Return a new point, a list or a dict, with other components in some places."""
        is_dict = isinstance(self._components, Mapping)
        changed: list[Any] | dict[Any, Any] = dict(self._components) if is_dict else list(self._components)
        for index, value in components.items():
            changed[index] = value
        return changed
