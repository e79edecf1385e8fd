"""Conditions for callbacks: every k steps or epochs, or a predicate."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.callbacks.base import Callback, WithSteps
from tpack.callbacks.group import ProxyCallback
from tpack.errors import CallbackError, ConfigError
from tpack.utils.validation import check_arguments, check_count


@check_arguments
class PeriodicTrigger(ProxyCallback):
    """Call `trigger()` of a callback every k steps, every k epochs, or both; its other hooks are unchanged.

    If a step is due both as a step and as the end of an epoch, the callback is triggered once.

    Args:
        triggerable: a callback that overrides `_trigger`.
        every_k_steps: trigger after each step whose `global_step` is a multiple of it.
        every_k_epochs: trigger after each epoch whose number is a multiple of it.
        before_train: trigger also in ``before_train``.

    Raises:
        ConfigError: no time to trigger is given, or a period is not a positive integer.
        CallbackError: ``triggerable`` does not override `_trigger`.
    """

    def __init__(
        self,
        triggerable: Callback,
        every_k_steps: int | None = None,
        every_k_epochs: int | None = None,
        before_train: bool = False,
    ) -> None:
        super().__init__(triggerable)
        if not triggerable.implements("trigger"):
            raise CallbackError(f"PeriodicTrigger got {triggerable}: expected a callback that overrides _trigger")
        if every_k_steps is None and every_k_epochs is None and not before_train:
            raise ConfigError("PeriodicTrigger got no period: expected every_k_steps, every_k_epochs or before_train")
        self._every_k_steps = _checked_period(self, "every_k_steps", every_k_steps)
        self._every_k_epochs = _checked_period(self, "every_k_epochs", every_k_epochs)
        self._triggers_before_train = before_train
        self._step_of_last_trigger = -1

    def _before_train(self) -> None:
        self.cb.before_train()
        if self._triggers_before_train:
            self.cb.trigger()

    def _trigger_step(self) -> None:
        self.cb.trigger_step()
        if _is_due(self.global_step, self._every_k_steps):
            self._step_of_last_trigger = self.global_step
            self.cb.trigger()

    def _with_several_steps(self) -> WithSteps | None:
        takes_part = any(map(self.cb.implements, ("before_run", "after_run", "trigger_step")))
        inner = self.cb.with_several_steps() if takes_part else WithSteps()
        if inner is None or self._every_k_steps is None:
            return inner
        period, others = self._every_k_steps, inner.steps_left
        left = lambda: min(period - self.global_step % period, others() if others else period)  # noqa: E731
        return replace(inner, steps_left=left)

    def _trigger_epoch(self) -> None:
        if _is_due(self.epoch_num, self._every_k_epochs) and self._step_of_last_trigger != self.global_step:
            self.cb.trigger()

    def implements(self, hook: str) -> bool:
        """Tell whether ``hook`` does anything; without `every_k_steps` steps cost what the inner callback costs."""
        if hook == "trigger_step":
            return self._every_k_steps is not None or self.cb.implements(hook)
        return hook == "trigger_epoch" or super().implements(hook)

    def __str__(self) -> str:
        return f"PeriodicTrigger-{self.cb}"


@check_arguments
class EnableCallbackIf(ProxyCallback):
    """Call a callback's step and epoch hooks only while a condition holds.

    `setup_graph`, `before_train`, `after_train` and an explicit `trigger()` are always forwarded. The condition is
    evaluated once a run, in `before_run`, for that run's `after_run` and `trigger_step` too.

    Args:
        callback: any callback.
        pred: called with this object; True enables the callback.
    """

    def __init__(self, callback: Callback, pred: Callable[[Any], bool]) -> None:
        super().__init__(callback)
        self._pred = pred
        self._takes_part_in_runs = callback.implements("before_run") or callback.implements("after_run")
        self._enabled = False

    def _is_enabled_for_coming_step(self) -> bool:
        return self._pred(self)

    def _before_epoch(self) -> None:
        if self._pred(self):
            self.cb.before_epoch()

    def _before_run(self, ctx: tf.train.SessionRunContext) -> object:
        self._enabled = self._is_enabled_for_coming_step()
        return self.cb.before_run(ctx) if self._enabled else None

    def _after_run(self, ctx: tf.train.SessionRunContext, values: tf.train.SessionRunValues) -> None:
        if self._enabled:
            self.cb.after_run(ctx, values)

    def _trigger_step(self) -> None:
        if self._enabled if self._takes_part_in_runs else self._pred(self):
            self.cb.trigger_step()

    def _after_epoch(self) -> None:
        if self._pred(self):
            self.cb.after_epoch()

    def _trigger_epoch(self) -> None:
        if self._pred(self):
            self.cb.trigger_epoch()

    def _before_save(self) -> None:
        if self._pred(self):
            self.cb.before_save()

    def implements(self, hook: str) -> bool:
        """Tell whether ``hook`` is needed by the inner callback, or to evaluate the condition."""
        return self._takes_part_in_runs if hook == "before_run" else self.cb.implements(hook)

    def __str__(self) -> str:
        return f"{type(self).__name__}-{self.cb}"


@check_arguments
class PeriodicCallback(EnableCallbackIf):
    """Call a callback's step and epoch hooks only in every k-th step or epoch.

    Args:
        callback: any callback.
        every_k_steps: enabled for the steps that bring `global_step` to a multiple of it.
        every_k_epochs: enabled during epochs whose number is a multiple of it.

    Raises:
        ConfigError: neither period is given, or one is not a positive integer.
    """

    def __init__(self, callback: Callback, every_k_steps: int | None = None, every_k_epochs: int | None = None) -> None:
        if every_k_steps is None and every_k_epochs is None:
            raise ConfigError("PeriodicCallback got no period: expected every_k_steps or every_k_epochs")
        super().__init__(callback, PeriodicCallback.predicate)
        self._every_k_steps = _checked_period(self, "every_k_steps", every_k_steps)
        self._every_k_epochs = _checked_period(self, "every_k_epochs", every_k_epochs)

    def predicate(self) -> bool:
        """Tell whether the callback is enabled in the current step or epoch."""
        return self._is_enabled_at(self.global_step)

    def _is_enabled_for_coming_step(self) -> bool:
        # The coming step is not counted yet.
        return self._is_enabled_at(self.global_step + 1)

    def _is_enabled_at(self, step: int) -> bool:
        return _is_due(self.epoch_num, self._every_k_epochs) or _is_due(step, self._every_k_steps)


def _is_due(number: int, period: int | None) -> bool:
    return period is not None and number % period == 0


def _checked_period(owner: Callback, name: str, period: int | None) -> int | None:
    return None if period is None else check_count(owner, name, period)
