"""Conditions for callbacks: every k steps, epochs or seconds, or a predicate."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.callbacks.base import LONG_WAIT_SECS, Callback, WithSteps
from tpack.callbacks.group import ProxyCallback
from tpack.errors import CallbackError, ConfigError
from tpack.types import Peers
from tpack.utils.validation import check_arguments, check_count, check_number

_LONGEST_LOOK_SECS = 10.0
"""The most seconds between two looks at the chief's clock."""


@check_arguments
class PeriodicTrigger(ProxyCallback):
    """Call `trigger()` of a callback every k steps, k epochs or so many seconds, or several; other hooks are unchanged.

    If a step is due both as a step and as the end of an epoch, the callback is triggered once.

    With `every_secs` the clock of the chief decides for all workers, after a step. They do not ask it after each: it
    also gives the step after which they ask again, at most 10 s later. A resumed run counts the seconds on.

    Args:
        triggerable: a callback that overrides `_trigger`.
        every_k_steps: trigger after each step whose `global_step` is a multiple of it.
        every_k_epochs: trigger after each epoch whose number is a multiple of it.
        before_train: trigger also in ``before_train``.
        every_secs: trigger after the first step that ends at least so many seconds after the last trigger has ended, or
            after the beginning of training.

    Raises:
        ConfigError: no time to trigger is given, a period is not a positive integer, or the seconds are not positive.
        CallbackError: ``triggerable`` does not override `_trigger`.
    """

    def __init__(
        self,
        triggerable: Callback,
        every_k_steps: int | None = None,
        every_k_epochs: int | None = None,
        before_train: bool = False,
        *,
        every_secs: float | None = None,
    ) -> None:
        super().__init__(triggerable)
        if not triggerable.implements("trigger"):
            raise CallbackError(f"PeriodicTrigger got {triggerable}: expected a callback that overrides _trigger")
        if every_k_steps is None and every_k_epochs is None and every_secs is None and not before_train:
            raise ConfigError(
                "PeriodicTrigger got no period: expected every_k_steps, every_k_epochs, every_secs or before_train"
            )
        self._every_k_steps = _checked_period(self, "every_k_steps", every_k_steps)
        self._every_k_epochs = _checked_period(self, "every_k_epochs", every_k_epochs)
        if every_secs is not None:
            check_number(self, "every_secs", every_secs, 0, is_low_allowed=False)
        self._clock = None if every_secs is None else _Clock(every_secs, f"whether it is time for {self}")
        self._triggers_before_train = before_train
        self._step_of_last_trigger = -1

    def _before_train(self) -> None:
        self.cb.before_train()
        if self._triggers_before_train:
            self.cb.trigger()
        if self._clock is not None:
            # A callback of the chief alone has nobody to agree with.
            self._clock.start(self.global_step, None if self.chief_only else self.trainer.peers)

    def _trigger_step(self) -> None:
        self.cb.trigger_step()
        is_time = self._clock is not None and self._clock.is_due(self.global_step)
        if is_time or _is_due(self.global_step, self._every_k_steps):
            self._step_of_last_trigger = self.global_step
            self.cb.trigger()
            if is_time and self._clock is not None:
                self._clock.begin_again()

    def _with_several_steps(self) -> WithSteps | None:
        takes_part = any(map(self.cb.implements, ("before_run", "after_run", "trigger_step")))
        inner = self.cb.with_several_steps() if takes_part else WithSteps()
        if inner is None:
            return inner
        limits = [] if inner.steps_left is None else [inner.steps_left]
        if (period := self._every_k_steps) is not None:
            limits.append(lambda: period - self.global_step % period)
        if (clock := self._clock) is not None:
            limits.append(lambda: clock.steps_left(self.global_step))
        return replace(inner, steps_left=lambda: min(limit() for limit in limits)) if limits else inner

    def _state_to_save(self) -> float | None:
        return None if self._clock is None else self._clock.secs()

    def _load_saved_state(self, state: float) -> None:
        if self._clock is not None:
            self._clock.begin_again(float(state))

    def _trigger_epoch(self) -> None:
        if _is_due(self.epoch_num, self._every_k_epochs) and self._step_of_last_trigger != self.global_step:
            self.cb.trigger()

    def implements(self, hook: str) -> bool:
        """Tell whether ``hook`` does anything; with epochs alone steps cost what the inner callback costs."""
        if hook == "trigger_step":
            return self._every_k_steps is not None or self._clock is not None or self.cb.implements(hook)
        return hook == "trigger_epoch" or super().implements(hook)

    def __str__(self) -> str:
        return f"PeriodicTrigger-{self.cb}"


class _Clock:
    """A period in seconds that ends after a step, the same one in all workers.

    They look at the chief's clock together, in a step that it named at the last look: so that half of the time that is
    left, and no more than 10 s, passes until then. A step that takes longer than the former ones delays a look by as
    much.

    Args:
        period_secs: the period.
        topic: the question, for the exchange.

    Attributes:
        now: returns the time in seconds.
    """

    def __init__(self, period_secs: float, topic: str) -> None:
        self._period = period_secs
        self.now: Callable[[], float] = time.monotonic
        self._topic = topic
        self._peers: Peers | None = None
        self._since = self._last_look = 0.0
        self._step = self._next_look = 0

    def start(self, step: int, peers: Peers | None) -> None:
        """Begin the first period after a number of steps."""
        self._peers = None if peers is None or peers.size == 1 else peers
        self._since = self._last_look = self.now()
        self._step, self._next_look = step, step + 1

    def begin_again(self, secs: float = 0.0) -> None:
        """Begin a period, of which some seconds are over."""
        self._since = self.now() - secs

    def secs(self) -> float:
        """Return the seconds of this period that are over."""
        return self.now() - self._since

    def steps_left(self, step: int) -> int:
        """Return the number of steps until the next look."""
        return max(1, self._next_look - step)

    def is_due(self, step: int) -> bool:
        """Return whether the period is over after a step; all workers call it after each."""
        if self._peers is None:
            is_over, self._next_look = self._look(step)
        elif step < self._next_look:
            return False
        else:
            told = self._peers.gather(self._topic, self._look(step), timeout_secs=LONG_WAIT_SECS)
            is_over, self._next_look = told[0]
        return bool(is_over)

    def _look(self, step: int) -> tuple[bool, int]:
        """Return whether the period is over, and the step of the next look."""
        now = self.now()
        step_secs = max(now - self._last_look, 1e-9) / max(step - self._step, 1)
        self._last_look, self._step = now, step
        is_over = now - self._since >= self._period
        secs_left = self._period if is_over else self._since + self._period - now
        return is_over, step + max(1, int(min(secs_left / 2, _LONGEST_LOOK_SECS) / step_secs))


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
