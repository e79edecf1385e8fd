"""A callback around a callback, which is how callbacks are combined.

A proxy is itself a callback and hands each hook to the inner one; subclasses change when that happens. The inner
callback keeps its own name scope and its own trainer.
"""

from __future__ import annotations

from typing import Any

from tpack.callbacks.base import Callback
from tpack.errors import CallbackError


class ProxyCallback(Callback):
    """Behave as the callback ``cb`` does.

    Args:
        cb: the inner callback.

    Raises:
        CallbackError: ``cb`` is not a callback.
    """

    def __init__(self, cb: Callback) -> None:
        if not isinstance(cb, Callback):
            raise CallbackError(f"{type(self).__name__} wraps a Callback, got {type(cb).__name__}: {cb!r}")
        self.cb = cb
        self.reads_statistics = cb.reads_statistics
        self.adds_variables = cb.adds_variables
        self.set_chief_only(cb.chief_only)

    def setup_graph(self, trainer: Any) -> None:
        """Set up the inner callback in the scope that it would have without the proxy."""
        self._join(trainer)
        self._setup_graph()

    def _setup_graph(self) -> None:
        self.cb.setup_graph(self.trainer)

    def _before_train(self) -> None:
        self.cb.before_train()

    def _before_epoch(self) -> None:
        self.cb.before_epoch()

    def _before_run(self, ctx: Any) -> Any:
        return self.cb.before_run(ctx)

    def _after_run(self, ctx: Any, values: Any) -> None:
        self.cb.after_run(ctx, values)

    def _trigger_step(self) -> None:
        self.cb.trigger_step()

    def _after_epoch(self) -> None:
        self.cb.after_epoch()

    def _trigger_epoch(self) -> None:
        self.cb.trigger_epoch()

    def _trigger(self) -> None:
        self.cb.trigger()

    def _after_train(self) -> None:
        self.cb.after_train()

    def implements(self, hook: str) -> bool:
        """Tell whether the inner callback, or a subclass of the proxy, does anything in ``hook``."""
        name = f"_{hook}"
        return getattr(type(self), name, None) is not getattr(ProxyCallback, name, None) or self.cb.implements(hook)

    def failure(self) -> BaseException | None:
        """Return the inner callback's failure."""
        return self.cb.failure()

    def __str__(self) -> str:
        return f"{type(self).__name__}({self.cb})"
