"""The contract that everything around the training step follows.

A trainer only steps; saving, evaluating, logging, feeding threads and progress bars are callbacks. `Callback` is the
contract and `CallbackFactory` the member that does nothing until it is given functions. Packages below the concrete
callbacks (input sources above all) import this file alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import tensorflow.compat.v1 as tf

from tpack.errors import CallbackError
from tpack.tower.names import op_and_tensor_name, value_if_variable, values_by_name
from tpack.types import BuiltTower, Trainer
from tpack.utils.validation import check_arguments

Self = TypeVar("Self", bound="Callback")
_STEP_HOOKS = ("before_run", "after_run", "trigger_step")

LONG_WAIT_SECS = 86400.0
"""How long callbacks of several workers wait for one that is slow; one that is lost is noticed long before."""


@dataclass(frozen=True)
class WithSteps:
    """What a callback has to do with steps of which several are one run, without Python in between.

    Its hooks of steps are then called around each such run, in place of each step. What it asks for in ``before_run``
    must be among what is said here.

    Attributes:
        each: operations that every step runs, whatever ``before_run`` returns.
        last: tensors of which it may want the value that they have in the last step of a run; there is none, and
            ``values.results`` is None, where the run ended early.
        steps_left: returns after how many more steps a run must be over, so that the callback can act; None where it
            does not matter.
        goes_on: boolean variables, which are resources; a run ends after a step that has set one of them to False.
    """

    each: tuple[tf.Operation, ...] = ()
    last: tuple[tf.Tensor, ...] = ()
    steps_left: Callable[[], int] | None = None
    goes_on: tuple[tf.Variable, ...] = ()


class Callback:
    """Do something before, during or after training; subclasses override the methods that start with an underscore.

    A trainer calls the public method of each callback, in the order in which the callbacks were registered::

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

    A hook that a class does not override is never called inside the loop, so an idle callback costs a step nothing.
    `_trigger_epoch` calls `trigger()` unless it is overridden: override `_trigger` for something that makes sense at
    any time, and wrap the callback in `PeriodicTrigger` to choose when. During `_setup_graph` the trainer's graph is
    the default graph; from `_before_train` on its session is the default session, and raising
    `tpack.errors.StopTraining` ends training well: what was reported is still written.

    Wherever they stand in the list, callbacks are triggered in phases: first those that report and change something,
    then those that read statistics, then those that save. Within a phase the order of the list holds. So a checkpoint
    is saved when all else of the epoch is done, and an error in any callback keeps the epoch from being saved. Before
    anything is saved, whenever that is, every callback's `_before_save` may object by raising an error. Then what
    `_state_to_save` returns goes into the checkpoint, and a run that resumes from it gives it to `_load_saved_state`,
    right after `_before_train`.

    Where towers have variables of their own, a callback that changes a variable changes the main tower's. The others
    have the change when the next epoch begins, after every `_before_epoch`; what changes variables between the steps of
    an epoch is better done by `RunOp` or a `HyperParamSetter`, which change all towers' at once.

    One object serves one training: being set up twice is an error.

    Attributes:
        merges_statistics: the callback changes what others give to the monitors, so it is triggered after those.
        reads_statistics: the callback reads what others give to the monitors, so it is triggered after all of them.
        saves_training: the callback saves what it finds, so it is triggered after all others; those that choose by a
            statistic, which they read, come before those that save where training stands.
        adds_variables: the callback adds variables that belong into checkpoints, so it is set up before all others.
        passes_changes_on: the callback gives other towers what callbacks changed in the main one, so its `before_epoch`
            comes after all others'.
    """

    _chief_only = True
    _name_scope = ""
    _trainer: Trainer | None = None
    merges_statistics = False
    reads_statistics = False
    saves_training = False
    adds_variables = False
    passes_changes_on = False

    # What the trainer calls.

    def setup_graph(self, trainer: Trainer) -> None:
        """Remember the trainer and call `_setup_graph` inside `name_scope`.

        There, ``graph.get_tensor_by_name`` gives the value of a variable and not its handle.

        Raises:
            CallbackError: the callback already belongs to a training.
        """
        self._join(trainer)
        with tf.name_scope(self.name_scope), values_by_name(self.graph):
            self._setup_graph()

    def _join(self, trainer: Trainer) -> None:
        if self._trainer is not None:
            raise CallbackError(f"{self} was set up before: one callback object serves one training, create a new one")
        self._trainer = trainer

    def before_train(self) -> None:
        """Call `_before_train`, once, after the session is initialized."""
        self._before_train()

    def before_epoch(self) -> None:
        """Call `_before_epoch`, right before the first step of an epoch."""
        self._before_epoch()

    def before_run(self, ctx: tf.train.SessionRunContext) -> object:
        """Call `_before_run` and return what is to be fetched together with the coming step."""
        return self._before_run(ctx)

    def after_run(self, ctx: tf.train.SessionRunContext, values: tf.train.SessionRunValues) -> None:
        """Call `_after_run` with the values of what `before_run` asked for."""
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
        """Call `_trigger`, whenever somebody wants the callback to act."""
        self._trigger()

    def before_save(self) -> None:
        """Call `_before_save`, right before anything is saved."""
        self._before_save()

    def state_to_save(self) -> object:
        """Call `_state_to_save`, as a checkpoint is saved, and return what belongs into it; None for nothing."""
        return self._state_to_save()

    def load_saved_state(self, state: Any) -> None:
        """Call `_load_saved_state` with what `state_to_save` returned in the run that this one resumes."""
        self._load_saved_state(state)

    def after_train(self) -> None:
        """Call `_after_train`, once, however training ended."""
        self._after_train()

    def with_several_steps(self) -> WithSteps | None:
        """Call `_with_several_steps`; None where a subclass of who overrides that sees more of steps."""
        kinds = type(self).__mro__
        told_by = _definer(kinds, "_with_several_steps")
        seen_by = [_definer(kinds, name) for hook in _STEP_HOOKS for name in (hook, f"_{hook}")]
        return None if min(seen_by) < told_by else self._with_several_steps()

    # What a subclass overrides.

    def _setup_graph(self) -> None:
        """Add what is needed to the graph."""

    def _before_train(self) -> None:
        """Prepare; the session exists and the graph can not be changed any more."""

    def _before_epoch(self) -> None:
        """Prepare for an epoch; keep it short, timers of the epoch are running."""

    def _before_run(self, ctx: tf.train.SessionRunContext) -> object:
        """Return fetches for the coming step: None, `tf.train.SessionRunArgs`, or any nest of tensors, ops and names.

        Returning the same object each step keeps the step on its fast path.
        """
        return None

    def _after_run(self, ctx: tf.train.SessionRunContext, values: tf.train.SessionRunValues) -> None:
        """Use `values.results`, which has the structure that `_before_run` returned."""

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
        """Raise an error if training is not worth being saved as it is now."""

    def _state_to_save(self) -> object:
        """Return what a resumed run must know of this one, in what JSON can hold; None for nothing.

        It finds its way back by what `str` returns of the callback. What is kept in variables needs no state.
        """
        return None

    def _load_saved_state(self, state: Any) -> None:
        """Go on with what `_state_to_save` returned in the run that this one resumes; the session exists."""

    def _after_train(self) -> None:
        """Finish."""

    def _with_several_steps(self) -> WithSteps | None:
        """Return what to do with steps of which several are one run; None to see each, which forbids that.

        It is called once, when the graph is complete, and asked of those that override a hook of steps.
        """
        return None

    # What a callback knows.

    @property
    def trainer(self) -> Trainer:
        """The trainer that the callback belongs to.

        Raises:
            CallbackError: there is none yet.
        """
        if self._trainer is None:
            raise CallbackError(f"{self} has no trainer yet: it is known from setup_graph() on")
        return self._trainer

    @property
    def graph(self) -> tf.Graph:
        """The trainer's graph."""
        return self.trainer.graph

    @property
    def epoch_num(self) -> int:
        """Number of the current epoch, from 1; during `trigger_epoch` the one that has just ended."""
        return self.trainer.epoch_num

    @property
    def global_step(self) -> int:
        """Steps that were run, those before a resumption included."""
        return self.trainer.global_step

    @property
    def local_step(self) -> int:
        """Steps of this epoch that were run."""
        return self.trainer.local_step

    @property
    def coming_step(self) -> int:
        """Steps of this epoch that will have been run when the coming run is over: one more, or several."""
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
        """The name scope of the ops that `_setup_graph` creates; the class name unless set."""
        return self._name_scope or type(self).__name__.lstrip("_")

    @name_scope.setter
    def name_scope(self, name: str) -> None:
        self._name_scope = name

    def get_tensors_maybe_in_tower(self, names: Sequence[str]) -> list[tf.Tensor]:
        """Find tensors by name, in the graph first and then in the first training tower; a variable means its value.

        Raises:
            CallbackError: the graph has no tensor of that name, and there is no training tower.
            TowerError: neither the graph nor the first training tower has one.
        """
        return [value_if_variable(self._find_tensor(name)) for name in names]

    def _find_tensor(self, name: str) -> tf.Tensor:
        tensor_name = op_and_tensor_name(name)[1]
        try:
            return self.graph.get_tensor_by_name(tensor_name)
        except KeyError as missing:
            training = training_towers(self.trainer)
            if not training:
                raise CallbackError(f"{self} wants tensor '{tensor_name}', which the graph does not have") from missing
        return training[0].get_tensor(name)

    # What the loop asks.

    def implements(self, hook: str) -> bool:
        """Tell whether calling `hook`, a public name such as "before_run" or "failure", does anything in this class."""
        if any(_overridden(self, name) for name in (hook, f"_{hook}")):
            return True
        return hook == "trigger_epoch" and self.implements("trigger")

    def bound(self, hook: str) -> Callable[..., Any]:
        """Return what to call for `hook`: the method that a subclass overrides, without the one that only calls it."""
        public = getattr(self, hook)
        is_plain = getattr(public, "__func__", None) is getattr(Callback, hook)
        return getattr(self, f"_{hook}") if is_plain else public

    def failure(self) -> BaseException | None:
        """Return the error that ended a thread or process which this callback owns, if there is one.

        A run that fails or finds no more data asks for it, so that the cause is raised and not its consequence.
        """
        return None

    def let_go(self) -> None:
        """Let a run return that waits for what this callback gives, with an error or the end of the data.

        It is called from another thread, at most once, when training is to end and does not. Nothing more is to be
        given then.
        """

    def __str__(self) -> str:
        return type(self).__name__


@check_arguments
class CallbackFactory(Callback):
    """Make a callback of functions; each takes the callback itself, and without functions nothing is done.

    Args:
        setup_graph: called as `setup_graph(callback)` in place of the hook; so are the others.
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
        functions = {
            "setup_graph": setup_graph,
            "before_train": before_train,
            "trigger": trigger,
            "after_train": after_train,
        }
        self._functions = {name: function for name, function in functions.items() if function is not None}

    def _call(self, hook: str) -> None:
        function = self._functions.get(hook)
        if function is not None:
            function(self)

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
    """Return the training towers of a trainer, the main one first; none of a trainer without a tower function."""
    towers: Any = getattr(trainer, "towers", None)
    return towers.training() if towers else ()


def _definer(kinds: Sequence[type], name: str) -> int:
    """Return which of some classes defines a method, the most derived first."""
    return next(position for position, kind in enumerate(kinds) if name in vars(kind))


def _overridden(callback: Callback, name: str) -> bool:
    if not hasattr(Callback, name):
        return False
    method = getattr(callback, name)
    return getattr(method, "__func__", method) is not getattr(Callback, name)
