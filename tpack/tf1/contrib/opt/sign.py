"""Optimizers that look at signs: a step is larger where a gradient points as the average of those before.

Source:
    Bello, Zoph, Vasudevan and Le, "Neural optimizer search with reinforcement learning" (2017).
"""

import math
from collections.abc import Callable
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError
from tpack.optimizers.base import ResourceOptimizer
from tpack.optimizers.hyper import as_dtype_of
from tpack.tf1.signatures import like, parameter

__all__ = ["AddSignOptimizer", "PowerSignOptimizer"]


class _SignOptimizer(ResourceOptimizer, tf.train.Optimizer):
    """Base of both: the average ``m`` of the gradients, and the weight of its sign, which may decay."""

    def __init__(
        self,
        learning_rate: Any = 0.1,
        beta: Any = 0.9,
        sign_decay_fn: Callable[[Any], Any] | None = None,
        use_locking: bool = False,
        name: str = "Sign",
    ) -> None:
        super().__init__(use_locking, name)
        self._lr = learning_rate
        self._beta = beta
        self._sign_decay_fn = sign_decay_fn
        self._sign_decay: Any = 1.0

    def apply_gradients(self, grads_and_vars: Any, global_step: Any = None, name: str | None = None) -> Any:
        """Apply gradients; raise ConfigError if the sign's weight decays and there is no global step anywhere."""
        if self._sign_decay_fn is not None:
            # A trainer counts its steps itself.
            step = tf.train.get_global_step() if global_step is None else global_step
            if step is None:
                raise ConfigError(f"{type(self).__name__} got a sign_decay_fn: expected a global_step to decay by")
            self._sign_decay = self._sign_decay_fn(tf.identity(step))
        return super().apply_gradients(grads_and_vars, global_step=global_step, name=name)

    def _create_slots(self, var_list: list[Any]) -> None:
        for var in var_list:
            self._zeros_slot(var, "m", self._name)

    def _fused(self, var: Any, grad: Any) -> dict[str, Any]:
        rate, beta, decay = as_dtype_of(var, self._lr, self._beta, self._sign_decay)
        return {
            "var": var.handle,
            "m": self.get_slot(var, "m").handle,
            "lr": rate,
            "sign_decay": decay,
            "beta": beta,
            "grad": grad,
            "use_locking": self._use_locking,
        }

    def _resource_apply_sparse(self, grad: Any, var: Any, indices: Any) -> Any:
        rate, beta, decay = as_dtype_of(var, self._lr, self._beta, self._sign_decay)
        m = self.get_slot(var, "m")
        with tf.control_dependencies([m.assign(m * beta)]):
            m_now = m.scatter_add(tf.IndexedSlices((1 - beta) * grad, indices))
        with tf.control_dependencies([m_now]):
            sign = decay * tf.sign(grad) * tf.sign(tf.gather(m, indices))
        change = rate * self._factor(var, sign) * grad
        return tf.group(var.scatter_sub(tf.IndexedSlices(change, indices)))

    def _factor(self, var: Any, sign: Any) -> Any:
        """Return what a gradient is multiplied by, from the product of the signs and their weight."""
        raise NotImplementedError


class AddSignOptimizer(_SignOptimizer):
    """Step by ``(alpha + decay * sign(g) * sign(m)) * g``."""

    @like(
        _SignOptimizer.__init__,
        after={"learning_rate": {"alpha": parameter("alpha", Any, 1.0)}},
        name="AddSignOptimizer",
    )
    def __init__(self, alpha: Any, **given: Any) -> None:
        super().__init__(**given)
        self._alpha = alpha

    def _resource_apply_dense(self, grad: Any, var: Any) -> Any:
        return tf.raw_ops.ResourceApplyAddSign(alpha=as_dtype_of(var, self._alpha)[0], **self._fused(var, grad))

    def _factor(self, var: Any, sign: Any) -> Any:
        return as_dtype_of(var, self._alpha)[0] + sign


class PowerSignOptimizer(_SignOptimizer):
    """Step by ``base ** (decay * sign(g) * sign(m)) * g``."""

    @like(
        _SignOptimizer.__init__,
        after={"learning_rate": {"base": parameter("base", Any, math.e)}},
        name="PowerSignOptimizer",
    )
    def __init__(self, base: Any, **given: Any) -> None:
        super().__init__(**given)
        self._base = base

    def _resource_apply_dense(self, grad: Any, var: Any) -> Any:
        logbase = tf.log(as_dtype_of(var, self._base)[0])
        return tf.raw_ops.ResourceApplyPowerSign(logbase=logbase, **self._fused(var, grad))

    def _factor(self, var: Any, sign: Any) -> Any:
        return tf.pow(as_dtype_of(var, self._base)[0], sign)
