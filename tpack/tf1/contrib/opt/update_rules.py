"""Optimizers of other update rules: LARS, Adagrad whose accumulators may rest, and steps by the signs of gradients.

Source:
    Bello, Zoph, Vasudevan and Le, "Neural optimizer search with reinforcement learning" (2017), of the signs.
"""

import math
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError
from tpack.optimizers.base import ResourceOptimizer
from tpack.optimizers.hyper import as_dtype_of
from tpack.optimizers.weight_decay import LARS
from tpack.tf1.signatures import like, parameter


class LARSOptimizer(LARS):
    """Momentum whose learning rate is ``eeta * |w| / (|g| + weight_decay * |w| + epsilon)`` times the one given.

    It is for batches of thousands, where one rate for all layers diverges. A sparse gradient gets plain momentum.

    Args:
        weight_decay: times the variable, is added to its gradient.
        eeta: how much of a variable's norm a step may change.
        skip_list: texts; a variable with one of them in its name gets plain momentum without weight decay.
        use_nesterov: whether the momentum is Nesterov's.
    """

    def __init__(
        self,
        learning_rate: Any,
        momentum: Any = 0.9,
        weight_decay: float = 0.0001,
        eeta: float = 0.001,
        epsilon: float = 0.0,
        name: str = "LARSOptimizer",
        skip_list: Sequence[str] | None = None,
        use_nesterov: bool = False,
    ) -> None:
        super().__init__(
            learning_rate,
            weight_decay,
            momentum=momentum,
            trust=eeta,
            use_nesterov=use_nesterov,
            no_decay=[re.escape(text) for text in skip_list or ()],
        )
        self._name = name
        self._epsilon = epsilon

    def _resource_apply_sparse(self, grad: Any, var: Any, indices: Any) -> Any:
        # Rows have no norm of the whole variable: they are changed by plain momentum, whose slot sums gradients.
        arguments = self._fused(var, self._lr)
        return tf.raw_ops.ResourceSparseApplyMomentum(grad=grad, indices=indices, **arguments)


class RegAdagradOptimizer(ResourceOptimizer, tf.train.AdagradOptimizer):
    """Adagrad whose accumulators can be left alone for a step.

    Example:
        train_op = optimizer.minimize(loss)
        with optimizer.avoid_updating_slots():
            penalty_op = optimizer.minimize(penalty)
    """

    def __init__(
        self,
        learning_rate: Any,
        initial_accumulator_value: float = 0.1,
        use_locking: bool = False,
        name: str = "RegAdagrad",
    ) -> None:
        super().__init__(learning_rate, initial_accumulator_value, use_locking, name)
        self._should_update_slots = True

    @contextmanager
    def avoid_updating_slots(self) -> Iterator[None]:
        """Leave the accumulators alone in steps that are built in the block."""
        before, self._should_update_slots = self._should_update_slots, False
        try:
            yield
        finally:
            self._should_update_slots = before

    def _resource_apply_dense(self, grad: Any, var: Any) -> Any:
        return tf.raw_ops.ResourceApplyAdagrad(grad=grad, **self._fused(var))

    def _resource_apply_sparse(self, grad: Any, var: Any, indices: Any) -> Any:
        return tf.raw_ops.ResourceSparseApplyAdagrad(grad=grad, indices=indices, **self._fused(var))

    def _fused(self, var: Any) -> dict[str, Any]:
        return {
            "var": var.handle,
            "accum": self.get_slot(var, "accumulator").handle,
            "lr": as_dtype_of(var, self._learning_rate_tensor)[0],
            "use_locking": self._use_locking,
            "update_slots": self._should_update_slots,
        }


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
