"""The contract of callbacks: everything around the training step.

A trainer only steps; saving, evaluating, logging, data threads and progress bars are callbacks. Packages below the
concrete callbacks, input sources above all, import this file alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import tensorflow.compat.v1 as tf

from tpack.errors import CallbackError
from tpack.tower.names import op_and_tensor_name, value_if_variable, values_by_name
from tpack.types import BuiltTower, Trainer
from tpack.utils.renames import on_unknown_name
from tpack.utils.validation import check_arguments

__getattr__ = on_unknown_name(__name__)

Self = TypeVar("Self", bound="Callback")
_STEP_HOOKS = ("before_run", "after_run", "trigger_step")

LONG_WAIT_SECS = 86400.0
"""Timeout for slow workers; a lost worker is noticed much earlier."""


@dataclass(frozen=True)
class WithSteps:
    """Requirements of a callback when a run makes several steps; its step hooks are called around runs.

    Attributes:
        each: operations that every step runs, whatever ``before_run`` returns.
        last: the tensors that ``before_run`` may fetch, from a run's last step; without results if the run ended early.
        steps_left: returns the number of steps after which a run must end so that the callback can act; None for any.
        goes_on: boolean resource variables; a run ends after a step that sets one of them to False.
    """

    each: tuple[tf.Operation, ...] = ()
    last: tuple[tf.Tensor, ...] = ()
    steps_left: Callable[[], int] | None = None
    goes_on: tuple[tf.Variable, ...] = ()


class Callback:
    """Actions before, during and after training; subclasses override the methods that start with an underscore.

    A trainer calls the public methods, in the order of registration::

        for cb in callbacks: cb.setup_graph(trainer)       # may add ops; the graph is finalized afterwards
        session is created, variables are initialized or restored
        for cb in callbacks: cb.before_train()
        for epoch in range(starting_epoch, max_epoch + 1):
            for cb in callbacks: cb.before_epoch()
            for step in range(steps_per_epoch):
                for cb in callbacks: fetches += cb.before_run(context)
                run the train op together with the fetches  # counts one step
                for cb in callbacks: cb.after_run(context, values)
                for cb in callbacks: cb.trigger_step()
            for cb in callbacks: cb.after_epoch()
            for cb in callbacks: cb.trigger_epoch()        # in the order of the phases below
        for cb in callbacks: cb.after_train()              # also when training ends with an error

    Hooks that a class does not override are never called in the loop. `_trigger_epoch` calls `trigger()` unless
    overridden: override `_trigger` for an action that fits any time, and choose the time with `PeriodicTrigger`. The
    trainer's graph is the default graph in `_setup_graph`, its session the default session from `_before_train` on.
    Raising `tpack.errors.StopTraining` ends training normally: reported statistics are still written.

    Triggering has phases, in each of which the order of the list holds: first callbacks that report and change
    something, then those that read statistics, then those that save. So a checkpoint follows all else of its epoch, and
    an error in any callback keeps the epoch from being saved. Before every save, each `_before_save` may raise an
    error; then the result of `_state_to_save` goes into the checkpoint, and to `_load_saved_state` of a resumed run,
    after `_before_train`.

    Where towers have own variables, a callback changes those of the main tower; the others follow at the beginning of
    the next epoch. To change variables between steps use `RunOp` or a `HyperParamSetter`, which change all towers at
    once.

    One object serves one training: a second set-up is an error.

    Attributes:
        merges_statistics: changes reported statistics, so it is triggered after the reporting callbacks.
        reads_statistics: reads reported statistics, so it is triggered after all of those.
        saves_training: saves, so it is triggered after all others; savers of the training state come last.
        adds_variables: adds variables that belong into checkpoints, so it is set up first.
        passes_changes_on: copies the main tower's changes to other towers, so its `before_epoch` comes last.
    """

    _chief_only = True
    _name_scope = ""
    _trainer: Trainer | None = None
    merges_statistics = False
    reads_statistics = False
    saves_training = False
    adds_variables = False
    passes_changes_on = False

    # Called by the trainer.

    def setup_graph(self, trainer: Trainer) -> None:
        """Remember the trainer and call `_setup_graph` inside `name_scope`.

        There ``graph.get_tensor_by_name`` returns a variable's value, not its handle.

        Raises:
            CallbackError: the callback already belongs to a training.
        """
        self._join(trainer)
        with tf.name_scope(self.name_scope), values_by_name(self.graph):
            self._setup_graph()

    def _join(self, trainer: Trainer) -> None:
        if self._trainer is not None:
            raise CallbackError(f"{self} was set up before: expected one object for each training; use a new one")
        self._trainer = trainer

    def before_train(self) -> None:
        """Call `_before_train`, once, after the session is initialized."""
        self._before_train()

    def before_epoch(self) -> None:
        """Call `_before_epoch`, right before the first step of an epoch."""
        self._before_epoch()

    def before_run(self, ctx: tf.train.SessionRunContext) -> object:
        """Call `_before_run` and return the fetches for the coming step."""
        return self._before_run(ctx)

    def after_run(self, ctx: tf.train.SessionRunContext, values: tf.train.SessionRunValues) -> None:
        """Call `_after_run` with the values of the fetches."""
        self._after_run(ctx, values)

    def trigger_step(self) -> None:
        """Call `_trigger_step`, after each step."""
        self._trigger_step()

    def after_epoch(self) -> None:
        """Call `_after_epoch`, right after the last step of an epoch and before any callback is triggered."""
        self._after_epoch()

    def trigger_epoch(self) -> None:
        """Call `_trigger_epoch`, once an epoch."""
        self._trigger_epoch()

    def trigger(self) -> None:
        """Call `_trigger`, at any time."""
        self._trigger()

    def before_save(self) -> None:
        """Call `_before_save`, right before anything is saved."""
        self._before_save()

    def state_to_save(self) -> object:
        """Call `_state_to_save` for a checkpoint and return the state; None for nothing."""
        return self._state_to_save()

    def load_saved_state(self, state: Any) -> None:
        """Call `_load_saved_state` with the state of the run that this one resumes."""
        self._load_saved_state(state)

    def after_train(self) -> None:
        """Call `_after_train`, once, however training ended."""
        self._after_train()

    def with_several_steps(self) -> WithSteps | None:
        """Call `_with_several_steps`; None if a class below the one that defines it overrides a step hook."""

        def depth(name: str) -> int:  # of the class that defines a method; 0 is the most derived
            return next(position for position, kind in enumerate(type(self).__mro__) if name in vars(kind))

        hooks = min(depth(name) for hook in _STEP_HOOKS for name in (hook, f"_{hook}"))
        return None if hooks < depth("_with_several_steps") else self._with_several_steps()

    # Overridden by subclasses.

    def _setup_graph(self) -> None:
        """Add operations to the graph."""

    def _before_train(self) -> None:
        """Prepare; the session exists and the graph is final."""

    def _before_epoch(self) -> None:
        """Prepare for an epoch; keep it short, the epoch's timers are running."""

    def _before_run(self, ctx: tf.train.SessionRunContext) -> object:
        """Return fetches for the coming step, None or any nest; the same object in each step is fastest."""
        return None

    def _after_run(self, ctx: tf.train.SessionRunContext, values: tf.train.SessionRunValues) -> None:
        """Use `values.results`, in the structure that `_before_run` returned."""

    def _trigger_step(self) -> None:
        """Act after a step."""

    def _after_epoch(self) -> None:
        """Finish an epoch; keep it short."""

    def _trigger_epoch(self) -> None:
        """Act after an epoch; calls `trigger()` unless overridden."""
        self.trigger()

    def _trigger(self) -> None:
        """Act, at any time."""

    def _before_save(self) -> None:
        """Raise an error if the present state must not be saved."""

    def _state_to_save(self) -> object:
        """Return state for a resumed run in JSON types, stored by the callback's `str`; variables need none."""
        return None

    def _load_saved_state(self, state: Any) -> None:
        """Restore the state that `_state_to_save` returned; the session exists."""

    def _after_train(self) -> None:
        """Finish."""

    def _with_several_steps(self) -> WithSteps | None:
        """Return the requirements for several steps in one run, once, on the complete graph; None to forbid that."""
        return None

    # Read by subclasses.

    @property
    def trainer(self) -> Trainer:
        """The callback's trainer.

        Raises:
            CallbackError: there is none yet.
        """
        if self._trainer is None:
            raise CallbackError(f"{self} has no trainer yet: expected a use after setup_graph()")
        return self._trainer

    @property
    def graph(self) -> tf.Graph:
        """The trainer's graph."""
        return self.trainer.graph

    @property
    def epoch_num(self) -> int:
        """Number of the current epoch, from 1; during `trigger_epoch` the epoch that has just ended."""
        return self.trainer.epoch_num

    @property
    def global_step(self) -> int:
        """Number of finished steps, including those before a resumption."""
        return self.trainer.global_step

    @property
    def local_step(self) -> int:
        """Number of finished steps in this epoch."""
        return self.trainer.local_step

    @property
    def coming_step(self) -> int:
        """Number of finished steps in this epoch after the coming run, which makes one or several."""
        loop = self.trainer.loop
        return loop.local_step + loop.num_coming

    @property
    def chief_only(self) -> bool:
        """Whether only the chief process of a distributed training runs the callback."""
        return self._chief_only

    def set_chief_only(self: Self, chief_only: bool = True) -> Self:
        """Choose whether only the chief runs the callback, and return the callback."""
        self._chief_only = chief_only
        return self

    @property
    def name_scope(self) -> str:
        """The name scope of `_setup_graph`; the class name unless set."""
        return self._name_scope or type(self).__name__.lstrip("_")

    @name_scope.setter
    def name_scope(self, name: str) -> None:
        self._name_scope = name

    def get_tensors_maybe_in_tower(self, names: Sequence[str]) -> list[tf.Tensor]:
        """Find tensors by name, in the graph and then in the first training tower; of a variable its value.

        Raises:
            CallbackError: the graph has no tensor of that name, and there is no training tower.
            TowerError: neither the graph nor the first training tower has one.
        """

        def find(name: str) -> tf.Tensor:
            tensor_name = op_and_tensor_name(name)[1]
            try:
                return self.graph.get_tensor_by_name(tensor_name)
            except KeyError as missing:
                training = training_towers(self.trainer)
                if not training:
                    raise CallbackError(f"{self} got tensor '{tensor_name}': the graph has no such tensor") from missing
            return training[0].get_tensor(name)

        return [value_if_variable(find(name)) for name in names]

    # Asked by the loop.

    def implements(self, hook: str) -> bool:
        """Tell whether the class does anything in `hook`, a public name such as "before_run" or "failure"."""
        for name in (hook, f"_{hook}"):
            method = getattr(self, name, None)
            if hasattr(Callback, name) and getattr(method, "__func__", method) is not getattr(Callback, name):
                return True
        return hook == "trigger_epoch" and self.implements("trigger")

    def bound(self, hook: str) -> Callable[..., Any]:
        """Return the method to call for `hook`, without the public method that only forwards."""
        public = getattr(self, hook)
        is_plain = getattr(public, "__func__", None) is getattr(Callback, hook)
        return getattr(self, f"_{hook}") if is_plain else public

    def failure(self) -> BaseException | None:
        """Return the error that ended a thread or process of this callback, when a run fails or data end."""
        return None

    def let_go(self) -> None:
        """Unblock a run that waits for this callback's data, with an error or the end of the data.

        Called from another thread, at most once, when training does not end by itself.
        """

    def __str__(self) -> str:
        return type(self).__name__


@check_arguments
class CallbackFactory(Callback):
    """A callback made of functions; each gets the callback as its argument.

    Args:
        setup_graph: called in place of the hook; likewise the others.
        before_train: likewise.
        trigger: likewise.
        after_train: likewise.

    Example:
        ``CallbackFactory(trigger=lambda cb: cb.trainer.monitors.put_scalar("answer", 42))``
    """

    def __init__(
        self,
        setup_graph: Callable[[Callback], object] | None = None,
        before_train: Callable[[Callback], object] | None = None,
        trigger: Callable[[Callback], object] | None = None,
        after_train: Callable[[Callback], object] | None = None,
    ) -> None:
        functions = {"setup_graph": setup_graph, "before_train": before_train}
        functions |= {"trigger": trigger, "after_train": after_train}
        self._functions = {name: function for name, function in functions.items() if function is not None}

    def _call(self, hook: str) -> None:
        if hook in self._functions:
            self._functions[hook](self)

    def _setup_graph(self) -> None:
        self._call("setup_graph")

    def _before_train(self) -> None:
        self._call("before_train")

    def _trigger(self) -> None:
        self._call("trigger")

    def _after_train(self) -> None:
        self._call("after_train")

    def __str__(self) -> str:
        return f"CallbackFactory({', '.join(self._functions)})"


def training_towers(trainer: Trainer) -> Sequence[BuiltTower]:
    """Return the training towers, the main one first; empty for a trainer without towers."""
    towers: Any = getattr(trainer, "towers", None)
    return towers.training() if towers else ()
