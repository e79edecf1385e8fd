"""Optimizers around other optimizers, which change how gradients are applied.

They process gradients first, process variables afterwards, or accumulate the gradients of ``niter`` steps for the inner
optimizer, which is behind a gate on other steps. ``clone_optimizer`` clones a wrapper with the inner optimizer.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
import tensorflow.compat.v1 as tf

from tpack.errors import GraphBuildError
from tpack.tfutils.gradproc import GradientProcessor, Grads
from tpack.tfutils.predicated import Gate
from tpack.tfutils.scope_utils import whole_variable
from tpack.tower.grads import Gradient, Pairs, Step
from tpack.types import GradsAndVars
from tpack.utils.validation import check_arguments, check_count

__all__ = [
    "AccumGradOptimizer",
    "GradientProcessorOptimizer",
    "PostProcessOptimizer",
    "ProxyOptimizer",
    "VariableAssignmentOptimizer",
    "apply_grad_processors",
]
_NAME = "AccumGrad"


@check_arguments
class ProxyOptimizer(tf.train.Optimizer):
    """Base of optimizers around another one, to which all calls go; subclasses override ``apply_gradients``.

    Args:
        opt: the inner optimizer.
        name: the name of this one.

    Raises:
        GraphBuildError: ``opt`` is not a ``tf.compat.v1.train.Optimizer``.
    """

    def __init__(self, opt: tf.train.Optimizer, name: str = "ProxyOptimizer") -> None:
        super().__init__(use_locking=False, name=name)
        self._opt = opt

    @property
    def inner(self) -> tf.train.Optimizer:
        """The inner optimizer."""
        return self._opt

    def compute_gradients(self, *args: Any, **kwargs: Any) -> Grads:
        """Return the (gradient, variable) pairs of the inner optimizer."""
        return list(self._opt.compute_gradients(*args, **kwargs))

    def apply_gradients(self, grads_and_vars: Pairs, global_step: Step = None, name: str | None = None) -> tf.Operation:
        """Return the operation of the inner optimizer that applies gradients."""
        return self._opt.apply_gradients(grads_and_vars, global_step, name)

    def get_slot(self, var: tf.Variable, name: str) -> tf.Variable | None:
        """Return a slot of the inner optimizer."""
        return self._opt.get_slot(var, name)

    def get_slot_names(self) -> list[str]:
        """Return the names of the slots of the inner optimizer."""
        return list(self._opt.get_slot_names())

    def variables(self) -> list[tf.Variable]:
        """Return the variables of the inner optimizer."""
        return list(self._opt.variables())


@check_arguments
class GradientProcessorOptimizer(ProxyOptimizer):
    """Pass gradients through processors before the inner optimizer applies them.

    Args:
        opt: the inner optimizer.
        gradprocs: the processors, in order.

    Raises:
        ConfigError: One of them is not a GradientProcessor.
    """

    def __init__(self, opt: tf.train.Optimizer, gradprocs: Sequence[GradientProcessor]) -> None:
        super().__init__(opt, "GradientProcessors")
        self._gradprocs = list(gradprocs)

    def apply_gradients(self, grads_and_vars: Pairs, global_step: Step = None, name: str | None = None) -> tf.Operation:
        """Return the operation that applies the processed gradients."""
        grads = list(grads_and_vars)
        for gradproc in self._gradprocs:
            grads = gradproc.process(grads)
        return super().apply_gradients(grads, global_step, name)


@check_arguments
def apply_grad_processors(opt: tf.train.Optimizer, gradprocs: Sequence[GradientProcessor]) -> ProxyOptimizer:
    """Return an optimizer that passes gradients through processors before ``opt`` applies them.

    Args:
        opt: a ``tf.compat.v1.train.Optimizer``.
        gradprocs: the processors, in order.

    Raises:
        GraphBuildError: ``opt`` is another kind of optimizer.
        ConfigError: There is something else among the processors.

    Example:
        apply_grad_processors(tf.train.AdamOptimizer(1e-3), [GlobalNormClip(5)])
    """
    return GradientProcessorOptimizer(opt, gradprocs)


@check_arguments
class PostProcessOptimizer(ProxyOptimizer):
    """Run an operation for each variable after its gradient was applied.

    Args:
        opt: the inner optimizer.
        func: ``func(variable)`` returns the operation, or None for none. It gets a variable of several devices once for
            each, as the whole one; its reads and assignments there concern the part of that device.
        colocate: make the operation on the variable's device.
    """

    def __init__(
        self, opt: tf.train.Optimizer, func: Callable[[tf.Variable], tf.Operation | None], colocate: bool = True
    ) -> None:
        super().__init__(opt, "PostProcess")
        self._func = func
        self._colocate = colocate

    def apply_gradients(self, grads_and_vars: Pairs, global_step: Step = None, name: str | None = None) -> tf.Operation:
        """Return the operation that applies the gradients, then runs the variables' operations."""
        grads = list(grads_and_vars)
        update = super().apply_gradients(grads)
        with tf.control_dependencies([update]):
            posts = [op for _, variable in grads if (op := self._post_process(variable)) is not None]
        if global_step is None:
            return tf.group(update, *posts, name=name)
        with tf.control_dependencies([update, *posts]):
            return global_step.assign_add(1, read_value=False, name=name)

    def _post_process(self, variable: tf.Variable) -> tf.Operation | None:
        variable = whole_variable(variable)
        if not self._colocate:
            return self._func(variable)
        with tf.device(variable.device):
            return self._func(variable)


@check_arguments
class VariableAssignmentOptimizer(PostProcessOptimizer):
    """Assign each variable a new value after its gradient was applied.

    Args:
        opt: the inner optimizer.
        func: ``func(variable)`` returns the new value as a tensor, or None for no change.

    Example:
        VariableAssignmentOptimizer(tf.train.RMSPropOptimizer(1e-4), lambda var: tf.clip_by_value(var, -0.01, 0.01))
    """

    def __init__(self, opt: tf.train.Optimizer, func: Callable[[tf.Variable], tf.Tensor | None]) -> None:
        def assign(variable: tf.Variable) -> tf.Operation | None:
            value = func(variable)
            return None if value is None else variable.assign(value, read_value=False)

        super().__init__(opt, assign)


class DenseAccumulator:
    """Sums dense gradients in a variable of their shape, zero at first."""

    def __init__(self, total: tf.Variable) -> None:
        self._total = total

    def add(self, gradient: tf.Tensor) -> tf.Operation:
        """Return the operation that adds a gradient."""
        return self._total.assign_add(gradient, read_value=False)

    def mean(self, count: int) -> tf.Tensor:
        """Return the sum divided by a number."""
        return self._total.read_value() / count

    def reset(self) -> tf.Operation:
        """Return the operation that sets the sum to zero."""
        return self._total.assign(tf.zeros_like(self._total), read_value=False)


class SparseAccumulator:
    """Sums IndexedSlices, and gives the sum as IndexedSlices of the rows that were touched.

    Optimizers treat sparse gradients differently from zeros: a momentum that is not touched does not move.

    Args:
        total: a variable of the shape that the slices are of, zero at first.
        touched: a variable of one boolean for each row, False at first.
    """

    def __init__(self, total: tf.Variable, touched: tf.Variable) -> None:
        self._total = total
        self._touched = touched

    def add(self, gradient: tf.IndexedSlices) -> tf.Operation:
        """Return the operation that adds a gradient."""
        marks = tf.IndexedSlices(tf.ones_like(gradient.indices, tf.bool), gradient.indices)
        added = self._total.scatter_add(gradient)
        return tf.group(added, self._touched.scatter_update(marks))

    def mean(self, count: int) -> tf.IndexedSlices:
        """Return the sum of the touched rows, each once, divided by a number."""
        rows = tf.where(self._touched.read_value())[:, 0]
        values = tf.gather(self._total.read_value(), rows) / count
        return tf.IndexedSlices(values, rows, tf.shape(self._total, out_type=tf.int64))

    def reset(self) -> tf.Operation:
        """Return the operation that sets the sum to zero, and no row touched."""
        return tf.group(
            self._total.assign(tf.zeros_like(self._total), read_value=False),
            self._touched.assign(tf.zeros_like(self._touched), read_value=False),
        )


_Accumulator: TypeAlias = DenseAccumulator | SparseAccumulator


@check_arguments
class AccumGradOptimizer(ProxyOptimizer):
    """Apply the mean gradient of ``niter`` steps at every ``niter``-th one.

    With batches of one size, the weights are those of batches ``niter`` times as large, whatever the builder:
    synchronous ones reduce at every step and accumulate the result; in the asynchronous one each tower accumulates its
    own. The global step, schedules and callbacks count small batches. (tensorpack's optimizer of this name applies the
    sum, which also multiplies the learning rate by ``niter``.)

    Inner gradient processors get the mean, once in ``niter`` steps; on the other steps their summaries are empty. Outer
    ones get every small batch. The sums are saved in checkpoints, so that an interrupted run resumes in the middle.

    Args:
        opt: the inner optimizer.
        niter: the number of steps; 1 accumulates nothing.

    Raises:
        GraphBuildError: ``opt`` is not a ``tf.compat.v1.train.Optimizer``; on use, there is no gradient.
        ConfigError: ``niter`` is not an integer of at least 1.

    Example:
        AccumGradOptimizer(tf.train.AdamOptimizer(1e-3), 4)
    """

    def __init__(self, opt: tf.train.Optimizer, niter: int) -> None:
        super().__init__(opt, _NAME)
        self._niter = check_count(self, "niter", niter)

    def apply_gradients(self, grads_and_vars: Pairs, global_step: Step = None, name: str | None = None) -> tf.Operation:
        """Return the operation that accumulates gradients and, on every ``niter``-th step, applies their mean.

        Creates:
            Beside each variable one of its shape, ``VARIABLE/AccumGrad``, and for sparse gradients
            ``VARIABLE/AccumGrad_touched``, a boolean for each row; and ``AccumGrad_counter``, an integer. A second
            call, of another tower that trains the same variables, makes a second set.

        Raises:
            GraphBuildError: There is no gradient.
        """
        pairs = [(gradient, variable) for gradient, variable in grads_and_vars if gradient is not None]
        if not pairs:
            raise GraphBuildError("AccumGradOptimizer got no gradients: expected one for at least one variable")
        if self._niter == 1:
            return super().apply_gradients(pairs, global_step, name)
        suffix = self._suffix_of_call()
        # Free of control dependencies, which an optimizer around this one may have put on what it applies.
        with tf.init_scope():
            counter = self._create_non_slot_variable(np.int64(0), f"{_NAME}_counter{suffix}", pairs[0][1])
            accumulators = [self._make_accumulator(gradient, variable, suffix) for gradient, variable in pairs]
        with tf.name_scope(_NAME):
            gate = self._accumulate(pairs, accumulators, counter)
        with gate.behind():
            applied = self._apply(pairs, accumulators, counter)
        with tf.name_scope(_NAME):
            done = gate.wait_for([applied])
        with tf.control_dependencies([done]):
            if global_step is None:
                return tf.no_op(name or _NAME)
            return global_step.assign_add(1, read_value=False, name=name)

    def _accumulate(self, pairs: GradsAndVars, accumulators: Sequence[_Accumulator], counter: tf.Variable) -> Gate:
        """Add the gradients; return the gate that is open if they are to be applied now."""
        additions = []
        for (gradient, variable), accumulator in zip(pairs, accumulators, strict=True):
            with tf.device(variable.device):
                additions.append(accumulator.add(gradient))
        with tf.control_dependencies(additions), tf.device(counter.device):
            is_last = tf.greater_equal(tf.identity(counter.assign_add(1)), self._niter)
        return Gate(is_last)

    def _apply(self, pairs: GradsAndVars, accumulators: Sequence[_Accumulator], counter: tf.Variable) -> tf.Operation:
        """Apply the mean gradients and begin the next sum."""
        means = []
        with tf.name_scope(_NAME):
            for (_, variable), accumulator in zip(pairs, accumulators, strict=True):
                with tf.device(variable.device):
                    means.append((accumulator.mean(self._niter), variable))
        # Outside of a name scope of ours, so that the variables of the optimizer inside are called as without us.
        update = self._opt.apply_gradients(means)
        with tf.name_scope(_NAME), tf.control_dependencies([update]):
            with tf.device(counter.device):
                resets = [counter.assign(tf.zeros_like(counter), read_value=False)]
            for (_, variable), accumulator in zip(pairs, accumulators, strict=True):
                with tf.device(variable.device):
                    resets.append(accumulator.reset())
            return tf.group(*resets)

    def _make_accumulator(self, gradient: Gradient, variable: tf.Variable, suffix: str) -> _Accumulator:
        total = self._zeros_slot(variable, f"total{suffix}", f"{_NAME}{suffix}")
        if not isinstance(gradient, tf.IndexedSlices):
            return DenseAccumulator(total)
        slot, name = f"touched{suffix}", f"{_NAME}_touched{suffix}"
        zeros, shape = tf.zeros_initializer(), variable.shape[:1]
        touched = self._get_or_make_slot_with_initializer(variable, zeros, shape, tf.bool, slot, name)
        return SparseAccumulator(total, touched)

    def _suffix_of_call(self) -> str:
        """Return the suffix of names in this call; empty in the first one of the graph."""
        graph, suffix, number = tf.get_default_graph(), "", 0
        while self._get_non_slot_variable(f"{_NAME}_counter{suffix}", graph) is not None:
            number += 1
            suffix = f"_{number}"
        return suffix

    def variables(self) -> list[tf.Variable]:
        """Return the variables of the inner optimizer and the accumulators."""
        return [*super().variables(), *tf.train.Optimizer.variables(self)]
