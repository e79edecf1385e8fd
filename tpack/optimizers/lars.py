"""`LARS`: momentum with a learning rate for each variable, by the ratio of its norm to that of its gradient."""

from typing import Any

import tensorflow.compat.v1 as tf

from tpack.optimizers.base import LeavesOut, norms
from tpack.optimizers.hyper import HyperValue, LeftOut, Patterns, as_dtype_of, check_hyper, check_hypers
from tpack.utils.validation import check_arguments

__all__ = ["LARS"]


@check_arguments
class LARS(LeavesOut, tf.train.Optimizer):
    """Momentum of ``g + weight_decay * w``, at ``trust * |w| / (|g| + weight_decay * |w|)`` times the learning rate.

    It is for convolutional networks and batches of thousands, where one rate for all layers diverges. A variable of
    zeros, or with a gradient of zeros, gets the rate itself. Variables without weight decay get plain momentum by the
    rate itself, some hundred times that of the others.

    With a sparse gradient the rows without an entry decay and move too.

    Args:
        learning_rate: a number, tensor, variable or function, as for `AdamW`.
        weight_decay: multiplied by the variable and added to its gradient; of the same types.
        momentum: the share of a step that stays in the next one; of the same types, at most 1.
        trust: the share of a variable's norm that a step may change.
        use_nesterov: use Nesterov's momentum.
        no_decay: regular expressions; variables whose name contains a match get plain momentum. `BIASES_AND_NORMS` is
            one.

    Creates:
        For each variable its slot ``VARIABLE/LARS``.

    Raises:
        WrongTypeError: An argument is of another type.
        ConfigError: A number is out of range, or a pattern is invalid; on use, a partitioner has split a variable.

    Example:
        LARS(learning_rate, weight_decay=5e-5, no_decay=BIASES_AND_NORMS)

    Source:
        You, Gitman and Ginsburg, "Large batch training of convolutional networks" (2017), algorithm 1.
    """

    def __init__(
        self,
        learning_rate: HyperValue,
        weight_decay: HyperValue = 0.0001,
        *,
        momentum: HyperValue = 0.9,
        trust: HyperValue = 0.001,
        use_nesterov: bool = False,
        no_decay: Patterns = (),
    ) -> None:
        check_hypers(self, learning_rate=learning_rate, weight_decay=weight_decay, trust=trust)
        check_hyper(self, "momentum", momentum, high=1)
        super().__init__(use_locking=False, name="LARS")
        self._lr, self._weight_decay = learning_rate, weight_decay
        self._momentum, self._trust = momentum, trust
        # TensorFlow 1's LARS adds it to the denominator.
        self._epsilon: HyperValue = 0.0
        self._use_nesterov = use_nesterov
        self._left_out = LeftOut(self, "no_decay", no_decay, "weight decay and no rate of their own")

    def _create_slots(self, var_list: list[tf.Variable]) -> None:
        for var in var_list:
            self._zeros_slot(var, "momentum", self._name)

    def compute_lr(self, grad: tf.Tensor, var: tf.Variable) -> tuple[tf.Tensor, tf.Tensor]:
        """Return the learning rate of a variable, and its gradient with weight decay."""
        rate, decay, trust, epsilon = as_dtype_of(var, self._lr, self._weight_decay, self._trust, self._epsilon)
        if self._left_out.has(var):
            return rate, grad
        norm, length = norms(self, var, grad)
        wide_trust, wide_decay, wide_epsilon = (tf.cast(value, norm.dtype) for value in (trust, decay, epsilon))
        ratio = wide_trust * norm / (length + wide_decay * norm + wide_epsilon)
        ratio = tf.where(tf.logical_and(norm > 0, length > 0), ratio, tf.ones_like(ratio))
        return rate * tf.cast(ratio, rate.dtype), grad + decay * var.read_value()

    def _resource_apply_dense(self, grad: tf.Tensor, var: tf.Variable) -> tf.Operation:
        rate, grad = self.compute_lr(grad, var)
        # The slot sums steps and not gradients: each has the rate of its time.
        return tf.raw_ops.ResourceApplyMomentum(grad=rate * grad, **self._fused(var, 1.0))

    def _fused(self, var: tf.Variable, rate: HyperValue) -> dict[str, Any]:
        """Return the arguments of TensorFlow's operations for dense and sparse gradients."""
        lr, momentum = as_dtype_of(var, rate, self._momentum)
        return {
            "var": var.handle,
            "accum": self.get_slot(var, "momentum").handle,
            "lr": lr,
            "momentum": momentum,
            "use_nesterov": self._use_nesterov,
        }
