"""`Muon` and `Adafactor`: optimizers whose step or state follows from the rows and columns of a matrix.

Both treat a kernel of more than two dimensions as the matrix of its last one and all others together (`Muon`), or as a
stack of matrices of its last two (`Adafactor`).
"""

from collections.abc import Sequence
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.optimizers.base import LeavesOut, refuse_coarse, shrink
from tpack.optimizers.hyper import HyperValue, LeftOut, Patterns, as_dtype_of, check_hyper, check_hypers, refuse_part
from tpack.utils.validation import check_arguments, check_count

__all__ = ["Adafactor", "Muon"]

_COEFFICIENTS = (3.4445, -4.7750, 2.0315)
"""Of the polynomial that brings singular values near to 1."""


@check_arguments
class Muon(LeavesOut, tf.train.AdamOptimizer):
    """Step by the momentum of a matrix with all its singular values brought near to 1; other variables by AdamW.

    Matrices are variables of two dimensions, and kernels of convolutions, whose other dimensions count as one. Vectors,
    and those of ``by_adam``, which should be embeddings and the output layer, make the steps of `AdamW`. Both steps
    have about the same size, by ``rms``, so that one learning rate and decay, those of AdamW, fit all.

    With a sparse gradient the rows without an entry decay and move too.

    Args:
        learning_rate: a number, tensor, variable or function, as for `AdamW`.
        weight_decay: multiplied by the learning rate, the share that is subtracted; of the same types.
        momentum: the share of the sum of gradients that stays at each step.
        use_nesterov: use Nesterov's momentum.
        num_iterations: of the polynomial, in float32 at least.
        rms: the root mean square of a step over the learning rate; None takes the matrix as it is, for rates as 0.02.
        by_adam: regular expressions; variables whose name contains a match make the steps of AdamW.
        beta1: as for `AdamW`, of which this and the next two are.
        beta2: likewise.
        epsilon: likewise.
        no_decay: regular expressions; variables whose name contains a match do not decay.

    Creates:
        For each variable its slot ``VARIABLE/Muon``, and for those by AdamW ``VARIABLE/Muon_1``, ``beta1_power`` and
        ``beta2_power``.

    Raises:
        WrongTypeError: An argument is of another type.
        ConfigError: A number is out of range, or a pattern is invalid; on use, a partitioner has split a matrix, or a
            beta is 1 in the dtype of a variable.

    Example:
        Muon(learning_rate, weight_decay=0.1, by_adam=["embed", "^output/"], no_decay=BIASES_AND_NORMS)

    Source:
        Jordan et al., Muon: An optimizer for hidden layers in neural networks, 2024; the size of the step: Liu et al.,
        "Muon is scalable for LLM training", 2025.
    """

    def __init__(
        self,
        learning_rate: HyperValue = 0.001,
        weight_decay: HyperValue = 0.01,
        *,
        momentum: float = 0.95,
        use_nesterov: bool = True,
        num_iterations: int = 5,
        rms: float | None = 0.2,
        by_adam: Patterns = r"(?i)embed",
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-8,
        no_decay: Patterns = (),
    ) -> None:
        check_hypers(self, learning_rate=learning_rate, weight_decay=weight_decay, epsilon=epsilon)
        check_hypers(self, high=1, momentum=momentum, beta1=beta1, beta2=beta2)
        if rms is not None:
            check_hyper(self, "rms", rms)
        super().__init__(learning_rate, beta1, beta2, epsilon, name="Muon")
        self._num_iterations = check_count(self, "num_iterations", num_iterations)
        self._weight_decay, self._momentum, self._use_nesterov, self._rms = weight_decay, momentum, use_nesterov, rms
        self._left_out = LeftOut(self, "no_decay", no_decay, "weight decay")
        self._by_adam = LeftOut(self, "by_adam", by_adam, "step of a matrix")

    def _is_matrix(self, var: tf.Variable) -> bool:
        shape = var.shape.as_list()
        return len(shape) > 1 and shape[-1] > 1 and var.shape.num_elements() > shape[-1] and not self._by_adam.has(var)

    def _create_slots(self, var_list: Sequence[tf.Variable]) -> None:
        for var in filter(self._is_matrix, var_list):
            self._zeros_slot(var, "m", self._name)
        others = [var for var in var_list if not self._is_matrix(var)]
        if others:
            super()._create_slots(others)

    def _resource_apply_dense(self, grad: tf.Tensor, var: tf.Variable) -> tf.Operation:
        has_decay = not self._left_out.has(var)
        with tf.control_dependencies(shrink(var, grad, self._weight_decay, self._lr_t) if has_decay else []):
            if self._is_matrix(var):
                return self._step_of_matrix(grad, var)
            refuse_coarse(self, var, beta1=self._beta1, beta2=self._beta2)
            return super()._resource_apply_dense(grad, var)

    def _step_of_matrix(self, grad: tf.Tensor, var: tf.Variable) -> tf.Operation:
        refuse_part(self, var)
        rate, momentum = as_dtype_of(var, self._lr_t, self._momentum)
        slot = self.get_slot(var, "m")
        total = momentum * slot.read_value() + grad
        direction = self._orthogonal(grad + momentum * total if self._use_nesterov else total)
        with tf.control_dependencies([slot.assign(total, read_value=False)]):
            return tf.raw_ops.ResourceApplyGradientDescent(
                var=var.handle, alpha=rate, delta=tf.cast(direction, rate.dtype)
            )

    def _orthogonal(self, values: tf.Tensor) -> tf.Tensor:
        """Return a matrix of the same singular vectors, with singular values near to 1, times the size of the step."""
        shape, columns = values.shape.as_list(), values.shape.as_list()[-1]
        rows = values.shape.num_elements() // columns
        matrix = tf.reshape(_wide(values), [rows, columns])
        matrix = tf.transpose(matrix) if rows > columns else matrix
        matrix /= tf.norm(matrix) + 1e-7
        first, third, fifth = _COEFFICIENTS
        for _ in range(self._num_iterations):
            square = tf.matmul(matrix, matrix, transpose_b=True)
            matrix = first * matrix + tf.matmul(third * square + fifth * tf.matmul(square, square), matrix)
        matrix = tf.transpose(matrix) if rows > columns else matrix
        size = 1.0 if self._rms is None else self._rms * max(rows, columns) ** 0.5
        return tf.reshape(size * matrix, shape)

    def _finish(self, update_ops: Any, name_scope: Any) -> Any:
        if self._get_beta_accumulators()[0] is None:
            return tf.group(*update_ops, name=name_scope)
        return super()._finish(update_ops, name_scope)


@check_arguments
class Adafactor(LeavesOut, tf.train.Optimizer):
    """Step by the gradient over the root of a second moment that is kept as its means over rows and over columns.

    The state of a matrix of n rows and m columns has n + m numbers, where Adam's has 2 n m; that of a vector has its
    size. There is no momentum. The root of the mean square of a step is limited to ``clip_threshold``, and a step is in
    proportion to its variable.

    With a sparse gradient the rows without an entry count as zeros.

    Args:
        learning_rate: a number, tensor, variable or function, as for `AdamW`: the largest change of a variable in
            proportion to its size.
        weight_decay: multiplied by the learning rate, the share that is subtracted; of the same types.
        relative_step: use at most ``1 / sqrt(step)`` as learning rate.
        beta2_decay: the share of the second moment that is new in step t is ``t ** beta2_decay``.
        epsilon1: added to the squares of gradients.
        epsilon2: the least size of a variable that counts.
        clip_threshold: the limit of a step.
        no_decay: regular expressions; variables whose name contains a match do not decay.

    Creates:
        For each variable of two dimensions and more its slots ``VARIABLE/Adafactor`` and ``VARIABLE/Adafactor_1``, for
        others the first; ``Adafactor_step``, an integer.

    Raises:
        WrongTypeError: An argument is of another type.
        ConfigError: A number is out of range, or a pattern is invalid; on use, a partitioner has split a variable.

    Example:
        Adafactor(0.01, no_decay=BIASES_AND_NORMS)

    Source:
        Shazeer and Stern, "Adafactor: Adaptive learning rates with sublinear memory cost", 2018, algorithms 4 and 5.
    """

    def __init__(
        self,
        learning_rate: HyperValue = 0.001,
        weight_decay: HyperValue = 0.0,
        *,
        relative_step: bool = True,
        beta2_decay: float = -0.8,
        epsilon1: float = 1e-30,
        epsilon2: float = 1e-3,
        clip_threshold: float = 1.0,
        no_decay: Patterns = (),
    ) -> None:
        check_hypers(self, learning_rate=learning_rate, weight_decay=weight_decay)
        check_hypers(self, epsilon1=epsilon1, epsilon2=epsilon2, clip_threshold=clip_threshold)
        check_hyper(self, "beta2_decay", beta2_decay, -1, 0)
        super().__init__(use_locking=False, name="Adafactor")
        self._lr, self._weight_decay, self._relative_step = learning_rate, weight_decay, relative_step
        self._beta2_decay, self._clip_threshold = beta2_decay, clip_threshold
        self._epsilon1, self._epsilon2 = epsilon1, epsilon2
        self._left_out = LeftOut(self, "no_decay", no_decay, "weight decay")
        self._step: tf.Tensor

    def _create_slots(self, var_list: Sequence[tf.Variable]) -> None:
        first = min(var_list, key=lambda var: str(var.name))
        self._create_non_slot_variable(tf.zeros([], tf.int64), "Adafactor_step", first)
        for var in var_list:
            shape = var.shape
            parts = [shape] if shape.rank < 2 else [shape[:-1], shape[:-2].concatenate(shape[-1:])]
            # Squares of small numbers are zero in half precision.
            dtype = tf.float32 if var.dtype.size < tf.float32.size else var.dtype.base_dtype
            for name, part in zip("rc", parts, strict=False):
                self._get_or_make_slot_with_initializer(var, tf.zeros_initializer(), part, dtype, name, self._name)

    def _counter(self) -> tf.Variable:
        return self._get_non_slot_variable("Adafactor_step", tf.get_default_graph())

    def _prepare(self) -> None:
        self._step = self._counter().read_value() + 1

    def _resource_apply_dense(self, grad: tf.Tensor, var: tf.Variable) -> tf.Operation:
        refuse_part(self, var)
        has_decay = not self._left_out.has(var)
        with tf.control_dependencies(shrink(var, grad, self._weight_decay, self._lr) if has_decay else []):
            return self._step_of(_wide(grad), var)

    def _step_of(self, wide: tf.Tensor, var: tf.Variable) -> tf.Operation:
        values = _wide(var.read_value())
        step = tf.cast(self._step, wide.dtype)
        rate = tf.cast(as_dtype_of(var, self._lr)[0], wide.dtype)
        rate = tf.minimum(rate, tf.rsqrt(step)) if self._relative_step else rate
        moment, updates = self._second_moment(tf.square(wide) + self._epsilon1, var, tf.pow(step, self._beta2_decay))
        change = wide * tf.rsqrt(moment)
        change /= tf.maximum(_rms(change) / self._clip_threshold, 1.0)
        change *= rate * tf.maximum(_rms(values), self._epsilon2)
        one = tf.ones([], var.dtype.base_dtype)
        delta = tf.cast(change, one.dtype)
        return tf.group(*updates, tf.raw_ops.ResourceApplyGradientDescent(var=var.handle, alpha=one, delta=delta))

    def _second_moment(
        self, squares: tf.Tensor, var: tf.Variable, share: tf.Tensor
    ) -> tuple[tf.Tensor, list[tf.Operation]]:
        """Return the second moment after a share of the new squares, and the updates of its state."""
        rows, columns = self.get_slot(var, "r"), self.get_slot(var, "c")
        if columns is None:
            moment = (1 - share) * rows.read_value() + share * squares
            return moment, [rows.assign(moment, read_value=False)]
        of_rows = (1 - share) * rows.read_value() + share * tf.reduce_mean(squares, -1)
        of_columns = (1 - share) * columns.read_value() + share * tf.reduce_mean(squares, -2)
        scaled = of_rows / tf.reduce_mean(of_rows, -1, keepdims=True)
        moment = tf.expand_dims(scaled, -1) * tf.expand_dims(of_columns, -2)
        return moment, [rows.assign(of_rows, read_value=False), columns.assign(of_columns, read_value=False)]

    def _finish(self, update_ops: Any, name_scope: Any) -> Any:
        with tf.control_dependencies([*update_ops, self._step]):
            return tf.group(self._counter().assign_add(1, read_value=False), name=name_scope)


def _wide(values: tf.Tensor) -> tf.Tensor:
    return tf.cast(values, tf.float32) if values.dtype.size < tf.float32.size else values


def _rms(values: tf.Tensor) -> tf.Tensor:
    return tf.sqrt(tf.reduce_mean(tf.square(values)))
