"""``tf.contrib.tpu`` on CPUs and GPUs: its Estimator with ``use_tpu=False``, and the other names of such code."""

from typing import Any

import tensorflow.compat.v1 as tf

from tpack.tf1.name_table import look_up
from tpack.tfutils.optimizer import ProxyOptimizer


class CrossShardOptimizer(ProxyOptimizer):
    """An optimizer of the gradients of all shards of a TPU; here, the given optimizer.

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
        super().__init__(opt, name)


__getattr__, __dir__, __all__ = look_up(
    __name__,
    {"tpack.tf1.estimator.tpu": "InputPipelineConfig RunConfig TPUConfig TPUEstimator TPUEstimatorSpec"},
    own=["CrossShardOptimizer"],
)
