"""Optimizers that do something to each variable after its gradient was applied, such as keeping it in a range."""

from collections.abc import Callable
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.tfutils.proxy_optimizer import ProxyOptimizer
from tpack.tfutils.tower_scope import whole_variable


class PostProcessOptimizer(ProxyOptimizer):
    """Run an operation for each variable after its gradient was applied.

    Args:
        opt: the optimizer inside.
        func: ``func(variable)`` returns the operation, or None for none. A variable of several devices is given to it
            once for each, as the whole one: what it reads and assigns there is the part of that device.
        colocate: make the operation on the variable's device.
    """

    def __init__(self, opt: Any, func: Callable[[Any], Any], colocate: bool = True) -> None:
        super().__init__(opt, "PostProcess")
        self._func = func
        self._colocate = colocate

    def apply_gradients(self, grads_and_vars: Any, global_step: Any = None, name: str | None = None) -> Any:
        """Return the operation that applies the gradients, then runs the variables' operations."""
        grads = list(grads_and_vars)
        update = super().apply_gradients(grads)
        with tf.control_dependencies([update]):
            posts = [op for _, variable in grads if (op := self._post_process(variable)) is not None]
        if global_step is None:
            return tf.group(update, *posts, name=name)
        with tf.control_dependencies([update, *posts]):
            return global_step.assign_add(1, read_value=False, name=name)

    def _post_process(self, variable: Any) -> Any:
        variable = whole_variable(variable)
        if not self._colocate:
            return self._func(variable)
        with tf.device(variable.device):
            return self._func(variable)


class VariableAssignmentOptimizer(PostProcessOptimizer):
    """Assign each variable a new value after its gradient was applied.

    Args:
        opt: the optimizer inside.
        func: ``func(variable)`` returns the new value as a tensor, or None to leave the variable as it is.

    Example:
        VariableAssignmentOptimizer(tf.train.RMSPropOptimizer(1e-4), lambda var: tf.clip_by_value(var, -0.01, 0.01))
    """

    def __init__(self, opt: Any, func: Callable[[Any], Any]) -> None:
        def assign(variable: Any) -> Any:
            value = func(variable)
            return None if value is None else variable.assign(value, read_value=False)

        super().__init__(opt, assign)
