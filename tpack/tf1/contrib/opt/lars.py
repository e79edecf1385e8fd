"""`LARSOptimizer`: momentum with a learning rate for each variable, by how large it is beside its gradient.

Source:
    You, Gitman and Ginsburg, "Large batch training of convolutional networks" (2017).
"""

from collections.abc import Sequence
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.tf1.contrib.opt.base import ResourceOptimizer, as_dtype_of

__all__ = ["LARSOptimizer"]


class LARSOptimizer(ResourceOptimizer, tf.train.Optimizer):
    """Momentum whose learning rate is ``eeta * |w| / (|g| + weight_decay * |w| + epsilon)`` times the one given.

    It is for batches of thousands, where one rate for all layers diverges. A sparse gradient gets plain momentum.

    Args:
        learning_rate: the rate that all share.
        momentum: the momentum.
        weight_decay: times the variable, is added to its gradient.
        eeta: how much of a variable's norm a step may change.
        epsilon: added to the denominator.
        name: of the optimizer and its slots.
        skip_list: texts; a variable with one of them in its name gets plain momentum without weight decay.
        use_nesterov: whether the momentum is Nesterov's.
    """

    def __init__(
        self,
        learning_rate: Any,
        momentum: Any = 0.9,
        weight_decay: float = 0.0001,
        eeta: float = 0.001,
        epsilon: float = 0.0,
        name: str = "LARSOptimizer",
        skip_list: Sequence[str] | None = None,
        use_nesterov: bool = False,
    ) -> None:
        super().__init__(use_locking=False, name=name)
        self._learning_rate = learning_rate
        self._momentum = momentum
        self._weight_decay = weight_decay
        self._eeta = eeta
        self._epsilon = epsilon
        self._skip_list = skip_list
        self._use_nesterov = use_nesterov

    def compute_lr(self, grad: Any, var: Any) -> tuple[Any, Any]:
        """Return the learning rate of a variable, and its gradient with weight decay."""
        (rate,) = as_dtype_of(var, self._learning_rate)
        if any(text in var.name for text in self._skip_list or ()):
            return rate, grad
        var_norm, grad_norm = tf.norm(var, ord=2), tf.norm(grad, ord=2)
        ratio = self._eeta * var_norm / (grad_norm + self._weight_decay * var_norm + self._epsilon)
        is_known = tf.logical_and(var_norm > 0, grad_norm > 0)
        trust = tf.where(is_known, ratio, tf.ones_like(ratio))
        return rate * trust, grad + self._weight_decay * var

    def _create_slots(self, var_list: list[Any]) -> None:
        for var in var_list:
            self._zeros_slot(var, "momentum", self._name)

    def _resource_apply_dense(self, grad: Any, var: Any) -> Any:
        rate, grad = self.compute_lr(grad, var)
        # The slot sums steps and not gradients: each has had the rate of its time.
        return tf.raw_ops.ResourceApplyMomentum(grad=rate * grad, **self._fused(var, rate=1.0))

    def _resource_apply_sparse(self, grad: Any, var: Any, indices: Any) -> Any:
        # Rows have no norm of the whole variable: they are changed by plain momentum, whose slot sums gradients.
        arguments = self._fused(var, rate=self._learning_rate)
        return tf.raw_ops.ResourceSparseApplyMomentum(grad=grad, indices=indices, **arguments)

    def _fused(self, var: Any, *, rate: Any) -> dict[str, Any]:
        lr, momentum = as_dtype_of(var, rate, self._momentum)
        return {
            "var": var.handle,
            "accum": self.get_slot(var, "momentum").handle,
            "lr": lr,
            "momentum": momentum,
            "use_nesterov": self._use_nesterov,
        }
