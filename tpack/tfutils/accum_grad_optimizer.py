"""Several small batches in place of one that does not fit into memory.

A step adds its gradients up; every ``niter``-th one hands their mean to the optimizer inside, which is behind a gate on
the other steps.
"""

from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError, GraphBuildError
from tpack.tfutils.accumulator import DenseAccumulator, SparseAccumulator
from tpack.tfutils.gate import Gate
from tpack.tfutils.proxy_optimizer import ProxyOptimizer

_NAME = "AccumGrad"


class AccumGradOptimizer(ProxyOptimizer):
    """Apply the mean gradient of ``niter`` steps at every ``niter``-th one.

    With batches of one size, the weights are those of batches ``niter`` times as large, whatever the builder:
    synchronous ones reduce at every step and sum up what was reduced; in the asynchronous one each tower sums up its
    own. A step is still a step to the trainer: the global step, schedules and callbacks count small batches.
    (tensorpack's optimizer of this name applies the sum, which also multiplies the learning rate by ``niter``.)

    Processors of gradients that are inside see the mean, once in ``niter`` steps; on the other steps their summaries
    are empty. Processors around it see every small batch. What is summed up is saved in checkpoints, so that a run that
    was interrupted goes on in the middle.

    Args:
        opt: the optimizer inside.
        niter: how many steps; 1 means that there is nothing to sum up.

    Raises:
        GraphBuildError: ``opt`` is not a ``tf.compat.v1.train.Optimizer``; on use, there is no gradient.
        ConfigError: ``niter`` is not an integer of at least 1.

    Example:
        AccumGradOptimizer(tf.train.AdamOptimizer(1e-3), 4)
    """

    def __init__(self, opt: Any, niter: int) -> None:
        super().__init__(opt, _NAME)
        if not isinstance(niter, int) or isinstance(niter, bool) or niter < 1:
            raise ConfigError(f"wanted a number of steps of at least 1 to sum gradients over, got niter={niter!r}")
        self._niter = niter

    def apply_gradients(self, grads_and_vars: Any, global_step: Any = None, name: str | None = None) -> Any:
        """Return the operation that adds gradients up and, if it is time, applies their mean.

        Creates:
            For each variable, beside it, one of its shape and ``VARIABLE/AccumGrad`` as its name; for each one with a
            sparse gradient also ``VARIABLE/AccumGrad_touched``, a boolean for each row; and ``AccumGrad_counter``, an
            integer. A second call, of another tower that trains the same variables, makes a second set.

        Raises:
            GraphBuildError: There is no gradient.
        """
        pairs = [(gradient, variable) for gradient, variable in grads_and_vars if gradient is not None]
        if not pairs:
            raise GraphBuildError("AccumGradOptimizer got no gradients: wanted one for at least one variable")
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

    def _accumulate(self, pairs: Any, accumulators: Any, counter: Any) -> Gate:
        """Add the gradients; return the gate that is open if they are to be applied now."""
        additions = []
        for (gradient, variable), accumulator in zip(pairs, accumulators, strict=True):
            with tf.device(variable.device):
                additions.append(accumulator.add(gradient))
        with tf.control_dependencies(additions), tf.device(counter.device):
            is_last = tf.greater_equal(tf.identity(counter.assign_add(1)), self._niter)
        return Gate(is_last)

    def _apply(self, pairs: Any, accumulators: Any, counter: Any) -> Any:
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

    def _make_accumulator(self, gradient: Any, variable: Any, suffix: str) -> Any:
        total = self._zeros_slot(variable, f"total{suffix}", f"{_NAME}{suffix}")
        if not isinstance(gradient, tf.IndexedSlices):
            return DenseAccumulator(total)
        touched = self._get_or_make_slot_with_initializer(
            variable,
            tf.zeros_initializer(),
            variable.shape[:1],
            tf.bool,
            f"touched{suffix}",
            f"{_NAME}_touched{suffix}",
        )
        return SparseAccumulator(total, touched)

    def _suffix_of_call(self) -> str:
        """Return what to append to names in this call; nothing in the first one of the graph."""
        graph, number = tf.get_default_graph(), 0
        while self._get_non_slot_variable(f"{_NAME}_counter{_suffix(number)}", graph) is not None:
            number += 1
        return _suffix(number)

    def variables(self) -> list[Any]:
        """Return the variables of the optimizer inside, and those that this one sums up in."""
        return [*super().variables(), *tf.train.Optimizer.variables(self)]


def _suffix(number: int) -> str:
    return f"_{number}" if number else ""
