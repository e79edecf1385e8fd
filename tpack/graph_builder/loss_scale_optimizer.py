"""An optimizer that computes gradients of the scaled cost, and leaves out updates whose gradients overflowed."""

from collections.abc import Sequence
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.errors import GraphBuildError
from tpack.graph_builder.loss_scale import DynamicLossScale
from tpack.reduction.placing import on_device_of
from tpack.tfutils.gate import Gate
from tpack.tfutils.gradient_processor import gradient_values, map_gradient_values
from tpack.tfutils.optimizer import ProxyOptimizer


class LossScaleOptimizer(ProxyOptimizer):
    """Scale the cost, and the gradients back, around another optimizer.

    Gradients are reduced while they are scaled, then checked and scaled back. Are they not all finite, the optimizer
    inside does not run: variables, slots and counters such as Adam's stay as they are. Reduced gradients are the same
    in every tower, so all towers skip the same steps. In the asynchronous builder each tower's update is checked by
    itself, and a step counts as skipped if one of them was.

    A step that is skipped is a step: it used up its data, the global step counts it, and update operations of the
    model, such as those of moving averages, run.

    Args:
        opt: the optimizer inside.
        loss_scale: the factor. Clones of this optimizer share it.

    Raises:
        GraphBuildError: ``opt`` is not a ``tf.compat.v1.train.Optimizer``.
    """

    def __init__(self, opt: Any, loss_scale: DynamicLossScale) -> None:
        super().__init__(opt, "LossScale")
        self._loss_scale = loss_scale

    def compute_gradients(self, loss: Any, *args: Any, **kwargs: Any) -> list[tuple[Any, Any]]:
        """Return the (gradient, variable) pairs of the scaled cost."""
        scaled = tf.cast(loss, tf.float32) * self._loss_scale.scale
        return super().compute_gradients(scaled, *args, **kwargs)

    def apply_gradients(self, grads_and_vars: Any, global_step: Any = None, name: str | None = None) -> Any:
        """Return the operation that applies gradients of the scaled cost, if they are finite.

        Raises:
            GraphBuildError: There is no gradient.
        """
        pairs = list(grads_and_vars)
        gradients = [gradient for gradient, _ in pairs if gradient is not None]
        if not gradients:
            names = [variable.op.name for _, variable in pairs]
            raise GraphBuildError(f"LossScaleOptimizer got no gradient of {names}: wanted one at least")
        with tf.name_scope("loss_scale"):
            is_finite = _are_finite(gradients)
            self._loss_scale.observe(is_finite)
            gate = Gate(is_finite)
        with gate.behind():
            with tf.name_scope("loss_scale"):
                factor = 1.0 / self._loss_scale.scale
                pairs = [(_multiply(gradient, factor), variable) for gradient, variable in pairs]
            # Outside of the name scope, so that the variables of the optimizer inside are called as without us.
            update = super().apply_gradients(pairs, global_step)
        with tf.name_scope("loss_scale"):
            done = gate.wait_for([update])
        return tf.group(done, name=name)


def _are_finite(gradients: Sequence[Any]) -> Any:
    flags = []
    for gradient in gradients:
        values = gradient_values(gradient)
        with on_device_of(values):
            flags.append(tf.reduce_all(tf.is_finite(values)))
    return tf.reduce_all(tf.stack(flags))


def _multiply(gradient: Any, factor: Any) -> Any:
    if gradient is None:
        return None
    with on_device_of(gradient_values(gradient)):
        return map_gradient_values(lambda values: values * factor, gradient)
