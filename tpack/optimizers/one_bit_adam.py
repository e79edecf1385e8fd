"""`OneBitAdam`: Adam whose average of squares stops, so that its momentum may travel in few bits."""

from typing import Any

import tensorflow.compat.v1 as tf

from tpack.optimizers.base import ResourceOptimizer, refuse_coarse
from tpack.optimizers.hyper import HyperValue, check_hypers
from tpack.tfutils.graph_lookup import get_global_step_var
from tpack.utils.validation import check_arguments, check_count

__all__ = ["OneBitAdam"]


@check_arguments
class OneBitAdam(ResourceOptimizer, tf.train.AdamOptimizer):
    """Adam for some steps; from then on its average of squares stays as it is.

    Until then the steps are those of ``tf.train.AdamOptimizer``, bit by bit, and slots have the same names, so each
    loads the other's checkpoints. Afterwards a step is linear in the gradient, so the momentum may be exchanged between
    workers in its place, encoded, with `MomentumFeedback`.

    Args:
        learning_rate: a number; or a tensor, a variable such as one that `HyperParamSetter` sets, or a function that
            returns one.
        freeze_step: the number of steps of the training after which the average of squares stays: 15 to 25 % of all
            steps, where training has become steady.
        beta1: the share of the average of gradients that stays at each step.
        beta2: the share of the average of their squares that stays, before it is frozen.
        epsilon: added to the root of the latter.

    Creates:
        For each variable its slots ``VARIABLE/Adam`` and ``VARIABLE/Adam_1``; ``beta1_power`` and ``beta2_power``.

    Raises:
        WrongTypeError: An argument is of another type.
        ConfigError: A number is out of range; on use, a beta is 1 in the dtype of a variable.

    Example:
        ::

            exchange = Exchange(codec=OneBit(), memory=MomentumFeedback(0.9), start_step=2000)
            trainer = MultiWorkerTrainerReplicated(8, exchange=exchange)  # with OneBitAdam(1e-3, freeze_step=2000)

    Source:
        Tang et al., 1-bit Adam: Communication Efficient Large-Scale Training with Adam's Convergence Speed, 2021.
    """

    def __init__(
        self,
        learning_rate: HyperValue = 0.001,
        *,
        freeze_step: int,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-8,
    ) -> None:
        check_hypers(self, learning_rate=learning_rate, epsilon=epsilon)
        check_hypers(self, high=1, beta1=beta1, beta2=beta2)
        self.freeze_step = check_count(self, "freeze_step", freeze_step)
        self.beta1 = beta1
        super().__init__(learning_rate, beta1, beta2, epsilon, name="Adam")

    _beta2_t: tf.Tensor

    def _prepare(self) -> None:
        super()._prepare()
        # With a share of 1 the average stays; its bias correction, which is for the next step, stays one step before.
        step, beta2 = tf.identity(get_global_step_var()), self._beta2_t
        self._beta2_t = tf.where(step >= self.freeze_step, tf.ones_like(beta2), beta2, name="beta2_of_step")
        self._beta2_of_power = tf.where(step + 1 >= self.freeze_step, tf.ones_like(beta2), beta2, name="beta2_of_power")

    def _finish(self, update_ops: Any, name_scope: Any) -> Any:
        self._beta2_t, of_step = self._beta2_of_power, self._beta2_t
        try:
            return super()._finish(update_ops, name_scope)
        finally:
            self._beta2_t = of_step

    def _resource_apply_dense(self, grad: tf.Tensor, var: tf.Variable) -> Any:
        refuse_coarse(self, var, beta1=self._beta1, beta2=self._beta2)
        return super()._resource_apply_dense(grad, var)
