"""An optimizer around another one: the base of those that change how gradients are applied.

``clone_optimizer`` clones a wrapper together with what it wraps.
"""

from typing import Any

import tensorflow.compat.v1 as tf

from tpack.errors import GraphBuildError


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
