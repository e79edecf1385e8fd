"""What a hyper-parameter is: something with a name that can be read and set while training runs.

It is an attribute of a Python object here; a variable of the graph is in `tpack.callbacks.graph_var_param`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from difflib import get_close_matches
from typing import Any

from tpack.errors import CallbackError


class HyperParam(ABC):
    """One hyper-parameter; a subclass says how to read and set it."""

    def setup(self, trainer: Any) -> None:
        """Get ready for a training; a callback calls this in its ``setup_graph``."""
        del trainer
        self.setup_graph()

    def setup_graph(self) -> None:  # noqa: B027 (a hook that may be left alone)
        """Add what is needed to the current graph."""

    @abstractmethod
    def set_value(self, value: Any) -> None:
        """Set the hyper-parameter."""

    @abstractmethod
    def get_value(self) -> Any:
        """Return what the hyper-parameter is now."""

    @property
    @abstractmethod
    def readable_name(self) -> str:
        """What to call it in the log and among the statistics."""

    def __str__(self) -> str:
        return f"{type(self).__name__}({self.readable_name})"


class ObjAttrParam(HyperParam):
    """An attribute of a Python object.

    Args:
        obj: the object.
        attrname: the name of the attribute, which the object must have.
        readable_name: what to call it; the attribute's name unless given.

    Raises:
        CallbackError: the object has no such attribute; the message lists near names.
    """

    def __init__(self, obj: Any, attrname: str, readable_name: str | None = None) -> None:
        if not hasattr(obj, attrname):
            near = get_close_matches(attrname, dir(obj))
            hint = f"; near names: {', '.join(near)}" if near else ""
            raise CallbackError(f"an object of {type(obj).__name__} has no attribute {attrname!r}{hint}")
        self._obj = obj
        self._attrname = attrname
        self._readable_name = readable_name or attrname

    def set_value(self, value: Any) -> None:
        """Set the attribute."""
        setattr(self._obj, self._attrname, value)

    def get_value(self) -> Any:
        """Return the attribute."""
        return getattr(self._obj, self._attrname)

    @property
    def readable_name(self) -> str:
        """What to call it in the log and among the statistics."""
        return self._readable_name
