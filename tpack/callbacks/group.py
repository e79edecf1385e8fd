"""Callbacks made of callbacks: all those of a training as one, and a callback around another one.

`Callbacks` keeps the order in which its members were given, except where statistics are read and checkpoints saved: a
callback that reads what the others report in this epoch is triggered after them, and one that saves after all, wherever
it stands in the list. A callback that adds variables to the graph is set up before the others, and one that passes
changes on to other towers is the last before an epoch. The group also knows which of its members want something of each
step; the step loop asks it for them.

A `ProxyCallback` hands each hook to the inner callback, which keeps its own name scope and its own trainer; subclasses
change when that happens.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.callbacks.base import Callback, WithSteps
from tpack.callbacks.hooks import CallbackToHook
from tpack.errors import CallbackError, CheckpointError, StopTraining, TpackError
from tpack.types import Trainer
from tpack.utils import logger
from tpack.utils.timer import humanize_time_delta
from tpack.utils.validation import check_arguments, check_instances

SLOW_TRIGGER_SECS = 3.0
"""An epoch's callbacks together may take this long before their times are logged."""


@check_arguments
class Callbacks(Callback):
    """Run several callbacks as one; groups inside groups are flattened.

    What happens around each run is not the group's part: the loop gives each of `step_callbacks` its own fetches and
    values. When a member raises `StopTraining` as it is triggered, the others are triggered first, and it is raised
    then.

    Args:
        cbs: the callbacks, in the order in which their hooks are called.

    Raises:
        WrongTypeError: a member is not a callback.
        CallbackError: one object is there twice (bare or inside a proxy).
    """

    _chief_only = False

    def __init__(self, cbs: Iterable[Callback]) -> None:
        self.cbs = list(_flatten(check_instances(self, "cbs", cbs, Callback)))
        _check_no_repetition(self.all_callbacks())
        self.merges_statistics = any(cb.merges_statistics for cb in self.cbs)
        self.reads_statistics = any(cb.reads_statistics for cb in self.cbs)
        self.saves_training = any(cb.saves_training for cb in self.cbs)
        self.adds_variables = any(cb.adds_variables for cb in self.cbs)
        self.passes_changes_on = any(cb.passes_changes_on for cb in self.cbs)
        self._triggered = sorted(self.cbs, key=_phase)
        self._stepped = [cb.bound("trigger_step") for cb in self._triggered if cb.implements("trigger_step")]

    @property
    def step_callbacks(self) -> list[Callback]:
        """The members that want something of each step, for the step loop."""
        return [cb for cb in self.cbs if cb.implements("before_run") or cb.implements("after_run")]

    def all_callbacks(self) -> list[Callback]:
        """Return the members, and what proxies and groups among them hold."""
        return [cb for member in self.cbs for cb in _chain(member)]

    def get_hooks(self) -> list[CallbackToHook]:
        """Return the step callbacks as TensorFlow's session hooks, for a `MonitoredSession`."""
        return [CallbackToHook(cb) for cb in self.step_callbacks]

    def setup_graph(self, trainer: Trainer) -> None:
        """Set up each member in its own scope."""
        self._join(trainer)
        self._setup_graph()

    def _setup_graph(self) -> None:
        # What saves variables looks for them when it is set up.
        for cb in sorted(self.cbs, key=lambda cb: not cb.adds_variables):
            cb.setup_graph(self.trainer)

    def _before_train(self) -> None:
        for cb in self.cbs:
            cb.before_train()

    def _before_epoch(self) -> None:
        for cb in sorted(self.cbs, key=lambda cb: cb.passes_changes_on):
            cb.before_epoch()

    def _trigger_step(self) -> None:
        stop: StopTraining | None = None
        for trigger_step in self._stepped:
            try:
                trigger_step()
            except StopTraining as request:
                # The step was made all the same: what the others save and report of it must not be lost.
                stop = stop or request
        if stop is not None:
            raise stop

    def _after_epoch(self) -> None:
        for cb in self.cbs:
            cb.after_epoch()

    def _trigger_epoch(self) -> None:
        self._timed(lambda cb: cb.trigger_epoch())

    def _trigger(self) -> None:
        self._timed(lambda cb: cb.trigger())

    def _timed(self, action: Callable[[Callback], None]) -> None:
        seconds: list[tuple[str, float]] = []
        stop: StopTraining | None = None
        for cb in self._triggered:
            start = time.perf_counter()
            try:
                action(cb)
            except StopTraining as request:
                # The epoch is over all the same: what the others save and report of it must not be lost.
                stop = stop or request
            seconds.append((str(cb), time.perf_counter() - start))
        _log_if_slow(seconds)
        if stop is not None:
            raise stop

    def _before_save(self) -> None:
        for cb in self.cbs:
            cb.before_save()

    def _state_to_save(self) -> dict[str, object] | None:
        """Return the members' states by what the members are called; None if none has any."""
        states = {name: cb.state_to_save() for name, cb in self._stateful()}
        return {name: state for name, state in states.items() if state is not None} or None

    def _load_saved_state(self, state: dict[str, Any]) -> None:
        """Give each member its state; what belongs to a callback that is not there any more is left.

        Raises:
            CheckpointError: A member cannot read its state.
        """
        for name, cb in self._stateful():
            if name in state:
                try:
                    cb.load_saved_state(state[name])
                except (LookupError, TypeError, ValueError) as error:
                    raise CheckpointError(
                        f"{name} cannot go on with the state that the checkpoint holds of it: "
                        f"{type(error).__name__}: {error}"
                    ) from error

    def _stateful(self) -> Iterator[tuple[str, Callback]]:
        """Yield each member that has a state, bare or inside a proxy, with a name that no other one has."""
        # A proxy implements what the callback inside does, which is asked itself.
        own = [cb for cb in self.all_callbacks() if Callback.implements(cb, "state_to_save")]
        return zip(numbered(map(str, own)), own, strict=True)

    def seeing_each_step(self) -> list[Callback]:
        """Return the members because of which several steps cannot be one run."""
        return [cb for cb in self._with_hooks_of_steps() if cb.with_several_steps() is None]

    def _with_several_steps(self) -> WithSteps | None:
        """Return what all members want together; None if one of them wants to see each step."""
        parts = [cb.with_several_steps() for cb in self._with_hooks_of_steps()]
        known = [part for part in parts if part is not None]
        if len(known) < len(parts):
            return None
        limits = [part.steps_left for part in known if part.steps_left is not None]
        return WithSteps(
            tuple(op for part in known for op in part.each),
            tuple(tensor for part in known for tensor in part.last),
            (lambda: min(limit() for limit in limits)) if limits else None,
            tuple(variable for part in known for variable in part.goes_on),
        )

    def _with_hooks_of_steps(self) -> list[Callback]:
        hooks = ("before_run", "after_run", "trigger_step")
        return [cb for cb in self.cbs if any(map(cb.implements, hooks))]

    def _after_train(self) -> None:
        """Give every member its `after_train`, log the errors that they have, and raise the first one instead."""
        first: Exception | None = None
        for cb in self.cbs:
            try:
                cb.after_train()
            except Exception as error:
                if first is not None:
                    # The words of tpack's errors say enough.
                    is_known = isinstance(error, TpackError)
                    logger.error(f"after_train of callback {cb} failed too: {error}", exc_info=not is_known)
                first = first or error
        if first is not None:
            raise first

    def implements(self, hook: str) -> bool:
        """Tell whether ``hook`` does anything in a member; around a run the members are asked themselves."""
        return hook not in ("before_run", "after_run") and any(cb.implements(hook) for cb in self.cbs)

    def failure(self) -> BaseException | None:
        """Return the first failure that a member reports."""
        return next((error for cb in self.cbs if (error := cb.failure()) is not None), None)

    def let_go(self) -> None:
        """Let go what waits for any of the members."""
        for cb in self.cbs:
            cb.let_go()

    def __iter__(self) -> Iterator[Callback]:
        return iter(self.cbs)

    def __len__(self) -> int:
        return len(self.cbs)

    def __str__(self) -> str:
        return f"Callbacks({', '.join(str(cb) for cb in self.cbs)})"


@check_arguments
class ProxyCallback(Callback):
    """Behave as the callback ``cb`` does.

    Args:
        cb: the inner callback.

    Raises:
        WrongTypeError: ``cb`` is not a callback.
    """

    def __init__(self, cb: Callback) -> None:
        self.cb = cb
        self.merges_statistics = cb.merges_statistics
        self.reads_statistics = cb.reads_statistics
        self.saves_training = cb.saves_training
        self.adds_variables = cb.adds_variables
        self.passes_changes_on = cb.passes_changes_on
        self.set_chief_only(cb.chief_only)

    def setup_graph(self, trainer: Trainer) -> None:
        """Set up the inner callback in the scope that it would have without the proxy."""
        self._join(trainer)
        self._setup_graph()

    def _setup_graph(self) -> None:
        self.cb.setup_graph(self.trainer)

    def _before_train(self) -> None:
        self.cb.before_train()

    def _before_epoch(self) -> None:
        self.cb.before_epoch()

    def _before_run(self, ctx: tf.train.SessionRunContext) -> object:
        return self.cb.before_run(ctx)

    def _after_run(self, ctx: tf.train.SessionRunContext, values: tf.train.SessionRunValues) -> None:
        self.cb.after_run(ctx, values)

    def _trigger_step(self) -> None:
        self.cb.trigger_step()

    def _after_epoch(self) -> None:
        self.cb.after_epoch()

    def _trigger_epoch(self) -> None:
        self.cb.trigger_epoch()

    def _trigger(self) -> None:
        self.cb.trigger()

    def _before_save(self) -> None:
        self.cb.before_save()

    def _with_several_steps(self) -> WithSteps | None:
        return self.cb.with_several_steps()

    def _after_train(self) -> None:
        self.cb.after_train()

    def implements(self, hook: str) -> bool:
        """Tell whether the inner callback, or a subclass of the proxy, does anything in ``hook``."""
        name = f"_{hook}"
        return getattr(type(self), name, None) is not getattr(ProxyCallback, name, None) or self.cb.implements(hook)

    def failure(self) -> BaseException | None:
        """Return the inner callback's failure."""
        return self.cb.failure()

    def let_go(self) -> None:
        """Let go what waits for the inner callback."""
        self.cb.let_go()

    def __str__(self) -> str:
        return f"{type(self).__name__}({self.cb})"


def numbered(names: Iterable[str]) -> Iterator[str]:
    """Yield names that all differ: the second of one name has ``(2)`` behind it, and so on."""
    counts: Counter[str] = Counter()
    for name in names:
        counts[name] += 1
        yield name if counts[name] == 1 else f"{name} ({counts[name]})"


def _phase(cb: Callback) -> tuple[bool, bool, bool]:
    """Return a callback's place among the others.

    It reports, merges what was reported, reads, saves what a statistic chose, or saves all.
    """
    return cb.saves_training, cb.reads_statistics != cb.saves_training, cb.merges_statistics


def _flatten(cbs: Iterable[Callback]) -> Iterator[Callback]:
    for cb in cbs:
        if isinstance(cb, Callbacks):
            yield from cb.cbs
        else:
            yield cb


def _chain(cb: Callback) -> Iterator[Callback]:
    if isinstance(cb, Callbacks):
        yield from cb.all_callbacks()
        return
    yield cb
    if isinstance(cb, ProxyCallback):
        yield from _chain(cb.cb)


def _check_no_repetition(cbs: list[Callback]) -> None:
    seen: set[int] = set()
    for cb in cbs:
        if id(cb) in seen:
            raise CallbackError(f"callback {cb} is there twice: each position needs an object of its own")
        seen.add(id(cb))


def _log_if_slow(seconds: list[tuple[str, float]]) -> None:
    total = sum(duration for _, duration in seconds)
    if total < SLOW_TRIGGER_SECS:
        return
    # Only what matters is named: a member below a tenth of the total is not why the epoch's end took long.
    slow = [f"{name}: {humanize_time_delta(duration)}" for name, duration in seconds if duration > total / 10]
    logger.info(f"Callbacks took {humanize_time_delta(total)} in total. {'; '.join(slow)}")
