"""Older names of arguments, which many scripts still use."""

from collections.abc import Callable
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])

WEIGHT_ALIASES = {"nl": "activation", "W_init": "kernel_initializer", "b_init": "bias_initializer"}
"""Those of every layer that has a kernel."""


def argument_aliases(**aliases: str) -> Callable[[F], F]:
    """Let a layer's arguments be called by other names too.

    Args:
        **aliases: the other name, and the argument that it means.
    """

    def decorate(function: F) -> F:
        function.__argument_aliases__ = aliases  # type: ignore[attr-defined]
        return function

    return decorate
