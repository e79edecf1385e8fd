"""How a package of `tpack.tf1` finds a name that is made elsewhere: in TensorFlow of today, or in tpack.

A package writes down where each of its names is. It is loaded when it is first asked for, so that ``tf.contrib`` costs
only what a script uses.
"""

import importlib
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from types import ModuleType
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.tf1.removed_names import missing_name


def look_up(
    package: str, places: Mapping[str, str], *, own: Sequence[str] = (), behind: ModuleType | None = None
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Make ``__getattr__``, ``__dir__`` and ``__all__`` of a package from where its names are.

    Args:
        package: the package's ``__name__``.
        places: {name: place}. A place is ``"tf.data.Dataset"`` for what ``tensorflow.compat.v1`` has,
            ``"tpack.models"`` for a module of tpack, and ``"tpack.models.fc:Dense"`` for what is in one.
        own: public names that the package has without this.
        behind: a module of TensorFlow that has all names that are not here.

    Returns:
        The three, to be bound to those names in the package. ``__getattr__`` raises a `MissingNameError` for a name
        that is nowhere.
    """
    public = sorted({*places, *own})

    def load(name: str) -> Any:
        """Load what is elsewhere."""
        if name in places:
            value = find(places[name])
            setattr(sys.modules[package], name, value)
            return value
        if behind is None or not hasattr(behind, name):
            raise missing_name(package, name, list_names())
        return getattr(behind, name)

    def list_names() -> list[str]:
        """List what is here and elsewhere."""
        return sorted({*vars(sys.modules[package]), *public, *(dir(behind) if behind else ())})

    return load, list_names, public


def find(place: str) -> Any:
    """Load what is at a place, as `look_up` describes it."""
    if place.startswith("tf."):
        return reduce(getattr, place.split(".")[1:], tf)
    module, _, names = place.partition(":")
    return reduce(getattr, names.split(".") if names else [], importlib.import_module(module))
