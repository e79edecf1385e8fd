"""The contract of a graph builder: how one model becomes K towers and one train op.

A builder knows nothing of sessions, data or callbacks. It calls a function in each tower, gets gradients back, reduces
them and applies an optimizer. What it made is what it returns; nothing is left on the builder.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tpack.tower.context import TowerContext

GradsAndVars = Sequence[tuple[Any, Any]]
GradFn = Callable[[], GradsAndVars]
OptimizerFn = Callable[[], Any]


@dataclass(frozen=True)
class BuildResult:
    """What a builder made.

    Attributes:
        train_op: one step of training.
        towers: the towers, the main one first.
        init_op: to be run once after the variables are initialised and restored; None for nothing to do.
        sync_op: copies the main tower's variables and optimizer state to the other towers; None where they are shared.
        copies: the variables that ``init_op`` gives their first values, so that their initialisers need not run.
    """

    train_op: Any
    towers: tuple[TowerContext, ...]
    init_op: Any = None
    sync_op: Any = None
    copies: tuple[Any, ...] = ()


class GraphBuilder(ABC):
    """Builds the training graph on some devices.

    A builder may be used for several graphs, one call of `build` for each.
    """

    @property
    @abstractmethod
    def devices(self) -> tuple[str, ...]:
        """The canonical device of each of the K towers."""

    @abstractmethod
    def build(self, grad_fn: GradFn, optimizer_fn: OptimizerFn) -> BuildResult:
        """Build the towers and the train op into the current default graph.

        Args:
            grad_fn: called once in each tower; builds the model there and returns its N (gradient, variable) pairs.
            optimizer_fn: returns the ``tf.train.Optimizer``. It may be called more than once and returns the same one
                each time.

        Returns:
            What was built.

        Shapes:
            Each gradient has the shape of its variable, or is an ``IndexedSlices`` into it.

        Raises:
            TowerMismatchError: The towers returned different variables.
            GraphBuildError: The optimizer cannot be used.

        Source:
            The builders of tensorpack's ``graph_builder.training``, reduced to one signature.
        """
