"""`Lion`: steps by the sign of an average, which needs one slot where Adam needs two."""

import tensorflow.compat.v1 as tf

from tpack.optimizers.base import LeavesOut
from tpack.optimizers.hyper import HyperValue, LeftOut, Patterns, as_dtype_of, check_hyper, check_hypers
from tpack.utils.validation import check_arguments

__all__ = ["Lion"]


@check_arguments
class Lion(LeavesOut, tf.train.Optimizer):
    """Step by ``learning_rate * (sign(beta1 * m + (1 - beta1) * g) + weight_decay * w)``, m the average of gradients.

    All entries move by the same length, so it wants a rate 3 to 10 times smaller than Adam's, and a decay larger by as
    much.

    With a sparse gradient the rows that it does not have decay and move, too: by the whole rate, as long as their
    average is not zero. Where that is not wanted, train embeddings by another optimizer.

    Args:
        learning_rate: a number; or a tensor, a variable such as one that `HyperParamSetter` sets, or a function that
            returns one.
        weight_decay: times the learning rate, the share that is taken off each variable; as the learning rate.
        beta1: how much the average counts in the step.
        beta2: how much of the average stays at each step.
        no_decay: regular expressions; variables whose name one is found in do not decay. `BIASES_AND_NORMS` is one.

    Creates:
        For each variable its slot ``VARIABLE/Lion``.

    Raises:
        WrongTypeError: An argument is of another type.
        ConfigError: A number is out of range, or a pattern no regular expression.

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
        check_hyper(self, "beta1", beta1, high=1)
        check_hyper(self, "beta2", beta2, high=1)
        super().__init__(use_locking=False, name="Lion")
        self._lr = learning_rate
        self._weight_decay = weight_decay
        self._beta1 = beta1
        self._beta2 = beta2
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
