"""`LARSOptimizer`: `tpack.optimizers.lars.LARS` by TensorFlow 1's arguments, and with its way with sparse gradients."""

import re
from collections.abc import Sequence
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.optimizers.lars import LARS

__all__ = ["LARSOptimizer"]


class LARSOptimizer(LARS):
    """Momentum whose learning rate is ``eeta * |w| / (|g| + weight_decay * |w| + epsilon)`` times the one given.

    It is for batches of thousands, where one rate for all layers diverges. A sparse gradient gets plain momentum.

    Args:
        weight_decay: times the variable, is added to its gradient.
        eeta: how much of a variable's norm a step may change.
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
        super().__init__(
            learning_rate,
            weight_decay,
            momentum=momentum,
            trust=eeta,
            use_nesterov=use_nesterov,
            no_decay=[re.escape(text) for text in skip_list or ()],
        )
        self._name = name
        self._epsilon = epsilon

    def _resource_apply_sparse(self, grad: Any, var: Any, indices: Any) -> Any:
        # Rows have no norm of the whole variable: they are changed by plain momentum, whose slot sums gradients.
        arguments = self._fused(var, self._lr)
        return tf.raw_ops.ResourceSparseApplyMomentum(grad=grad, indices=indices, **arguments)
