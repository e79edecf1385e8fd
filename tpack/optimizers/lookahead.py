"""`Lookahead`: slow weights that go a part of the way of another optimizer's every few steps."""

from typing import Any

import tensorflow.compat.v1 as tf

from tpack.errors import GraphBuildError
from tpack.tfutils.optimizer import ProxyOptimizer
from tpack.tfutils.predicated import Gate
from tpack.tfutils.scope_utils import whole_variable
from tpack.tower.grads import Pairs, Step
from tpack.utils.validation import check_arguments, check_count, check_number

__all__ = ["Lookahead"]

_NAME = "Lookahead"


@check_arguments
class Lookahead(ProxyOptimizer):
    """Every ``sync_period`` steps, move slow weights a part of the way to the trained ones, and train on from there.

    The slow weights begin as the trained ones are before the first step, restored ones too, and are saved with the
    number of steps. The state of the optimizer inside goes on.

    Args:
        opt: the optimizer inside.
        sync_period: the number of its steps between two moves.
        slow_step: the part of the way.

    Creates:
        Beside each variable one of its shape, ``VARIABLE/Lookahead``; and ``Lookahead_counter``, an integer.

    Raises:
        GraphBuildError: ``opt`` is not a ``tf.compat.v1.train.Optimizer``; on use, there is no gradient.
        ConfigError: A number is out of range.

    Example:
        Lookahead(AdamW(1e-3), sync_period=6, slow_step=0.5)

    Source:
        Zhang et al., Lookahead optimizer: k steps forward, 1 step back, 2019, algorithm 1.
    """

    def __init__(self, opt: tf.train.Optimizer, sync_period: int = 6, slow_step: float = 0.5) -> None:
        super().__init__(opt, _NAME)
        self._sync_period = check_count(self, "sync_period", sync_period)
        self._slow_step = check_number(self, "slow_step", slow_step, 0, 1, is_low_allowed=False)

    def apply_gradients(self, grads_and_vars: Pairs, global_step: Step = None, name: str | None = None) -> tf.Operation:
        """Return the operation that applies gradients and, every ``sync_period`` steps, moves the slow weights.

        Raises:
            GraphBuildError: There is no gradient.
        """
        pairs = [(gradient, variable) for gradient, variable in grads_and_vars if gradient is not None]
        if not pairs:
            raise GraphBuildError("Lookahead got no gradients: expected one for at least one variable")
        with tf.init_scope():
            counter = self._create_non_slot_variable(tf.zeros([], tf.int64), f"{_NAME}_counter", pairs[0][1])
            slow = [(self._zeros_slot(variable, "slow", _NAME), variable) for _, variable in pairs]
        with tf.name_scope(_NAME), tf.device(counter.device):
            step = counter.read_value()
        begun = self._when(tf.equal(step, 0), slow, lambda weights, variable: weights.assign(variable))
        with tf.control_dependencies([begun]):
            update = self._opt.apply_gradients(pairs)
        with tf.name_scope(_NAME), tf.control_dependencies([update]), tf.device(counter.device):
            is_time = tf.equal((step + 1) % self._sync_period, 0)
        moved = self._when(is_time, slow, self._move)
        with tf.control_dependencies([moved]):
            counted = counter.assign_add(1, read_value=False)
        with tf.control_dependencies([counted]):
            if global_step is None:
                return tf.no_op(name or _NAME)
            return global_step.assign_add(1, read_value=False, name=name)

    def _when(self, condition: tf.Tensor, slow: list[tuple[Any, Any]], action: Any) -> tf.Tensor:
        """Act on each pair of slow and trained weights if a condition holds; return a tensor that comes afterwards."""
        with tf.name_scope(_NAME):
            gate, done = Gate(condition), []
            with gate.behind():
                for weights, variable in slow:
                    with tf.device(variable.device):
                        done.append(action(weights, whole_variable(variable)))
            return gate.wait_for(done)

    def _move(self, weights: tf.Variable, variable: tf.Variable) -> tf.Operation:
        before = weights.read_value()
        after = before + self._slow_step * (variable.read_value() - before)
        assigned = variable.assign(after, read_value=False)
        return tf.group(assigned, weights.assign(after, read_value=False))

    def variables(self) -> list[tf.Variable]:
        """Return the variables of the inner optimizer, the slow weights and the counter."""
        return [*super().variables(), *tf.train.Optimizer.variables(self)]
