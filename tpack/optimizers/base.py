"""Common parts of optimizers: they update resource variables, and some decay them before each step.

TensorFlow calls other methods for variables that are not resource variables. Those of the base optimizer would silently
do something else.
"""

from collections.abc import Iterable
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError, GraphBuildError
from tpack.optimizers.hyper import HyperValue, LeftOut, as_dtype_of, refuse_part
from tpack.tower.context import get_current_tower_context
from tpack.tower.grads import Gradient
from tpack.utils.validation import owner_name

__all__ = ["LeavesOut", "ResourceOptimizer", "norms", "refuse_coarse", "shrink"]


class ResourceOptimizer:
    """A mixin for optimizers that have ``_resource_apply_dense`` and ``_resource_apply_sparse`` alone."""

    def _apply_dense(self, grad: Any, var: Any) -> Any:
        raise GraphBuildError(
            f"{type(self).__name__} got {var.op.name}: expected a resource variable; use "
            "tf.get_variable(..., use_resource=True)"
        )

    _apply_sparse = _apply_dense


class LeavesOut(ResourceOptimizer):
    """A mixin for optimizers with ``weight_decay``, which some variables are exempt from by ``no_decay``.

    A sparse gradient is treated as the dense one with zeros in all other rows: these decay and move by their averages
    too.

    Attributes:
        _left_out: the variables without decay.
    """

    _left_out: LeftOut

    def apply_gradients(
        self,
        grads_and_vars: Iterable[tuple[Gradient | None, tf.Variable]],
        global_step: tf.Variable | None = None,
        name: str | None = None,
    ) -> tf.Operation:
        """Return the operation that applies gradients.

        Args:
            grads_and_vars: pairs of a gradient, dense, ``IndexedSlices`` or None, and its variable.
            global_step: incremented afterwards.
            name: the name of the operation.

        Raises:
            GraphBuildError: A variable is not a resource variable.
        """
        pairs = list(grads_and_vars)
        tower = get_current_tower_context()
        if tower is None or tower.is_main_tower:
            self._left_out.tell(variable for gradient, variable in pairs if gradient is not None)
        return super().apply_gradients(pairs, global_step=global_step, name=name)  # type: ignore[misc]

    def _resource_apply_sparse(self, grad: tf.Tensor, var: tf.Variable, indices: tf.Tensor) -> tf.Operation:
        dense = tf.math.unsorted_segment_sum(grad, indices, tf.shape(var)[0])
        return self._resource_apply_dense(dense, var)  # type: ignore[attr-defined]


def shrink(var: tf.Variable, grad: tf.Tensor, *share: HyperValue) -> list[tf.Operation]:
    """Return the operations that subtract a share of a variable, after its gradient has been computed.

    Args:
        var: the variable.
        grad: the gradient.
        *share: factors of the share in the variable's dtype. If one is the number 0, there are no operations.
    """
    if any(isinstance(factor, int | float) and factor == 0 for factor in share):
        return []
    first, *others = as_dtype_of(var, *share)
    for factor in others:
        first *= factor
    with tf.control_dependencies([grad]):
        return [var.assign_sub(first * var.read_value(), read_value=False)]


def refuse_coarse(owner: object, var: tf.Variable, **keeps: float) -> None:
    """Refuse a variable in whose dtype an average would never move: 0.999 is 1 in bfloat16.

    Args:
        owner: the optimizer.
        var: the variable.
        **keeps: the shares of averages that stay at each step.

    Raises:
        ConfigError: One of them is 1 in this dtype.
    """
    dtype = var.dtype.base_dtype
    for name, keep in keeps.items():
        if keep < 1 and dtype.as_numpy_dtype(keep) == 1:
            raise ConfigError(
                f"{owner_name(owner)} got {name}={keep}, which is 1 in the {dtype.name} of {var.op.name}: "
                "expected less, or variables of float32"
            )


def norms(owner: object, var: tf.Variable, change: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Return the norms of a variable and of its change, in float32 at least, since a float16 ends at 65504.

    Raises:
        ConfigError: ``var`` is a part of a variable.
    """
    refuse_part(owner, var)
    return _norm(var.read_value()), _norm(change)


def _norm(values: tf.Tensor) -> tf.Tensor:
    wide = tf.cast(values, tf.float32) if values.dtype.size < tf.float32.size else values
    return tf.sqrt(tf.reduce_sum(tf.square(wide)))
