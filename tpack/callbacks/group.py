"""Callbacks made of callbacks: a group, and a proxy around another callback.

`Callbacks` keeps the order of its members, except: members that read statistics are triggered after those that report,
savers last; members that add variables are set up first; those that pass changes on come last before an epoch.
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

_FLAGS = ("merges_statistics", "reads_statistics", "saves_training", "adds_variables", "passes_changes_on")
_STEP_HOOKS = ("before_run", "after_run", "trigger_step")

SLOW_TRIGGER_SECS = 3.0
"""Seconds that an epoch's callbacks may take before their times are logged."""


@check_arguments
class Callbacks(Callback):
    """A group of callbacks as one; groups inside groups are flattened.

    Around a run the loop calls each of `step_callbacks` with its own fetches and values. A `StopTraining` of a
    triggered member is raised after the others were triggered.

    Args:
        cbs: the callbacks, in the order in which their hooks are called.

    Raises:
        WrongTypeError: a member is not a callback.
        CallbackError: an object is there twice, bare or inside a proxy.
    """

    _chief_only = False

    def __init__(self, cbs: Iterable[Callback]) -> None:
        given = check_instances(self, "cbs", cbs, Callback)
        self.cbs: list[Callback] = [
            cb for each in given for cb in (each.cbs if isinstance(each, Callbacks) else [each])
        ]
        seen: set[int] = set()
        for cb in self.all_callbacks():
            if id(cb) in seen:
                raise CallbackError(f"Callbacks got {cb} twice: expected an object of its own at each position")
            seen.add(id(cb))
        for flag in _FLAGS:
            setattr(self, flag, any(getattr(cb, flag) for cb in self.cbs))
        self._triggered = sorted(self.cbs, key=_phase)
        self._stepped = [cb.bound("trigger_step") for cb in self._triggered if cb.implements("trigger_step")]

    @property
    def step_callbacks(self) -> list[Callback]:
        """The members with hooks around a run, for the step loop."""
        return [cb for cb in self.cbs if cb.implements("before_run") or cb.implements("after_run")]

    def all_callbacks(self) -> list[Callback]:
        """Return the members and the callbacks inside proxies and groups among them."""
        return [cb for member in self.cbs for cb in _chain(member)]

    def get_hooks(self) -> list[CallbackToHook]:
        """Return the step callbacks as TensorFlow's session hooks, for a `MonitoredSession`."""
        return [CallbackToHook(cb) for cb in self.step_callbacks]

    def setup_graph(self, trainer: Trainer) -> None:
        """Set up each member in its own scope."""
        self._join(trainer)
        self._setup_graph()

    def _setup_graph(self) -> None:
        # Savers collect the variables when they are set up.
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
                # The step is done: the others still save and report it.
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
                # The epoch is done: the others still save and report it.
                stop = stop or request
            seconds.append((str(cb), time.perf_counter() - start))
        total = sum(duration for _, duration in seconds)
        if total >= SLOW_TRIGGER_SECS:
            slow = [f"{name}: {humanize_time_delta(duration)}" for name, duration in seconds if duration > total / 10]
            logger.info(f"Callbacks took {humanize_time_delta(total)} in total. {'; '.join(slow)}")
        if stop is not None:
            raise stop

    def _before_save(self) -> None:
        for cb in self.cbs:
            cb.before_save()

    def _state_to_save(self) -> dict[str, object] | None:
        """Return the members' states by name; None if there are none."""
        states = {name: cb.state_to_save() for name, cb in self._stateful()}
        return {name: state for name, state in states.items() if state is not None} or None

    def _load_saved_state(self, state: dict[str, Any]) -> None:
        """Restore each member's state, or raise `CheckpointError`; states without a member are ignored."""
        for name, cb in self._stateful():
            if name in state:
                try:
                    cb.load_saved_state(state[name])
                except (LookupError, TypeError, ValueError) as error:
                    reason = f"{type(error).__name__}: {error}"
                    raise CheckpointError(f"{name} cannot load its state from the checkpoint: {reason}") from error

    def _stateful(self) -> Iterator[tuple[str, Callback]]:
        """Yield each member with state, bare or inside a proxy, under a unique name."""
        # A proxy implements the hooks of the inner callback, which is in the list itself.
        own = [cb for cb in self.all_callbacks() if Callback.implements(cb, "state_to_save")]
        return zip(numbered(map(str, own)), own, strict=True)

    def seeing_each_step(self) -> list[Callback]:
        """Return the members that forbid several steps in one run."""
        return [cb for cb in self._with_hooks_of_steps() if cb.with_several_steps() is None]

    def _with_several_steps(self) -> WithSteps | None:
        """Combine the members' requirements; None if one of them forbids several steps."""
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
        return [cb for cb in self.cbs if any(map(cb.implements, _STEP_HOOKS))]

    def _after_train(self) -> None:
        """Call every member's `after_train`, then raise the first error; later ones are logged."""
        first: Exception | None = None
        for cb in self.cbs:
            try:
                cb.after_train()
            except Exception as error:
                if first is not None:
                    # tpack's own errors need no traceback.
                    traceback = not isinstance(error, TpackError)
                    logger.error(f"after_train of callback {cb} failed too: {error}", exc_info=traceback)
                first = first or error
        if first is not None:
            raise first

    def implements(self, hook: str) -> bool:
        """Tell whether ``hook`` does anything in a member; False around a run, where members are called singly."""
        return hook not in ("before_run", "after_run") and any(cb.implements(hook) for cb in self.cbs)

    def failure(self) -> BaseException | None:
        """Return the first failure of a member."""
        return next((error for cb in self.cbs if (error := cb.failure()) is not None), None)

    def let_go(self) -> None:
        """Unblock runs that wait for any member's data."""
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
    """The base of callbacks around ``cb``, which keeps its own name scope: forwards every hook.

    Args:
        cb: the inner callback.

    Raises:
        WrongTypeError: ``cb`` is not a callback.
    """

    def __init__(self, cb: Callback) -> None:
        self.cb = cb
        for flag in _FLAGS:
            setattr(self, flag, getattr(cb, flag))
        self.set_chief_only(cb.chief_only)

    def setup_graph(self, trainer: Trainer) -> None:
        """Set up the inner callback in its own name scope."""
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
        """Tell whether the inner callback, or a subclass of the proxy, overrides ``hook``."""
        name = f"_{hook}"
        return getattr(type(self), name, None) is not getattr(ProxyCallback, name, None) or self.cb.implements(hook)

    def failure(self) -> BaseException | None:
        """Return the inner callback's failure."""
        return self.cb.failure()

    def let_go(self) -> None:
        """Unblock a run that waits for the inner callback's data."""
        self.cb.let_go()

    def __str__(self) -> str:
        return f"{type(self).__name__}({self.cb})"


def numbered(names: Iterable[str]) -> Iterator[str]:
    """Yield unique names: ``(2)`` is appended to the second of a name, and so on."""
    counts: Counter[str] = Counter()
    for name in names:
        counts[name] += 1
        yield name if counts[name] == 1 else f"{name} ({counts[name]})"


def _phase(cb: Callback) -> tuple[bool, bool, bool]:
    """Return the sort key of triggering: report, merge, read, save by a statistic, save all."""
    return cb.saves_training, cb.reads_statistics != cb.saves_training, cb.merges_statistics


def _chain(cb: Callback) -> Iterator[Callback]:
    if isinstance(cb, Callbacks):
        yield from cb.all_callbacks()
        return
    yield cb
    if isinstance(cb, ProxyCallback):
        yield from _chain(cb.cb)
