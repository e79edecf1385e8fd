"""The contract of a graph builder: one model becomes K towers and one train op.

A builder knows no sessions, data or callbacks. It calls a function in each tower, reduces the gradients and applies an
optimizer. It returns everything and keeps nothing.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import tensorflow.compat.v1 as tf

from tpack.errors import GraphBuildError
from tpack.schedules import Schedule
from tpack.tower.context import TowerContext
from tpack.tower.grads import Gradient, ReduceOp
from tpack.tower.ownership import pair_variables
from tpack.types import GradsAndVars
from tpack.utils.validation import check_arguments, is_integer

GradFn: TypeAlias = Callable[[], GradsAndVars]
OptimizerFn: TypeAlias = Callable[[], tf.train.Optimizer]


@check_arguments
@dataclass(frozen=True)
class SyncOp:
    """Operation between two steps that synchronises the towers, with its times.

    Attributes:
        op: the operation.
        every_steps: None to run it before each epoch, so that all towers have the changes of callbacks. A number to run
            it after that many steps, counted anew in each epoch, and after the last step of an epoch; also before a
            checkpoint is saved and where training is stopped, if steps were made since. A `Schedule` of epochs gives
            the number of each epoch, rounded.
        num_steps: where ``op`` applies gradients of several steps, a tensor of their number; None where the train op
            applies them.

    Raises:
        GraphBuildError: ``op`` is not an operation, or ``every_steps`` not a positive integer.
    """

    op: tf.Operation
    every_steps: int | Schedule | None = None
    num_steps: tf.Tensor | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.op, tf.Operation):
            raise GraphBuildError(f"SyncOp got op={self.op!r}: expected an operation, such as tf.group returns")
        steps = self.every_steps
        if steps is not None and not isinstance(steps, Schedule) and (not is_integer(steps) or steps < 1):
            raise GraphBuildError(
                f"SyncOp got every_steps={steps!r}: expected an integer of at least 1, a Schedule of them, or None"
            )

    def steps_in_epoch(self, epoch_num: int) -> int:
        """Return the number of steps after which it runs in an epoch, counted from 1; 0 for before the epoch."""
        if isinstance(self.every_steps, Schedule):
            return max(1, round(self.every_steps.value_at(epoch_num - 1)))
        return self.every_steps or 0


@dataclass(frozen=True)
class StepGradients:
    """Gradients of a step before and after their reduction.

    Attributes:
        towers: K x N gradients of the towers of this process.
        reduced: N gradients, as the main tower applies them.
        op: the reduction, of dense gradients and rows of sparse ones.
        num_towers: the number of towers of all processes that are reduced.
    """

    towers: Sequence[Sequence[Gradient]]
    reduced: Sequence[Gradient]
    op: ReduceOp
    num_towers: int


@dataclass(frozen=True)
class BuildResult:
    """Result of a builder; raise a `GraphBuildError` for another ``sync_op``.

    Attributes:
        train_op: one step of training.
        towers: the towers, the main one first.
        init_op: run once after the variables are initialised and restored; None for nothing.
        sync_op: synchronises the towers' variables; several with their own times in a tuple, of which one alone becomes
            itself; None where they are shared.
        copies: the variables that ``init_op`` sets, so that their initialisers need not run.
        gradients: those of a step; None where a step does not apply the sum or mean of its towers' gradients.
    """

    train_op: tf.Operation | tf.Tensor
    towers: tuple[TowerContext, ...]
    init_op: tf.Operation | None = None
    sync_op: SyncOp | tuple[SyncOp, ...] | None = None
    copies: tuple[tf.Variable, ...] = ()
    gradients: StepGradients | None = None

    def __post_init__(self) -> None:
        if isinstance(self.sync_op, tuple) and len(self.sync_op) == 1:
            object.__setattr__(self, "sync_op", self.sync_op[0])
        for sync_op in self.sync_ops:
            if not isinstance(sync_op, SyncOp):
                raise GraphBuildError(
                    f"BuildResult got sync_op={sync_op!r}: expected a SyncOp, a tuple of them or None"
                )

    @property
    def variables(self) -> tuple[tuple[tf.Variable, ...], ...]:
        """The trained variables, K x N: entry `[k][n]` is tower k's copy of the main tower's n-th one.

        Towers that share variables have the same entries; under a strategy, each is the mirrored variable.
        """
        main = self.towers[0].recorder
        trained = [variable for variable in main.variables if variable.trainable]
        rows = [tuple(trained)]
        for tower in self.towers[1:]:
            pairs = pair_variables(main, tower.recorder) if tower.has_own_variables else []
            copies = {id(own): copy for own, copy in pairs}
            rows.append(tuple(copies.get(id(variable), variable) for variable in trained))
        return tuple(rows)

    @property
    def sync_ops(self) -> tuple[SyncOp, ...]:
        """The contents of ``sync_op``."""
        if self.sync_op is None:
            return ()
        return self.sync_op if isinstance(self.sync_op, tuple) else (self.sync_op,)


class GraphBuilder(ABC):
    """Builder of the training graph on some devices, for several graphs with one call of `build` for each."""

    @property
    @abstractmethod
    def devices(self) -> tuple[str, ...]:
        """The canonical device of each of the K towers."""

    @abstractmethod
    def build(self, grad_fn: GradFn, optimizer_fn: OptimizerFn) -> BuildResult:
        """Build the towers and the train op into the current default graph.

        Args:
            grad_fn: called once in each tower; builds the model and returns its N (gradient, variable) pairs.
            optimizer_fn: returns the same ``tf.train.Optimizer`` at each call.

        Shapes:
            Each gradient has the shape of its variable, or is an ``IndexedSlices`` into it.

        Raises:
            TowerMismatchError: The towers returned different variables.
            GraphBuildError: The optimizer cannot be used.

        Source:
            The builders of tensorpack's ``graph_builder.training``, reduced to one signature.
        """
