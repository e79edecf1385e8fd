"""One merge call of K towers: their arguments, the call of the first tower's function, and each tower's result."""

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

from tpack.errors import TowerError, TowerMismatchError

Merged: TypeAlias = Any
"""Lists of K entries, alone or in tuples and dicts, or None; also what one tower gets of it."""


class MergeCall(NamedTuple):
    """One tower's part of a merge call."""

    fn: Callable[..., Any]
    args: tuple[Any, ...]

    def __str__(self) -> str:
        code = getattr(_plain_function(self.fn), "__code__", None)
        place = f" of {code.co_filename}:{code.co_firstlineno}" if code is not None else ""
        return f"{_name(self.fn)}{place} with {len(self.args)} argument(s)"


def merge(calls: Sequence[MergeCall]) -> Merged:
    """Call the function of the first of K towers with the values of all; return its result.

    Raises:
        TowerMismatchError: The towers have different functions or numbers of arguments.
        TowerError: The result is not a list of K entries, tuples or dicts of such lists, or None.
    """
    for index, call in enumerate(calls):
        if _kind(call.fn) is not _kind(calls[0].fn) or len(call.args) != len(calls[0].args):
            both = f"tower 0 called merge_call with {calls[0]}, tower {index} with {call}"
            raise TowerMismatchError(f"towers met with different functions: {both}")
    merged = calls[0].fn(*(list(values) for values in zip(*(call.args for call in calls), strict=True)))
    _check_merged(merged, calls[0].fn, len(calls))
    return merged


def part_of_tower(merged: Merged, index: int) -> Merged:
    """Return tower ``index``'s part of a result of `merge`: entry ``index`` of each list, in the same containers."""
    if isinstance(merged, list):
        return merged[index]
    if isinstance(merged, dict):
        return type(merged)((key, part_of_tower(value, index)) for key, value in merged.items())
    if isinstance(merged, tuple):
        parts = [part_of_tower(value, index) for value in merged]
        return type(merged)(*parts) if hasattr(merged, "_fields") else tuple(parts)
    return merged


def _check_merged(merged: Merged, fn: Callable[..., Any], num_towers: int) -> None:
    if isinstance(merged, tuple | dict):
        for value in merged.values() if isinstance(merged, dict) else merged:
            _check_merged(value, fn, num_towers)
    elif merged is not None and not (isinstance(merged, list) and len(merged) == num_towers):
        expected = f"a list with one entry for each of {num_towers} tower(s), tuples or dicts of such lists, or None"
        raise TowerError(f"{_name(fn)}, the function of merge_call, returned {merged!r}: expected {expected}")


def _plain_function(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function in a partial, a bound method or a wrapper that `functools.wraps` made."""
    while isinstance(fn, functools.partial) or hasattr(fn, "__wrapped__"):
        fn = fn.func if isinstance(fn, functools.partial) else fn.__wrapped__
    return getattr(fn, "__func__", fn)


def _kind(fn: Callable[..., Any]) -> object:
    """Return what towers' functions have in common: the code of closures, or the class of a callable object."""
    plain = _plain_function(fn)
    if hasattr(plain, "__code__"):
        return plain.__code__
    return plain if hasattr(plain, "__name__") else type(plain)


def _name(fn: Callable[..., Any]) -> str:
    plain = _plain_function(fn)
    named = plain if hasattr(plain, "__qualname__") else type(plain)
    return f"{named.__module__}.{named.__qualname__}"
