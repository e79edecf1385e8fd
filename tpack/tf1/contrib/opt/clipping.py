"""Clipping by norms: of all gradients together, and of variables after each step."""

from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.tower.context import get_current_tower_context
from tpack.utils.validation import check_instance

__all__ = ["VariableClippingOptimizer", "clip_gradients_by_global_norm"]


class VariableClippingOptimizer(tf.train.Optimizer):
    """Apply another optimizer, then make variables smaller whose norm is larger than allowed.

    Of a variable with a sparse gradient the rows that it has are clipped, if each row has a norm of its own.

    Args:
        vars_to_clip_dims: {variable: dimensions over which its norm is taken}, such as ``{embedding: [1]}`` for a norm
            for each row.
        max_norm: the largest norm that is allowed.
        colocate_clip_ops_with_vars: whether clipping is done where the variable is.
    """

    def __init__(
        self,
        opt: tf.train.Optimizer,
        vars_to_clip_dims: Mapping[Any, Sequence[int]],
        max_norm: float,
        use_locking: bool = False,
        colocate_clip_ops_with_vars: bool = False,
        name: str = "VariableClipping",
    ) -> None:
        super().__init__(use_locking, name)
        self._opt = check_instance(self, "opt", opt, tf.train.Optimizer)
        # By name, since each tower has variables of its own.
        self._clip_dims = {_name_in_tower(var): list(dims) for var, dims in vars_to_clip_dims.items()}
        self._max_norm = max_norm
        self._colocate_clip_ops_with_vars = colocate_clip_ops_with_vars

    def compute_gradients(self, *args: Any, **kwargs: Any) -> Any:
        """Compute gradients as the other optimizer does."""
        return self._opt.compute_gradients(*args, **kwargs)

    def get_slot(self, *args: Any, **kwargs: Any) -> Any:
        """Return a slot of the other optimizer."""
        return self._opt.get_slot(*args, **kwargs)

    def get_slot_names(self, *args: Any, **kwargs: Any) -> Any:
        """Return the names of the other optimizer's slots."""
        return self._opt.get_slot_names(*args, **kwargs)

    def variables(self) -> Any:
        """Return the variables of the other optimizer."""
        return self._opt.variables()

    def apply_gradients(self, grads_and_vars: Any, global_step: Any = None, name: str | None = None) -> Any:
        """Apply gradients by the other optimizer, and clip."""
        pairs = list(grads_and_vars)
        with tf.name_scope(name, self._name):
            update = self._opt.apply_gradients(pairs, global_step=global_step)
            with tf.control_dependencies([update]):
                clipped = [self._clip(grad, var) for grad, var in pairs if grad is not None and self._is_clipped(var)]
            return tf.group(update, *clipped)

    def _is_clipped(self, var: Any) -> bool:
        return _name_in_tower(var) in self._clip_dims

    def _clip(self, grad: Any, var: Any) -> Any:
        dims = self._clip_dims[_name_in_tower(var)]
        device = var.device if self._colocate_clip_ops_with_vars else None
        with tf.device(device):
            if isinstance(grad, tf.IndexedSlices) and 0 not in dims:
                indices = tf.unique(grad.indices).y
                rows = tf.clip_by_norm(tf.gather(var, indices), self._max_norm, dims)
                return tf.group(var.scatter_update(tf.IndexedSlices(rows, indices), use_locking=self._use_locking))
            clipped = tf.clip_by_norm(var.read_value(), self._max_norm, dims)
            return tf.group(var.assign(clipped, use_locking=self._use_locking))


def _name_in_tower(var: Any) -> str:
    """Return the name of a variable without that of the current tower's own variables before it."""
    tower = get_current_tower_context()
    scope = tower.vs_name if tower is not None else ""
    return var.op.name.removeprefix(f"{scope}/") if scope else var.op.name


def clip_gradients_by_global_norm(gradients_variables: Any, clip_norm: float = 20.0) -> list[tuple[Any, Any]]:
    """Return pairs of gradients and variables, with gradients scaled to a joint norm of at most ``clip_norm``."""
    gradients, variables = zip(*gradients_variables, strict=True)
    clipped, _ = tf.clip_by_global_norm(gradients, clip_norm)
    return list(zip(clipped, variables, strict=True))
