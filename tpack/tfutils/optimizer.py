"""Optimizers around other optimizers: each changes how gradients are applied and leaves the rest to the one inside.

``clone_optimizer`` clones a wrapper together with what it wraps.
"""

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError, GraphBuildError
from tpack.tfutils.gradient_processor import GradientProcessor


class ProxyOptimizer(tf.train.Optimizer):
    """Do whatever another optimizer does.

    Subclasses override ``apply_gradients``.

    Args:
        opt: the optimizer inside.
        name: the name of this one.

    Raises:
        GraphBuildError: ``opt`` is not a ``tf.compat.v1.train.Optimizer``.
    """

    def __init__(self, opt: Any, name: str = "ProxyOptimizer") -> None:
        if not isinstance(opt, tf.train.Optimizer):
            raise GraphBuildError(f"wanted a tf.compat.v1.train.Optimizer to wrap, got {opt!r:.100}")
        super().__init__(use_locking=False, name=name)
        self._opt = opt

    def compute_gradients(self, *args: Any, **kwargs: Any) -> list[tuple[Any, Any]]:
        """Return the (gradient, variable) pairs of the optimizer inside."""
        return list(self._opt.compute_gradients(*args, **kwargs))

    def apply_gradients(self, grads_and_vars: Any, global_step: Any = None, name: str | None = None) -> Any:
        """Return the operation by which the optimizer inside applies gradients."""
        return self._opt.apply_gradients(grads_and_vars, global_step, name)

    def get_slot(self, var: Any, name: str) -> Any:
        """Return a slot of the optimizer inside."""
        return self._opt.get_slot(var, name)

    def get_slot_names(self) -> list[str]:
        """Return the names of the slots of the optimizer inside."""
        return list(self._opt.get_slot_names())

    def variables(self) -> list[Any]:
        """Return the variables of the optimizer inside."""
        return list(self._opt.variables())


class GradientProcessorOptimizer(ProxyOptimizer):
    """Pass gradients through processors before the optimizer inside applies them.

    Args:
        opt: the optimizer inside.
        gradprocs: the processors, in order.

    Raises:
        ConfigError: One of them is not a GradientProcessor.
    """

    def __init__(self, opt: Any, gradprocs: Sequence[GradientProcessor]) -> None:
        super().__init__(opt, "GradientProcessors")
        for gradproc in gradprocs:
            if not isinstance(gradproc, GradientProcessor):
                raise ConfigError(f"wanted a list of GradientProcessor objects, got {gradproc!r:.100}")
        self._gradprocs = list(gradprocs)

    def apply_gradients(self, grads_and_vars: Any, global_step: Any = None, name: str | None = None) -> Any:
        """Return the operation that applies the processed gradients."""
        grads = list(grads_and_vars)
        for gradproc in self._gradprocs:
            grads = gradproc.process(grads)
        return super().apply_gradients(grads, global_step, name)


def apply_grad_processors(opt: Any, gradprocs: Sequence[GradientProcessor]) -> ProxyOptimizer:
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


class PostProcessOptimizer(ProxyOptimizer):
    """Run an operation for each variable after its gradient was applied, for example to keep it in a range.

    Args:
        opt: the optimizer inside.
        func: ``func(variable)`` returns the operation, or None for none.
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
        if not self._colocate:
            return self._func(variable)
        with tf.device(variable.device):
            return self._func(variable)
