"""`Lion`: steps by the sign of an average, with one slot where Adam has two."""

import tensorflow.compat.v1 as tf

from tpack.optimizers.base import LeavesOut
from tpack.optimizers.hyper import HyperValue, LeftOut, Patterns, as_dtype_of, check_hypers
from tpack.utils.validation import check_arguments

__all__ = ["Lion"]


@check_arguments
class Lion(LeavesOut, tf.train.Optimizer):
    """Step by ``learning_rate * (sign(beta1 * m + (1 - beta1) * g) + weight_decay * w)``, m the average of gradients.

    All entries move by the same length, so the rate should be 3 to 10 times smaller than Adam's, and the decay larger
    by the same factor.

    With a sparse gradient the rows without an entry decay and move too, by the whole rate, while their average is not
    zero. To avoid that, train embeddings by another optimizer.

    Args:
        learning_rate: a number, tensor, variable or function, as for `AdamW`.
        weight_decay: multiplied by the learning rate, the share that is subtracted; of the same types.
        beta1: the weight of the average in the step.
        beta2: the share of the average that stays at each step.
        no_decay: regular expressions; variables whose name contains a match do not decay. `BIASES_AND_NORMS` is one.

    Creates:
        For each variable its slot ``VARIABLE/Lion``.

    Raises:
        WrongTypeError: An argument is of another type.
        ConfigError: A number is out of range, or a pattern is invalid.

    Example:
        Lion(learning_rate, weight_decay=0.1, no_decay=BIASES_AND_NORMS)

    Source:
        Chen et al., "Symbolic discovery of optimization algorithms" (2023), algorithm 2.
    """

    def __init__(
        self,
        learning_rate: HyperValue = 0.0001,
        weight_decay: HyperValue = 0.0,
        *,
        beta1: float = 0.9,
        beta2: float = 0.99,
        no_decay: Patterns = (),
    ) -> None:
        check_hypers(self, learning_rate=learning_rate, weight_decay=weight_decay)
        check_hypers(self, high=1, beta1=beta1, beta2=beta2)
        super().__init__(use_locking=False, name="Lion")
        self._lr, self._weight_decay = learning_rate, weight_decay
        self._beta1, self._beta2 = beta1, beta2
        self._left_out = LeftOut(self, "no_decay", no_decay, "weight decay")

    def _create_slots(self, var_list: list[tf.Variable]) -> None:
        for var in var_list:
            self._zeros_slot(var, "m", self._name)

    def _resource_apply_dense(self, grad: tf.Tensor, var: tf.Variable) -> tf.Operation:
        rate, decay, beta1, beta2 = as_dtype_of(var, self._lr, self._weight_decay, self._beta1, self._beta2)
        slot = self.get_slot(var, "m")
        average = slot.read_value()
        step = tf.sign(beta1 * average + (1 - beta1) * grad)
        if not self._left_out.has(var):
            step += decay * var.read_value()
        with tf.control_dependencies([step]):
            update = slot.assign(beta2 * average + (1 - beta2) * grad, read_value=False)
        return tf.group(update, tf.raw_ops.ResourceApplyGradientDescent(var=var.handle, alpha=rate, delta=step))
