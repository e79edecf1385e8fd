"""An optimizer wrapper for a replicated model_fn, which applies the sum of the towers' gradients once.

In the towers of ``replicate_model_fn`` it merges the calls of all towers; in those of a distribution strategy it uses
the strategy. Elsewhere it passes everything on.
"""

import functools
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.distribute.contexts import strategy_of
from tpack.distribute.trainer_strategy import TrainerTowersStrategy
from tpack.errors import ConfigError
from tpack.estimator.replicated import current_model_fn_tower
from tpack.reduction.sums import sum_column
from tpack.tower.context import current_frame
from tpack.tower.grads import ReduceOp, is_sparse
from tpack.types import GradsAndVars
from tpack.utils.validation import check_arguments


@check_arguments
class TowerOptimizer(tf.train.Optimizer):
    """An optimizer that applies the gradients of all towers together.

    Each call of the model_fn must call the same optimizers in the same order; several may share a loss. All towers get
    the one train op. Control dependencies around ``apply_gradients`` in any tower, such as update ops, run before the
    update. If each tower creates an optimizer, the first tower's is applied.

    Args:
        optimizer_or_optimizer_fn: the optimizer to wrap, or a function without arguments that returns one. The function
            is called once per graph, on first use.

    Raises:
        ConfigError: It is neither.

    Example:
        optimizer = TowerOptimizer(tf.train.GradientDescentOptimizer(0.1))
        train_op = optimizer.minimize(loss, tf.train.get_global_step())

    Source:
        The class of the same name in the seed, in which the last tower's optimizer is applied and the other towers get
        a no-op.
    """

    def __init__(self, optimizer_or_optimizer_fn: tf.train.Optimizer | Callable[[], tf.train.Optimizer]) -> None:
        is_optimizer = isinstance(optimizer_or_optimizer_fn, tf.train.Optimizer)
        super().__init__(use_locking=False, name="TowerOptimizer")
        # The optimizer of the last graph, in an attribute for `clone_optimizer`.
        self._opt: tf.train.Optimizer | None = optimizer_or_optimizer_fn if is_optimizer else None
        self._make: Callable[[], tf.train.Optimizer] | None = None if is_optimizer else optimizer_or_optimizer_fn
        self._made_in: weakref.ref[tf.Graph] | None = None

    @staticmethod
    def has_been_used() -> bool:
        """Tell whether a TowerOptimizer applied gradients in the current tower of a replicated model_fn."""
        tower = current_model_fn_tower()
        return tower is not None and tower.num_optimizer_calls > 0

    def compute_gradients(self, loss: tf.Tensor | Callable[[], tf.Tensor], *args: Any, **kwargs: Any) -> GradsAndVars:
        """Return the (gradient, variable) pairs of this tower's part of the loss.

        Args:
            loss: the tower's loss, or a function that returns it.
            *args: as for the wrapped optimizer.
            **kwargs: as for the wrapped optimizer.
        """
        tower = current_model_fn_tower()
        if tower is not None:
            scale, whole = tower.scale_loss, loss
            loss = (lambda: scale(whole())) if callable(whole) else scale(whole)
        return list(self._optimizer().compute_gradients(loss, *args, **kwargs))

    def apply_gradients(
        self, grads_and_vars: GradsAndVars, global_step: tf.Variable | None = None, name: str | None = None
    ) -> tf.Operation:
        """Return the operation that applies the gradients of all towers.

        Args:
            grads_and_vars: this tower's (gradient or None, variable) pairs.
            global_step: a variable to increment.
            name: the name of the operation.

        Raises:
            ConfigError: No tower has a gradient.
        """
        tower = current_model_fn_tower()
        if tower is None:
            return self._apply_outside(grads_and_vars, global_step, name)
        tower.count_optimizer_call()
        if tower.total == 1:
            return self._optimizer().apply_gradients(grads_and_vars, global_step, name)
        # The update is built outside of the towers; this carries the control dependencies.
        ready = tf.no_op(name="gradients_ready")
        apply = functools.partial(self._apply_together, global_step=global_step, name=name)
        return tower.merge_call(apply, list(grads_and_vars), ready)

    def get_slot(self, *args: Any, **kwargs: Any) -> tf.Variable | None:
        """Return a slot of the wrapped optimizer."""
        return self._optimizer().get_slot(*args, **kwargs)

    def get_slot_names(self, *args: Any, **kwargs: Any) -> list[str]:
        """Return the names of the wrapped optimizer's slots."""
        return list(self._optimizer().get_slot_names(*args, **kwargs))

    def get_name(self) -> str:
        """Return the name of the wrapped optimizer."""
        return str(self._optimizer().get_name())

    def variables(self) -> list[tf.Variable]:
        """Return the variables of the wrapped optimizer."""
        return list(self._optimizer().variables())

    def _apply_outside(
        self, grads_and_vars: GradsAndVars, global_step: tf.Variable | None, name: str | None
    ) -> tf.Operation:
        """Apply gradients outside of replicated model_fns, by the current strategy if there is one."""
        strategy = strategy_of(current_frame())
        if strategy is None or isinstance(strategy, TrainerTowersStrategy):
            return self._optimizer().apply_gradients(grads_and_vars, global_step, name)
        return strategy.apply_gradients(self._optimizer(), grads_and_vars, global_step, name)

    def _apply_together(
        self,
        tower_grads: list[GradsAndVars],
        ready: list[tf.Operation],
        *,
        global_step: tf.Variable | None,
        name: str | None,
    ) -> list[tf.Operation]:
        with tf.control_dependencies(ready):
            total = sum_tower_gradients(tower_grads)
            train_op = self._optimizer().apply_gradients(total, global_step, name)
        return [train_op] * len(tower_grads)

    def _optimizer(self) -> tf.train.Optimizer:
        graph = tf.get_default_graph()
        is_made = self._made_in is not None and self._made_in() is graph
        if self._make is not None and not is_made:
            made = self._make()
            if not isinstance(made, tf.train.Optimizer):
                raise ConfigError(f"the function of TowerOptimizer returned {made!r}: expected an optimizer")
            self._opt, self._made_in = made, weakref.ref(graph)
        return self._opt


def sum_tower_gradients(tower_grads: Sequence[GradsAndVars]) -> GradsAndVars:
    """Sum K towers' gradients of each variable.

    ``IndexedSlices`` in all towers stay sparse; a mixture is made dense.

    Args:
        tower_grads: K lists of (gradient or None, variable) pairs of the same variables.

    Returns:
        One pair per variable with a gradient in any tower, in order of first occurrence.

    Shapes:
        K x N x 2 to at most N x 2.

    Raises:
        ConfigError: No variable has a gradient.

    Source:
        The aggregation of gradients in the seeds of ``replicate_model_fn``.
    """
    columns: dict[int, tuple[tf.Variable, list[tf.Tensor | tf.IndexedSlices]]] = {}
    for pairs in tower_grads:
        for grad, variable in pairs:
            if grad is not None:
                columns.setdefault(id(variable), (variable, []))[1].append(grad)
    if not columns:
        names = ", ".join(variable.op.name for _, variable in tower_grads[0]) or "none"
        raise ConfigError(f"no tower has a gradient: expected one at least; the first tower's variables are: {names}")
    summed = []
    with tf.name_scope("gradient_aggregating"):
        for variable, grads in columns.values():
            with tf.device(variable.device):
                if any(map(is_sparse, grads)) and not all(map(is_sparse, grads)):
                    grads = [tf.convert_to_tensor(grad) for grad in grads]
                summed.append((sum_column(grads, ReduceOp.SUM), variable))
    return summed
