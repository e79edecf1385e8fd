"""Packages whose public names are imported on first use (PEP 562).

``import tpack`` must be quick and must not load TensorFlow, yet every public name is offered by its package. A package
therefore writes a table of its submodules and their public names, and ``attach`` makes from it the functions that
Python asks for an attribute the package does not have yet.
"""

import importlib
import importlib.util
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tpack.errors import ConfigError
from tpack.older_names import table as older_names


def attach(
    package_name: str, submodules: Mapping[str, tuple[str, ...]]
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Make ``__getattr__``, ``__dir__`` and ``__all__`` of a lazy package from its table of public names.

    A name is imported when it is first asked for, and is an ordinary attribute of the package from then on.

    Args:
        package_name: the package's ``__name__``.
        submodules: for each submodule, relative to the package (``"base"``, ``"sub.base"``), the public names it gives.
            An empty tuple makes the submodule itself the public name.

    Returns:
        The three objects, to be bound to those names in the package's ``__init__``.

    Raises:
        ConfigError: A name stands in the table twice, or is also the name of a submodule: importing the submodule would
            then replace it.

    Example:
        ``__getattr__, __dir__, __all__ = attach(__name__, {"rng": ("get_rng",), "logger": ()})``
    """
    home = _invert(package_name, submodules)
    public = sorted(home)
    load_submodule = submodules_of(package_name, public)

    def load(name: str) -> Any:
        """Import ``name`` from its submodule."""
        if name not in home:
            return load_submodule(name)
        module = importlib.import_module(f"{package_name}.{home[name]}")
        value = getattr(module, name) if submodules[home[name]] else module
        setattr(sys.modules[package_name], name, value)
        return value

    def list_names() -> list[str]:
        """List what the package has already and what it can import."""
        return sorted({*vars(sys.modules[package_name]), *public})

    return load, list_names, public


def submodules_of(package_name: str, public: Sequence[str] = ()) -> Callable[[str], Any]:
    """Make the ``__getattr__`` of a package that gives its modules as attributes, which are imported on first use.

    After ``import tpack.tfutils``, ``tpack.tfutils.common`` is there without an import of its own.

    Args:
        package_name: the package's ``__name__``.
        public: names that the package has, to name those near one that it has not.

    Example:
        ``__getattr__ = submodules_of(__name__)``
    """
    older_names.add_modules(package_name)

    def load(name: str) -> Any:
        """Import the module ``name`` of the package."""
        full_name = f"{package_name}.{name}"
        if older_names.knows(name):
            return older_names.load(name)
        # Names with underscores are asked for by inspect, pickle and others, and none of them is a module.
        if name.startswith("_") or importlib.util.find_spec(full_name) is None:
            raise AttributeError(_unknown(package_name, name, public))
        return importlib.import_module(full_name)

    return load


def _invert(package_name: str, submodules: Mapping[str, tuple[str, ...]]) -> dict[str, str]:
    """Map each public name to its submodule, and refuse names that are not unique."""
    home: dict[str, str] = {}
    for submodule, names in submodules.items():
        for name in names or (submodule,):
            if name in home:
                raise ConfigError(f"{package_name}: {name!r} is given by both {home[name]!r} and {submodule!r}")
            if names and name in submodules:
                raise ConfigError(f"{package_name}: {name!r} of {submodule!r} is also the name of a submodule")
            home[name] = submodule
    return home


def _unknown(package_name: str, name: str, public: Sequence[str]) -> str:
    """Say that the package has no such name, and which names are near."""
    # Imported here, since it takes longer to import than all that ``import tpack`` needs.
    near = importlib.import_module("difflib").get_close_matches(name, public)
    hint = f"; did you mean {' or '.join(map(repr, near))}?" if near else ""
    return f"module {package_name!r} has no attribute {name!r}{hint}"
