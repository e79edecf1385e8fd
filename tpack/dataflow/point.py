"""Data points whose components are read and replaced, and what is said where a point has no such component."""

from collections.abc import Mapping
from typing import Any

from tpack.errors import DataPointError


class Point:
    """A data point, and its number in the pass for messages."""

    def __init__(self, number: int, components: Any) -> None:
        """Look at a data point.

        Args:
            number: its number in the pass.
            components: the point.

        Raises:
            DataPointError: It is no list, tuple or dict.
        """
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
            DataPointError: There is none such.
        """
        try:
            return self._components[index]
        except (LookupError, TypeError) as error:
            is_dict = isinstance(self._components, Mapping)
            has = f"the keys {list(self._components)}" if is_dict else f"{len(self._components)} components"
            raise DataPointError(f"data point {self._number} has no component {index!r}: it has {has}") from error

    def replace(self, components: Mapping[Any, Any]) -> Any:
        """Return a new point, a list or a dict, with other components in some places."""
        is_dict = isinstance(self._components, Mapping)
        changed: Any = dict(self._components) if is_dict else list(self._components)
        for index, value in components.items():
            changed[index] = value
        return changed
