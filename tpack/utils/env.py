"""What a process runs in: changing an environment variable for a while, and whether it is a notebook's kernel."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from tpack.utils.validation import check_arguments


@contextmanager
@check_arguments
def change_env(name: str, val: str | None) -> Iterator[None]:
    """Set an environment variable in a ``with`` block, and bring it back to what it was after it.

    The environment belongs to the whole process: other threads see the change too.

    Args:
        name: the variable.
        val: its value; None removes the variable.
    """
    before = os.environ.get(name)
    _set(name, val)
    try:
        yield
    finally:
        _set(name, before)


def in_notebook() -> bool:
    """Tell whether this process is a kernel of Jupyter, or of one of its kind, whose output is shown in a notebook."""
    ipython = sys.modules.get("IPython")
    # Of a module that is being imported, it is not there yet.
    get_shell = getattr(ipython, "get_ipython", None)
    return get_shell is not None and getattr(get_shell(), "kernel", None) is not None


def _set(name: str, val: str | None) -> None:
    if val is None:
        os.environ.pop(name, None)
    else:
        os.environ[name] = val
