"""``tf.contrib.tpu`` on CPUs and GPUs: its Estimator with ``use_tpu=False``, and what such code imports beside it."""

from typing import Any

import tensorflow.compat.v1 as tf

from tpack.tf1.name_table import look_up


class CrossShardOptimizer(tf.train.Optimizer):
    """An optimizer that takes its gradients from all shards of a TPU: without one, the optimizer that is given.

    Args:
        opt: the optimizer.
        reduction: of the gradients; of no effect with a single shard.
        name: of this one.
        group_assignment: of no effect either.

    Raises:
        ValueError: The reduction is neither SUM nor MEAN.
    """

    def __init__(
        self,
        opt: tf.train.Optimizer,
        reduction: str = tf.losses.Reduction.MEAN,
        name: str = "CrossShardOptimizer",
        group_assignment: Any = None,
    ) -> None:
        if reduction not in (tf.losses.Reduction.SUM, tf.losses.Reduction.MEAN):
            raise ValueError(f"CrossShardOptimizer got reduction={reduction!r}: expected SUM or MEAN")
        super().__init__(False, name)
        self._opt = opt

    def compute_gradients(self, loss: tf.Tensor, var_list: Any = None, **kwargs: Any) -> Any:
        """Compute them by the optimizer."""
        return self._opt.compute_gradients(loss, var_list=var_list, **kwargs)

    def apply_gradients(self, grads_and_vars: Any, global_step: Any = None, name: str | None = None) -> tf.Operation:
        """Apply them by the optimizer."""
        return self._opt.apply_gradients(grads_and_vars, global_step, name)

    def get_slot(self, *args: Any, **kwargs: Any) -> Any:
        """Return a slot of the optimizer."""
        return self._opt.get_slot(*args, **kwargs)

    def get_slot_names(self, *args: Any, **kwargs: Any) -> list[str]:
        """Return the names of the optimizer's slots."""
        return self._opt.get_slot_names(*args, **kwargs)

    def variables(self) -> list[tf.Variable]:
        """Return the variables of the optimizer."""
        return self._opt.variables()


__getattr__, __dir__, __all__ = look_up(
    __name__,
    {"tpack.tf1.estimator.tpu": "InputPipelineConfig RunConfig TPUConfig TPUEstimator TPUEstimatorSpec"},
    own=["CrossShardOptimizer"],
)
