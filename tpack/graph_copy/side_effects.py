"""Side effects of a tower function in Python: attributes of its objects, and lists and dicts that it fills.

A model may set ``self.cost``, or append each tower's accuracy to a list. A copy does not run its code. So the objects
that can be found from the function (its closure, the object of a method, the globals that it names) are compared before
and after the second tower. Known changes are repeated for each copy; others prevent copies.

State of tpack itself is included, except the towers' own records, which copies have too, and state of functions that
are repeated for copies, see `TowerContext.repeat_in_copies`.
"""

import functools
import sys
import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import tensorflow.compat.v1 as tf

from tpack.graph_copy.capture import NotReplicable, check_copyable

_MOST_PLACES = 20_000
"""How many objects are looked at."""

# What is kept in objects of these is no part of a model, or is known to be alike.
_FOREIGN = sys.stdlib_module_names | {"tensorflow", "tf_keras", "tf_slim", "keras", "numpy"}
# Towers' records and those of copies are made for copies, too.
_RECORDS = ("tpack.tower.", "tpack.graph_copy.")
_PLAIN = (type(None), bool, int, float, complex, str, bytes)
_KEEPS_NOTHING = (*_PLAIN, np.ndarray, np.generic, tf.Tensor, tf.Operation, tf.DType, tf.TensorShape, tf.Graph)
_MISSING = object()


class PythonState:
    """A snapshot of the containers that a function, which builds a tower, can change."""

    def __init__(self, func: Callable[..., Any]) -> None:
        self._places = list(_places(func))
        self._set: list[tuple[Any, Any, Any]] = []
        self._appended: list[tuple[list[Any], list[Any]]] = []

    def note_changes(self, repeated: Iterable[Callable[..., None]] = ()) -> None:
        """Find the changes since, without the state of ``repeated`` functions, which the other tower calls too.

        Raises:
            NotReplicable: A change cannot be repeated for another tower.
        """
        known = {id(container) for func in repeated for container in _kept_by(func)}
        for place in self._places:
            if id(place.container) in known:
                continue
            if isinstance(place.container, list):
                self._note_list(place, place.container)
            else:
                self._note_mapping(place, place.container)

    def replay(self, of: Callable[[Any], Any]) -> None:
        """Repeat the changes for another tower, whose counterparts of objects ``of`` returns."""
        for mapping, key, value in self._set:
            mapping[key] = of(value)
        for items, added in self._appended:
            items.extend(of(item) for item in added)

    def _note_list(self, place: "_Place", items: list[Any]) -> None:
        before = place.content
        if len(items) < len(before) or any(a is not b for a, b in zip(before, items, strict=False)):
            raise NotReplicable(f"it changes {place.name}")
        if len(items) > len(before):
            added = items[len(before) :]
            _check_kept(added, f"it adds to {place.name}")
            self._appended.append((items, added))

    def _note_mapping(self, place: "_Place", mapping: Any) -> None:
        before = dict(place.content)
        if any(key not in mapping for key in before):
            raise NotReplicable(f"it takes something out of {place.name}")
        for key, value in mapping.items():
            known = before.get(key, _MISSING)
            if value is known or (isinstance(value, _PLAIN) and type(value) is type(known) and value == known):
                continue
            if known is _MISSING:
                raise NotReplicable(f"it keeps {key!r} in {place.name}")
            _check_kept(value, f"it sets {key!r} in {place.name} to")
            self._set.append((mapping, key, value))


class _Place(NamedTuple):
    name: str
    container: Any
    content: Any


def _check_kept(value: Any, what: str) -> None:
    """Refuse values other than tensors and the like: a number may count the towers."""
    for leaf in tf.nest.flatten(value):
        if not tf.is_tensor(leaf) and not isinstance(leaf, (tf.Operation, tf.Variable)):
            raise NotReplicable(f"{what} {type(leaf).__name__} values, which may differ from tower to tower")
    check_copyable(value, what)


def _kept_by(func: Callable[..., None]) -> list[Any]:
    """Return the containers of a function of tpack, or of the object of a method."""
    own: dict[str, Any] = {}
    if isinstance(func, types.MethodType):
        own = vars(func.__self__)
    elif isinstance(func, types.FunctionType):
        own = dict(_Cells(func))
    return [own, *(value for value in own.values() if isinstance(value, (list, dict)))]


def _places(func: Callable[..., Any]) -> Iterator[_Place]:
    """Yield the containers that can be found from a function; raise `NotReplicable` if there are too many."""
    waiting: list[_Found] = [_Found(getattr(func, "__name__", "function"), func)]
    seen: set[int] = set()
    kept: list[Any] = []
    while waiting:
        found = waiting.pop()
        if id(found.value) in seen:
            continue
        if len(seen) == _MOST_PLACES:
            raise NotReplicable(f"it keeps more than {_MOST_PLACES} objects, such as {found.name}, to be looked at")
        seen.add(id(found.value))
        kept.append(found.value)
        for container in [] if found.is_foreign else _containers(found.value):
            yield _Place(found.name, container, list(container) if isinstance(container, list) else dict(container))
        waiting.extend(item for item in _held(found) if not isinstance(item.value, _KEEPS_NOTHING))


class _Found(NamedTuple):
    """A value, its name, and whether it is a list or dict that is not the user's."""

    name: str
    value: Any
    is_foreign: bool = False


class _Names(Mapping[str, Any]):
    """Variables outside of a function that it uses."""

    names: dict[str, Any]

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)


class _Cells(_Names):
    """The variables of other functions that a function has in its closure."""

    def __init__(self, function: types.FunctionType) -> None:
        cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
        self.names = {name: cell for name, cell in cells if _is_filled(cell)}

    def __getitem__(self, key: str) -> Any:
        return self.names[key].cell_contents

    def __setitem__(self, key: str, value: Any) -> None:
        self.names[key].cell_contents = value


class _Globals(_Names):
    """The globals that a function names, with the functions inside of it."""

    def __init__(self, function: types.FunctionType) -> None:
        self._globals = function.__globals__
        self.names = {name: None for name in sorted(_names(function.__code__)) if name in self._globals}

    def __getitem__(self, key: str) -> Any:
        return self._globals[key]

    def __setitem__(self, key: str, value: Any) -> None:
        self._globals[key] = value


def _containers(value: Any) -> list[Any]:
    """Return the containers of a value that may be changed; none for foreign values."""
    if isinstance(value, (list, dict)):
        return [value]
    if isinstance(value, types.FunctionType):
        if _is_foreign(value):
            return []
        return [_Cells(value)] if _root(value.__module__) == "tpack" else [_Cells(value), _Globals(value)]
    return [vars(value)] if _has_attributes(value) and not _is_foreign(value) else []


def _held(found: _Found) -> Iterator[_Found]:
    """Yield the values inside a value."""
    is_container = isinstance(found.value, (list, tuple, set, frozenset, dict))
    is_foreign = found.is_foreign if is_container else _is_foreign(found.value)
    for name, item in _items(found):
        yield _Found(name, item, is_foreign and isinstance(item, (list, tuple, set, frozenset, dict)))


def _is_foreign(value: Any) -> bool:
    """Tell whether a function or object has no state of a model."""
    if isinstance(value, types.FunctionType):
        return _root(value.__module__) in _FOREIGN or (value.__module__ or "").startswith(_RECORDS)
    is_record = any(kind.__module__.startswith(_RECORDS) for kind in type(value).__mro__)
    return is_record or _root(type(value).__module__) in _FOREIGN


def _items(found: _Found) -> Iterator[tuple[str, Any]]:
    name, value = found.name, found.value
    if isinstance(value, functools.partial):
        yield from ((name, part) for part in (value.func, *value.args, *value.keywords.values()))
    elif isinstance(value, types.MethodType):
        yield from ((name, value.__func__), (type(value.__self__).__name__, value.__self__))
    elif isinstance(value, types.FunctionType):
        yield from _items_of_function(value)
    elif isinstance(value, (list, tuple, set, frozenset)):
        yield from ((name, item) for item in value)
    elif isinstance(value, dict):
        yield from ((name, item) for item in value.values())
    elif _has_attributes(value) and _root(type(value).__module__) not in _FOREIGN:
        yield from ((f"{type(value).__name__}.{key}", item) for key, item in vars(value).items())


def _items_of_function(function: types.FunctionType) -> Iterator[tuple[str, Any]]:
    yield from ((function.__name__, default) for default in (function.__defaults__ or ()))
    yield from (function.__kwdefaults__ or {}).items()
    yield from _Cells(function).items()
    if _root(function.__module__) not in _FOREIGN | {"tpack"}:
        yield from _Globals(function).items()


def _names(code: types.CodeType) -> set[str]:
    """Return the names that code uses, with those in functions inside of it."""
    inner = [_names(const) for const in code.co_consts if isinstance(const, types.CodeType)]
    return set(code.co_names).union(*inner)


def _is_filled(cell: types.CellType) -> bool:
    try:
        cell.cell_contents  # noqa: B018
    except ValueError:
        return False
    return True


def _has_attributes(value: Any) -> bool:
    is_code = isinstance(value, (types.ModuleType, types.FunctionType, types.MethodType, type))
    return not is_code and isinstance(getattr(value, "__dict__", None), dict)


def _root(module: str | None) -> str:
    return (module or "builtins").partition(".")[0]
