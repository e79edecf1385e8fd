"""An optimizer that can be used in the towers of a strategy like any other outside of them."""

from typing import Any

from tpack.distribute.current import get_distribution_strategy
from tpack.distribute.optimizers import is_updating
from tpack.tfutils.optimizer import ProxyOptimizer
from tpack.tfutils.scope_utils import whole_variable


class DistributedOptimizer(ProxyOptimizer):
    """Reduce gradients over the towers and update every mirror, in ``apply_gradients`` and ``minimize``.

    To be used in a tower or cross-tower context; outside of every strategy it does what the optimizer inside does. Each
    tower makes its own, and that of the first tower does the work. In ``compute_gradients``, gradients are those of the
    tower alone. Where a strategy updates variables with reduced gradients already, it does what the optimizer inside
    does, so it can be wrapped or be given to `StrategyTrainer` without harm.

    Args:
        optimizer: any ``tf.train.Optimizer``.

    Raises:
        GraphBuildError: It is something else.

    Example:
        def tower_fn(x, y):
            optimizer = DistributedOptimizer(tf.train.AdamOptimizer())
            return optimizer.minimize(loss(x, y))

        train_op = strategy.group(strategy.call_for_each_tower(tower_fn, *iterator.get_next()))

    Source:
        Optimizers of TensorFlow 1 did this by themselves.
    """

    def __init__(self, optimizer: Any) -> None:
        super().__init__(optimizer, "DistributedOptimizer")

    def apply_gradients(self, grads_and_vars: Any, global_step: Any = None, name: str | None = None) -> Any:
        """Return the operation that applies the gradients of all towers; see `DistributionStrategy.apply_gradients`."""
        if is_updating():
            return super().apply_gradients(grads_and_vars, global_step, name)
        return get_distribution_strategy().apply_gradients(self._opt, grads_and_vars, global_step, name)

    def get_slot(self, var: Any, name: str) -> Any:
        """Return a slot, of all devices that the variable is on."""
        return whole_variable(super().get_slot(whole_variable(var), name))

    def variables(self) -> list[Any]:
        """Return slots and counters, each of all devices that it is on: what is to be initialised or saved."""
        return list(map(whole_variable, super().variables()))
