"""The surroundings of a process: environment variables and usable cores."""

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

from tpack.utils.validation import check_instance


def change_env(name: str, val: str | None) -> AbstractContextManager[None]:
    """Set an environment variable in a ``with`` block, and restore it afterwards.

    The environment belongs to the whole process: other threads see the change too.

    Args:
        name: the variable.
        val: its value; None removes the variable.

    Raises:
        WrongTypeError: The name or the value is something else.
    """
    check_instance("change_env", "name", name, str, "text")
    if val is not None:
        check_instance("change_env", "val", val, str, "text or None")
    return _changed(name, val)


@contextmanager
def _changed(name: str, val: str | None) -> Iterator[None]:
    before = os.environ.get(name)
    _set(name, val)
    try:
        yield
    finally:
        _set(name, before)


def usable_cores() -> int:
    """Return the number of cores that this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _set(name: str, val: str | None) -> None:
    if val is None:
        os.environ.pop(name, None)
    else:
        os.environ[name] = val
