"""`AdamW`, `Lion`, `LAMB` and `LARS`: optimizers with weight decay that `no_decay` exempts variables from.

The decay of `AdamW` and `Lion` is not part of the gradient, so nothing divides it by the gradient's size; `LAMB` and
`LARS` step in proportion to the norm of each variable.
"""

from typing import Any

import tensorflow.compat.v1 as tf

from tpack.optimizers.base import LeavesOut, norms, refuse_coarse, shrink
from tpack.optimizers.hyper import HyperValue, LeftOut, Patterns, as_dtype_of, check_hyper, check_hypers
from tpack.utils.validation import check_arguments

__all__ = ["AdamW", "LAMB", "LARS", "Lion"]


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
        epsilon: float = 1e-6,
        beta1: float = 0.9,
        beta2: float = 0.999,
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
