"""What is the same whichever tower one is in: names without the tower's scopes, and variables that all towers share.

A tower knows its own scopes; they are taken off the front of a name, and nothing else is. What a distribution strategy
made in parts, one for each device, has the name of the whole.
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
    """Return the variable's name without the current tower's variable scope.

    One that is the part of a variable of several devices is called as that variable is.
    """
    context = get_current_tower_context()
    return _without_scope(whole_variable(variable).op.name, context.vs_name if context else "")


def whole_variable(variable: Any) -> Any:
    """Return the variable of several devices that a variable is one device's part of, or else the variable itself.

    Where a strategy updates one device after the other, both are the same to code that reads or assigns, and only the
    whole one has the name that the model gave it.
    """
    reference = getattr(variable, "_distributed_container", None)
    whole = None if reference is None else reference()
    return variable if whole is None else whole


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
