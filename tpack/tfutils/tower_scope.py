"""What is the same whichever tower one is in: names without the tower's scopes, and variables that all towers share.

A tower knows its own scopes; they are taken off the front of a name, and nothing else is.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tpack.tower.context import get_current_tower_context
from tpack.tower.isolation import log_dropped_summaries


def name_without_tower(tensor: Any) -> str:
    """Return the name of the tensor's operation without the current tower's name scope."""
    context = get_current_tower_context()
    return _without_scope(tensor.op.name, context.ns_name if context else "")


def variable_name_without_tower(variable: Any) -> str:
    """Return the variable's name without the current tower's variable scope."""
    context = get_current_tower_context()
    return _without_scope(variable.op.name, context.vs_name if context else "")


def writes_summaries() -> bool:
    """Tell whether summaries made here are kept: outside of towers and in the main training tower.

    The first time that they are not, a line in the log says so and why.
    """
    context = get_current_tower_context()
    if context is None or context.is_main_training_tower:
        return True
    log_dropped_summaries()
    return False


@contextmanager
def shared_by_towers() -> Iterator[None]:
    """Make variables in this block that are not the current tower's own, so that no other tower has a copy."""
    context = get_current_tower_context()
    if context is None:
        yield
        return
    with context.recorder.paused():
        yield


def _without_scope(name: str, scope: str) -> str:
    scope = scope.rstrip("/")
    return name.removeprefix(f"{scope}/") if scope else name
