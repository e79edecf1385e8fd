"""Data points changed or dropped by a function, or reduced to some of their components."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Any, TypeAlias

from tpack.dataflow.base import DataFlow, ProxyDataFlow, UnknownLengthError
from tpack.dataflow.iterator_state import Passes, StateReader, close_iterator, freeze_points, make_state, skip
from tpack.errors import ConfigError, DataPointError, InputError
from tpack.utils.validation import check_arguments, shown

Index: TypeAlias = int | str
"""The place of a component in a list or tuple, or its key in a dict."""


@check_arguments
class MapData(ProxyDataFlow):
    """Yield the result of a function for each data point; None drops the point.

    The length is that of the wrapped flow, which is too much if points are dropped. A value that is not a function is
    refused. It may change the point only if the source does not yield the same object again, as ``DataFromList`` does.
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
class FlatMapData(ProxyDataFlow):
    """Yield each data point that a function makes of a data point, such as the points in a file of that name.

    The length is not known. The position includes the current point of ``ds``, whose points are made again and dropped
    as far as they were yielded; so ``func`` must return the same for the same point.

    Raises:
        ConfigError: ``func`` cannot be called.

    Example:
        ``FlatMapData(shard_files(files), lambda point: TFRecordData(point[0]))``
    """

    def __init__(self, ds: DataFlow, func: Callable[[Any], Iterable[Any]]) -> None:
        super().__init__(ds)
        self.func = func
        # The number of points yielded of the newest point, and that point in a list, which is empty before the first.
        self._passes: Passes[tuple[int, list[Any]]] = Passes((0, []))

    def __iter__(self) -> Iterator[Any]:
        """Begin a pass; raise InputError if the function returns no iterable, or too few points when continued."""
        one = self._passes.begin()
        taken, begun = one.value
        for point in chain(begun, self.ds):
            one.value = taken, [point]
            made = self.func(point)
            if not isinstance(made, Iterable):
                raise InputError(f"FlatMapData got {shown(made)} from its function: expected an iterable")
            points = iter(made)
            try:
                skip(self, points, taken)
                for each in points:
                    taken += 1
                    one.value = taken, [point]
                    yield each
            finally:
                close_iterator(points)
            taken = 0
            one.value = 0, []
        self._passes.end(one)

    def __len__(self) -> int:
        """Raise UnknownLengthError: the number of points is known when all were made."""
        raise UnknownLengthError("FlatMapData does not know its length")

    def state_dict(self) -> dict[str, Any]:
        """Return the position of the wrapped flow, its current point and the number of points yielded of it."""
        taken, begun = self._passes.value
        return make_state(self, ds=self.ds.state_dict(), points=freeze_points(self, begun), taken=taken)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go to a position."""
        saved = StateReader(self, state, "ds", "points", "taken")
        taken, points = saved.count("taken"), saved.points("points", at_most=1)
        self.ds.load_state_dict(saved["ds"])
        self._passes.go_to((taken, points))


@check_arguments
class MapDataComponent(ProxyDataFlow):
    """Yield data points with one component replaced by the result of a function; None drops the whole point.

    Lists and tuples become a new list, dicts a new dict. The function must not change its argument; others are refused.

    Args:
        ds: a flow of lists, tuples or dicts.
        func: gets the component and returns the new one or None.
        index: the component: its place, or its key in a dict.
    """

    def __init__(self, ds: DataFlow, func: Callable[[Any], Any], index: int | str = 0) -> None:
        super().__init__(ds)
        self.func = func
        self.index = index

    def __iter__(self) -> Iterator[Any]:
        for number, point in enumerate(self.ds):
            is_list = isinstance(point, (list, tuple))
            # The usual case, for speed; `Point` handles the others, and a missing component.
            is_there = is_list and type(self.index) is int and 0 <= self.index < len(point)
            mapped = self.func(point[self.index] if is_there else Point(number, point).get(self.index))
            if mapped is not None:
                copied: list[Any] | dict[Any, Any] = list(point) if is_list else dict(point)
                copied[self.index] = mapped  # type: ignore[index]
                yield copied


@check_arguments
def SelectComponent(ds: DataFlow, idxs: Sequence[int | str]) -> DataFlow:  # noqa: N802 (the name that scripts use)
    """Return a flow of lists of some components of each data point: of places, or keys in dicts, maybe repeated.

    Raises:
        ConfigError: ``idxs`` is empty. A data point without such a component raises DataPointError in iteration.

    Example:
        SelectComponent(ds, [1, 0])  # of [image, label] to [label, image]
    """
    if len(idxs) == 0:
        raise ConfigError("SelectComponent got idxs=[]: expected a list of at least one place")
    return MapData(ds, partial(_select, list(idxs)))


def _select(idxs: list[int | str], point: Any) -> list[Any]:
    try:
        return [point[index] for index in idxs]
    except (LookupError, TypeError) as error:
        kind = type(point).__name__
        raise DataPointError(f"a data point of type {kind} lacks some of the components {idxs}: {error!r}") from error


class Point:
    """A data point whose components are read and replaced; anything but a list, a tuple or a dict is refused."""

    def __init__(self, number: int, components: object) -> None:
        if not isinstance(components, (list, tuple, Mapping)):
            kind = type(components).__name__
            raise DataPointError(f"data point {number} is a {kind}: expected a list, a tuple or a dict")
        self._number = number
        self._components: Any = components

    def get(self, index: int | str) -> Any:
        """Return the component at a place or key; raise DataPointError without one."""
        try:
            return self._components[index]
        except (LookupError, TypeError) as error:
            is_dict = isinstance(self._components, Mapping)
            has = f"the keys {list(self._components)}" if is_dict else f"{len(self._components)} components"
            raise DataPointError(f"data point {self._number} has no component {index!r}: it has {has}") from error

    def replace(self, components: Mapping[Any, Any]) -> list[Any] | dict[Any, Any]:
        """Return a new point, a list or a dict, with some components replaced."""
        is_dict = isinstance(self._components, Mapping)
        changed: list[Any] | dict[Any, Any] = dict(self._components) if is_dict else list(self._components)
        for index, value in components.items():
            changed[index] = value
        return changed
