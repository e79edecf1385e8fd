"""One merge call of K towers: their arguments, the call of the first tower's function, and each tower's result.

`tpack.tower.tower_threads` makes the towers wait for each other.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

from tpack.errors import TowerError, TowerMismatchError

Merged: TypeAlias = Any
"""Lists of K entries, alone or in tuples and dicts, or None; also what one tower gets of it."""


class MergeCall(NamedTuple):
    """What one tower brought to a meeting."""

    fn: Callable[..., Any]
    args: tuple[Any, ...]

    def __str__(self) -> str:
        code = getattr(_plain_function(self.fn), "__code__", None)
        place = f" of {code.co_filename}:{code.co_firstlineno}" if code is not None else ""
        return f"{_name(self.fn)}{place} with {len(self.args)} argument(s)"


def merge(calls: Sequence[MergeCall]) -> Merged:
    """Call the function of the first tower with what all towers brought.

    Args:
        calls: one for each of K towers.

    Returns:
        What the function returned: lists of K entries, alone or in tuples and dicts, or None.

    Raises:
        TowerMismatchError: The towers brought different functions or numbers of arguments.
        TowerError: The function returned something else.
    """
    for index, call in enumerate(calls):
        if _kind(call.fn) is not _kind(calls[0].fn) or len(call.args) != len(calls[0].args):
            raise TowerMismatchError(
                f"towers must meet with the same function: tower 0 called merge_call with {calls[0]}, tower {index} "
                f"with {call}"
            )
    merged = calls[0].fn(*(list(values) for values in zip(*(call.args for call in calls), strict=True)))
    _check_merged(merged, calls[0].fn, len(calls))
    return merged


def part_of_tower(merged: Merged, index: int) -> Merged:
    """Return tower ``index``'s part of what `merge` returned: entry ``index`` of each list, in the same containers."""
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
        raise TowerError(
            f"the function of merge_call, {_name(fn)}, must return a list with one entry for each of {num_towers} "
            f"tower(s), tuples or dicts of such lists, or None; it returned {merged!r}"
        )


def _plain_function(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function in a partial, a bound method or a wrapper that `functools.wraps` made."""
    while isinstance(fn, functools.partial) or hasattr(fn, "__wrapped__"):
        fn = fn.func if isinstance(fn, functools.partial) else fn.__wrapped__
    return getattr(fn, "__func__", fn)


def _kind(fn: Callable[..., Any]) -> object:
    """Return what towers' functions have in common, since each tower makes its own closures from one piece of code.

    An object that is called has the kind of its class.
    """
    plain = _plain_function(fn)
    if hasattr(plain, "__code__"):
        return plain.__code__
    return plain if hasattr(plain, "__name__") else type(plain)


def _name(fn: Callable[..., Any]) -> str:
    plain = _plain_function(fn)
    named = plain if hasattr(plain, "__qualname__") else type(plain)
    return f"{named.__module__}.{named.__qualname__}"
