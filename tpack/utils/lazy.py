"""Packages whose public names are imported on first use (PEP 562).

``import tpack`` must be quick and must not load TensorFlow, yet every public name is offered by its package. A package
therefore has a table of modules and their public names, and nothing else: ``attach`` makes from it the functions that
Python calls for an attribute the package does not have yet.
"""

import importlib
import importlib.util
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from types import FunctionType, ModuleType
from typing import Any

from tpack.errors import ConfigError, DependencyError
from tpack.utils import renames

_ABSOLUTE = ("tpack.", "tensorflow.")


def attach(
    package_name: str, submodules: Mapping[str, tuple[str, ...]], *, other: Callable[[str], Any] | None = None
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Make ``__getattr__``, ``__dir__`` and ``__all__`` of a lazy package from its table of public names.

    A name is imported on first use and is an ordinary attribute of the package from then on. The modules of the package
    are attributes too: after ``import tpack.tfutils``, ``tpack.tfutils.common`` needs no import of its own. AutoGraph,
    which rewrites what ``tf.map_fn`` and ``tf.function`` call, leaves tpack's public functions as they are.

    Args:
        package_name: the package's ``__name__``.
        submodules: for each module the public names that it gives. A module is written relative to the package
            (``"base"``, ``"sub.base"``), or in full (``"tpack.errors"``, ``"tensorflow.compat.v1.signal"``) if it is
            outside of it. ``"new=old"`` gives ``old``, which may have dots, as ``new``; ``"new="`` gives the module
            itself, and so does an empty tuple, under the module's name.
        other: looks up, or refuses, a name that is in no module of the table. None is the package's modules, the older
            names, and an AttributeError that lists similar names.

    Returns:
        The three objects, to be bound to those names in the package's ``__init__``.

    Raises:
        ConfigError: A name is in the table twice, or is the name of another submodule: importing that submodule would
            replace it.

    Example:
        ``__getattr__, __dir__, __all__ = attach(__name__, {"rng": ("get_rng",), "logger": ()})``
    """
    home = _invert(package_name, submodules)
    public = sorted(home)
    if any(home.get(module) == (module, module) for module in submodules):
        sys.modules[package_name].__class__ = _Package

    def load(name: str) -> Any:
        """Import a public name, or a module of the package."""
        if name in home:
            submodule, attribute = home[name]
            module = importlib.import_module(_full_name(package_name, submodule))
            value = _unconverted(reduce(getattr, attribute.split(".") if attribute else (), module))
            setattr(sys.modules[package_name], name, value)
            return value
        return other(name) if other is not None else _find_module_or_older(package_name, name, public)

    def list_names() -> list[str]:
        """List what the package has already and what it can import."""
        return sorted({*vars(sys.modules[package_name]), *public})

    return load, list_names, public


class LazyModule:
    """A module that is imported when an attribute of it is first used.

    For what a core module needs in few runs only, such as remote storage, and what costs time or memory to load.

    Args:
        name: the full name of the module.

    Example:
        ``directories = LazyModule("tpack.utils.remote.directories")``
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        if attribute.startswith("__"):
            raise AttributeError(attribute)
        return getattr(importlib.import_module(self._name), attribute)

    def is_loaded(self) -> bool:
        """Tell whether the module was imported, by whatever code."""
        return self._name in sys.modules


def import_optional(module: str, extra: str) -> ModuleType:
    """Return a module, such as ``"cv2"``, of an optional dependency, which an extra of tpack installs.

    Raises:
        DependencyError: It cannot be imported; the message names the extra.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise DependencyError(
            f"this needs the package {module!r}, which cannot be imported ({error}): "
            f"install it with \"pip install 'tpack[{extra}]'\""
        ) from error


class _Package(ModuleType):
    """A package with public names that are also the names of the submodules they come from.

    Python binds a submodule in its package once it is loaded, which would hide the public name.
    """

    def __setattr__(self, name: str, value: Any) -> None:
        if isinstance(value, ModuleType) and value.__name__ == f"{self.__name__}.{name}" and name in self.__all__:
            value = vars(value).get(name, value)
        super().__setattr__(name, value)


def _unconverted(value: Any) -> Any:
    """Mark a function of tpack as one that AutoGraph calls as it is, and return it.

    AutoGraph leaves the functions of TensorFlow's own package alone, by their module, and rewrites all others, down to
    their local variables. This is the mark of ``tf.autograph.experimental.do_not_convert``, without its wrapper.
    """
    if isinstance(value, FunctionType) and value.__module__.startswith("tpack."):
        value.autograph_info__ = None  # type: ignore[attr-defined]
    return value


def _full_name(package_name: str, module: str) -> str:
    return module if module.startswith(_ABSOLUTE) else f"{package_name}.{module}"


def _find_module_or_older(package_name: str, name: str, public: Sequence[str]) -> Any:
    """Look for a module of the package, then for one of tensorpack's older names."""
    # Names with underscores are requested by inspect, pickle and others, and none of them is a module.
    if not name.startswith("_"):
        full_name = f"{package_name}.{name}"
        spec = importlib.util.find_spec(full_name)
        if spec is not None and spec.has_location:
            return importlib.import_module(full_name)
        is_older, value = renames.find_name(name)
        if is_older:
            return value
        if spec is not None:
            return importlib.import_module(full_name)
    raise AttributeError(_unknown(package_name, name, public))


def _invert(package_name: str, submodules: Mapping[str, tuple[str, ...]]) -> dict[str, tuple[str, str]]:
    """Map each public name to its module and its name there, and refuse names that are not unique."""
    home: dict[str, tuple[str, str]] = {}
    for module, names in submodules.items():
        for entry in names or (f"{module.rpartition('.')[2] if module.startswith(_ABSOLUTE) else module}=",):
            name, is_other, attribute = entry.partition("=")
            if name in home:
                raise ConfigError(f"{package_name}: {name!r} is given by both {home[name][0]!r} and {module!r}")
            if name in submodules and name != module:
                raise ConfigError(f"{package_name}: {name!r} of {module!r} is also the name of a submodule")
            home[name] = (module, attribute if is_other else name)
    return home


def _unknown(package_name: str, name: str, public: Sequence[str]) -> str:
    """Describe a name that the package does not have, with similar names that it has."""
    # Imported here, since it takes longer to import than all that ``import tpack`` needs.
    near = importlib.import_module("difflib").get_close_matches(name, public)
    hint = f"; did you mean {' or '.join(map(repr, near))}?" if near else ""
    return f"module {package_name!r} has no attribute {name!r}{hint}"
