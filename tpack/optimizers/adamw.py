"""`AdamW`: Adam with weight decay that is not part of the gradient, and so not divided by the gradient's size."""

import tensorflow.compat.v1 as tf

from tpack.optimizers.base import LeavesOut, refuse_coarse, shrink
from tpack.optimizers.hyper import HyperValue, LeftOut, Patterns, check_hypers
from tpack.utils.validation import check_arguments

__all__ = ["AdamW"]


@check_arguments
class AdamW(LeavesOut, tf.train.AdamOptimizer):
    """Subtract ``learning_rate * weight_decay`` times each variable from it, then make the step of Adam.

    The step is that of ``tf.train.AdamOptimizer``; with ``weight_decay=0`` the two are equal. Both add epsilon to the
    root of the second average before its bias correction, as do Keras, and Kingma and Ba at the end of their section 2;
    PyTorch adds it afterwards.

    With a sparse gradient the rows without an entry decay and move too.

    Args:
        learning_rate: a number; or a tensor, a variable such as one that `HyperParamSetter` sets, or a function that
            returns one.
        weight_decay: multiplied by the learning rate, the share that is subtracted; of the same types.
        beta1: the share of the average of gradients that stays at each step.
        beta2: the share of the average of their squares that stays.
        epsilon: added to the root of the latter.
        no_decay: regular expressions; variables whose name contains a match do not decay. `BIASES_AND_NORMS` is one.

    Creates:
        For each variable its slots ``VARIABLE/AdamW`` and ``VARIABLE/AdamW_1``; ``beta1_power`` and ``beta2_power``.

    Raises:
        WrongTypeError: An argument is of another type.
        ConfigError: A number is out of range, or a pattern is invalid; on use, a beta is 1 in the dtype of a variable.

    Example:
        AdamW(learning_rate, weight_decay=0.05, no_decay=BIASES_AND_NORMS)

    Source:
        Loshchilov and Hutter, "Decoupled weight decay regularization" (2019), algorithm 2.
    """

    def __init__(
        self,
        learning_rate: HyperValue = 0.001,
        weight_decay: HyperValue = 0.01,
        *,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-8,
        no_decay: Patterns = (),
    ) -> None:
        check_hypers(self, learning_rate=learning_rate, weight_decay=weight_decay, epsilon=epsilon)
        check_hypers(self, high=1, beta1=beta1, beta2=beta2)
        super().__init__(learning_rate, beta1, beta2, epsilon, name="AdamW")
        self._weight_decay = weight_decay
        self._left_out = LeftOut(self, "no_decay", no_decay, "weight decay")

    def _resource_apply_dense(self, grad: tf.Tensor, var: tf.Variable) -> tf.Operation:
        refuse_coarse(self, var, beta1=self._beta1, beta2=self._beta2)
        has_decay = not self._left_out.has(var)
        with tf.control_dependencies(shrink(var, grad, self._weight_decay, self._lr_t) if has_decay else []):
            return super()._resource_apply_dense(grad, var)
