"""Relatives of Adam: `AdaMaxOptimizer`, `NadamOptimizer`, `LazyAdamOptimizer`, and two that count by the global step.

Slots and counters bear the names that they had in TensorFlow 1.15, so that its checkpoints load.
"""

from typing import Any

import tensorflow.compat.v1 as tf

from tpack.optimizers.base import ResourceOptimizer
from tpack.optimizers.hyper import as_dtype_of
from tpack.tf1.signatures import like, parameter

_HYPER = ("lr", "beta1", "beta2", "epsilon")


class AdaMaxOptimizer(ResourceOptimizer, tf.train.AdamOptimizer):
    """Adam by the infinity norm: what a gradient is divided by is the largest one of late, and not a mean of squares.

    Rows of a sparse gradient alone are changed, in the averages too.

    Source:
        Kingma and Ba, "Adam: a method for stochastic optimization" (2015), section 7.1.
    """

    @like(tf.train.AdamOptimizer.__init__, name="AdaMax")
    def __init__(self, **given: Any) -> None:
        super().__init__(**given)

    def _get_beta_accumulators(self) -> tuple[Any, None]:
        return self._get_non_slot_variable("beta1_power", graph=tf.get_default_graph()), None

    def _create_slots(self, var_list: list[Any]) -> None:
        first = min(var_list, key=lambda var: var.name)
        self._create_non_slot_variable(initial_value=self._beta1, name="beta1_power", colocate_with=first)
        _create_averages(self, var_list)

    def _resource_apply_dense(self, grad: Any, var: Any) -> Any:
        hyper = dict(zip(("beta1_power", *_HYPER), _hyper(self, var), strict=True))
        return tf.raw_ops.ResourceApplyAdaMax(grad=grad, **hyper, **_handles(self, var))

    def _resource_apply_sparse(self, grad: Any, var: Any, indices: Any) -> Any:
        power, rate, beta1, beta2, epsilon = _hyper(self, var)
        m, v = self.get_slot(var, "m"), self.get_slot(var, "v")
        m_rows = beta1 * tf.gather(m, indices) + (1 - beta1) * grad
        v_rows = tf.maximum(beta2 * tf.gather(v, indices), tf.abs(grad))
        change = rate / (1 - power) * m_rows / (v_rows + epsilon)
        return _change_rows(var, indices, change, [(m, m_rows), (v, v_rows)])

    def _finish(self, update_ops: list[Any], name_scope: str) -> Any:
        beta1_power, _ = self._get_beta_accumulators()
        with tf.control_dependencies(update_ops), tf.colocate_with(beta1_power):
            next_power = beta1_power.assign(beta1_power * self._beta1_t, use_locking=self._use_locking)
        return tf.group(*update_ops, next_power, name=name_scope)


class NadamOptimizer(ResourceOptimizer, tf.train.AdamOptimizer):
    """Adam with Nesterov's momentum: the gradient counts once more in the step than in the average.

    Source:
        Dozat, "Incorporating Nesterov momentum into Adam" (2016).
    """

    def _resource_apply_dense(self, grad: Any, var: Any) -> Any:
        return _apply_adam(self, var, grad, _hyper(self, var), use_nesterov=True)

    def _resource_apply_sparse(self, grad: Any, var: Any, indices: Any) -> Any:
        return _apply_adam_sparse(self, var, (grad, indices), _hyper(self, var), use_nesterov=True)


class LazyAdamOptimizer(ResourceOptimizer, tf.train.AdamOptimizer):
    """Adam that changes, for a sparse gradient, the rows that it has and leaves their averages alone elsewhere.

    Much faster for large embeddings, and another algorithm: Adam moves each row that ever had a gradient.
    """

    def _resource_apply_sparse(self, grad: Any, var: Any, indices: Any) -> Any:
        return _apply_adam_to_rows(self, var, (grad, indices), _hyper(self, var))


class AdamGSOptimizer(ResourceOptimizer, tf.train.AdamOptimizer):
    """Adam whose bias correction counts by the global step, and which has no counters of its own.

    The global step is how many steps were made before this one.
    """

    @like(tf.train.AdamOptimizer.__init__, after={"self": {"global_step": parameter("global_step", Any, 0)}})
    def __init__(self, global_step: Any, **given: Any) -> None:
        super().__init__(**given)
        self._global_step = global_step
        self._step_read: Any = None

    def _get_beta_accumulators(self) -> tuple[Any, Any]:
        step = tf.cast(self._global_step if self._step_read is None else self._step_read, tf.float32) + 1
        return tf.pow(tf.cast(self._beta1_t, tf.float32), step), tf.pow(tf.cast(self._beta2_t, tf.float32), step)

    def _create_slots(self, var_list: list[Any]) -> None:
        _create_averages(self, var_list)

    def _prepare(self) -> None:
        super()._prepare()
        # Read once for all variables, before the step is counted.
        self._step_read = tf.identity(self._global_step)

    def _resource_apply_dense(self, grad: Any, var: Any) -> Any:
        return _apply_adam(self, var, grad, _hyper(self, var), use_nesterov=False)

    def _resource_apply_sparse(self, grad: Any, var: Any, indices: Any) -> Any:
        return _apply_adam_sparse(self, var, (grad, indices), _hyper(self, var), use_nesterov=False)

    def _finish(self, update_ops: list[Any], name_scope: str) -> Any:
        return tf.group(*update_ops, name=name_scope)


class LazyAdamGSOptimizer(AdamGSOptimizer):
    """`LazyAdamOptimizer` whose bias correction counts by the global step."""

    def _resource_apply_sparse(self, grad: Any, var: Any, indices: Any) -> Any:
        return _apply_adam_to_rows(self, var, (grad, indices), _hyper(self, var))


def _create_averages(optimizer: Any, var_list: list[Any]) -> None:
    for var in var_list:
        for slot in ("m", "v"):
            optimizer._zeros_slot(var, slot, optimizer._name)


def _handles(optimizer: Any, var: Any) -> dict[str, Any]:
    """Return the arguments of a fused operation that name the variable and its averages."""
    slots = {slot: optimizer.get_slot(var, slot).handle for slot in ("m", "v")}
    return {"var": var.handle, **slots, "use_locking": optimizer._use_locking}


def _hyper(optimizer: Any, var: Any) -> list[Any]:
    powers = [power for power in optimizer._get_beta_accumulators() if power is not None]
    return as_dtype_of(var, *powers, optimizer._lr_t, optimizer._beta1_t, optimizer._beta2_t, optimizer._epsilon_t)


def _apply_adam(optimizer: Any, var: Any, grad: Any, hyper: list[Any], *, use_nesterov: bool) -> Any:
    named = dict(zip(("beta1_power", "beta2_power", *_HYPER), hyper, strict=True))
    return tf.raw_ops.ResourceApplyAdam(grad=grad, **named, **_handles(optimizer, var), use_nesterov=use_nesterov)


def _apply_adam_sparse(optimizer: Any, var: Any, rows: tuple[Any, Any], hyper: list[Any], *, use_nesterov: bool) -> Any:
    """Change all rows, as Adam does: one without a gradient by what is left of its average."""
    grad, indices = rows
    beta1_power, beta2_power, rate, beta1, beta2, epsilon = hyper
    m, v = optimizer.get_slot(var, "m"), optimizer.get_slot(var, "v")
    rate = rate * tf.sqrt(1 - beta2_power) / (1 - beta1_power)
    with tf.control_dependencies([m.assign(m * beta1)]):
        m_now = m.scatter_add(tf.IndexedSlices((1 - beta1) * grad, indices))
    with tf.control_dependencies([v.assign(v * beta2)]):
        v_now = v.scatter_add(tf.IndexedSlices((1 - beta2) * tf.square(grad), indices))
    with tf.control_dependencies([m_now, v_now]):
        m_now, v_now = m.read_value(), v.read_value()
    step = m_now
    if use_nesterov:
        rows = tf.expand_dims(indices, 1)
        step = m_now * beta1 + tf.tensor_scatter_nd_add(tf.zeros_like(m_now), rows, (1 - beta1) * grad)
    change = rate * step / (tf.sqrt(v_now) + epsilon)
    return tf.group(var.assign_sub(change, use_locking=optimizer._use_locking))


def _apply_adam_to_rows(optimizer: Any, var: Any, rows: tuple[Any, Any], hyper: list[Any]) -> Any:
    """Change the rows of a sparse gradient alone."""
    grad, indices = rows
    beta1_power, beta2_power, rate, beta1, beta2, epsilon = hyper
    m, v = optimizer.get_slot(var, "m"), optimizer.get_slot(var, "v")
    m_rows = beta1 * tf.gather(m, indices) + (1 - beta1) * grad
    v_rows = beta2 * tf.gather(v, indices) + (1 - beta2) * tf.square(grad)
    rate = rate * tf.sqrt(1 - beta2_power) / (1 - beta1_power)
    return _change_rows(var, indices, rate * m_rows / (tf.sqrt(v_rows) + epsilon), [(m, m_rows), (v, v_rows)])


def _change_rows(var: Any, indices: Any, change: Any, slots: list[tuple[Any, Any]]) -> Any:
    updates = [slot.scatter_update(tf.IndexedSlices(rows, indices)) for slot, rows in slots]
    return tf.group(*updates, var.scatter_sub(tf.IndexedSlices(change, indices)))
