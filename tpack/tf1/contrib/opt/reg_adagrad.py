"""`RegAdagradOptimizer`: Adagrad that can make a step without counting its gradient, as a regulariser wants it."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.optimizers.base import ResourceOptimizer
from tpack.optimizers.hyper import as_dtype_of

__all__ = ["RegAdagradOptimizer"]


class RegAdagradOptimizer(ResourceOptimizer, tf.train.AdagradOptimizer):
    """Adagrad whose accumulators can be left alone for a step.

    Example:
        train_op = optimizer.minimize(loss)
        with optimizer.avoid_updating_slots():
            penalty_op = optimizer.minimize(penalty)
    """

    def __init__(
        self,
        learning_rate: Any,
        initial_accumulator_value: float = 0.1,
        use_locking: bool = False,
        name: str = "RegAdagrad",
    ) -> None:
        super().__init__(learning_rate, initial_accumulator_value, use_locking, name)
        self._should_update_slots = True

    @contextmanager
    def avoid_updating_slots(self) -> Iterator[None]:
        """Leave the accumulators alone in steps that are built in the block."""
        before, self._should_update_slots = self._should_update_slots, False
        try:
            yield
        finally:
            self._should_update_slots = before

    def _resource_apply_dense(self, grad: Any, var: Any) -> Any:
        return tf.raw_ops.ResourceApplyAdagrad(grad=grad, **self._fused(var))

    def _resource_apply_sparse(self, grad: Any, var: Any, indices: Any) -> Any:
        return tf.raw_ops.ResourceSparseApplyAdagrad(grad=grad, indices=indices, **self._fused(var))

    def _fused(self, var: Any) -> dict[str, Any]:
        return {
            "var": var.handle,
            "accum": self.get_slot(var, "accumulator").handle,
            "lr": as_dtype_of(var, self._learning_rate_tensor)[0],
            "use_locking": self._use_locking,
            "update_slots": self._should_update_slots,
        }
