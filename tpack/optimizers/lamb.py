"""`LAMB`: Adam's direction, with a step in proportion to the norm of each variable."""

import tensorflow.compat.v1 as tf

from tpack.optimizers.base import LeavesOut, norms, refuse_coarse
from tpack.optimizers.hyper import HyperValue, LeftOut, Patterns, as_dtype_of, check_hypers
from tpack.utils.validation import check_arguments

__all__ = ["LAMB"]


@check_arguments
class LAMB(LeavesOut, tf.train.AdamOptimizer):
    """Step by ``learning_rate * |w| / |u| * u``, where u is the sum of Adam's direction and ``weight_decay * w``.

    It is for batches of thousands to tens of thousands, where Adam diverges at the rate that they need. A variable of
    zeros, or with a step of zeros, moves by ``learning_rate * u``.

    With a sparse gradient the rows without an entry decay and move too.

    Args:
        learning_rate: a number, tensor, variable or function, as for `AdamW`.
        weight_decay: multiplied by the variable and added to its direction; of the same types.
        beta1: the share of the average of gradients that stays at each step.
        beta2: the share of the average of their squares that stays.
        epsilon: added to the root of the latter after its bias correction.
        no_decay: regular expressions; variables whose name contains a match do not decay, and move by ``learning_rate``
            times Adam's direction. `BIASES_AND_NORMS` is one.

    Creates:
        For each variable its slots ``VARIABLE/LAMB`` and ``VARIABLE/LAMB_1``; ``beta1_power`` and ``beta2_power``.

    Raises:
        WrongTypeError: An argument is of another type.
        ConfigError: A number is out of range, or a pattern is invalid; on use, a partitioner has split a variable, or a
            beta is 1 in its dtype.

    Example:
        LAMB(learning_rate, no_decay=BIASES_AND_NORMS)

    Source:
        You et al., "Large batch optimization for deep learning: training BERT in 76 minutes" (2020), algorithm 2.
    """

    def __init__(
        self,
        learning_rate: HyperValue = 0.001,
        weight_decay: HyperValue = 0.01,
        *,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-6,
        no_decay: Patterns = (),
    ) -> None:
        check_hypers(self, learning_rate=learning_rate, weight_decay=weight_decay, epsilon=epsilon)
        check_hypers(self, high=1, beta1=beta1, beta2=beta2)
        super().__init__(learning_rate, beta1, beta2, epsilon, name="LAMB")
        self._weight_decay = weight_decay
        self._left_out = LeftOut(self, "no_decay", no_decay, "weight decay and no step of their own length")

    def _resource_apply_dense(self, grad: tf.Tensor, var: tf.Variable) -> tf.Operation:
        refuse_coarse(self, var, beta1=self._beta1, beta2=self._beta2)
        rate, decay = as_dtype_of(var, self._lr_t, self._weight_decay)
        direction = self._direction(grad, var)
        if not self._left_out.has(var):
            direction += decay * var.read_value()
            norm, length = norms(self, var, direction)
            ratio = tf.where(tf.logical_and(norm > 0, length > 0), norm / length, tf.ones_like(norm))
            rate *= tf.cast(ratio, rate.dtype)
        return tf.raw_ops.ResourceApplyGradientDescent(var=var.handle, alpha=rate, delta=direction)

    def _direction(self, grad: tf.Tensor, var: tf.Variable) -> tf.Tensor:
        """Update the averages; return the first divided by the root of the second, both with bias correction."""
        powers = self._get_beta_accumulators()
        beta1, beta2, epsilon, *powers = as_dtype_of(var, self._beta1_t, self._beta2_t, self._epsilon_t, *powers)
        m, v = self.get_slot(var, "m"), self.get_slot(var, "v")
        first = beta1 * m.read_value() + (1 - beta1) * grad
        second = beta2 * v.read_value() + (1 - beta2) * tf.square(grad)
        with tf.control_dependencies([m.assign(first, read_value=False), v.assign(second, read_value=False)]):
            return first / (1 - powers[0]) / (tf.sqrt(second / (1 - powers[1])) + epsilon)
