"""A session hook as a member of a `HookedSession`, which asks callbacks."""

from typing import Any

import tensorflow.compat.v1 as tf


class HookAdapter:
    """What a `HookedSession` wants of a callback, done by a ``tf.train.SessionRunHook``.

    Whoever owns the session calls the hook's other methods.

    Args:
        hook: the hook.
    """

    def __init__(self, hook: Any) -> None:
        self._hook = hook

    def implements(self, name: str) -> bool:
        """Tell whether the hook does anything in its method of this name."""
        return getattr(type(self._hook), name, None) is not getattr(tf.train.SessionRunHook, name, None)

    def bound(self, name: str) -> Any:
        """Return the hook's method of this name."""
        return getattr(self._hook, name)

    def after_run(self, context: Any, values: Any) -> None:
        """Tell the hook what it asked for."""
        self._hook.after_run(context, values)

    def failure(self) -> BaseException | None:
        """Return nothing: hooks own no threads."""
        return None
