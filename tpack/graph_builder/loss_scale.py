"""Dynamic scaling of the cost, so that small gradients do not become zero in float16.

The factor grows until gradients overflow, and shrinks when they do; updates whose gradients overflowed are skipped.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.errors import GraphBuildError
from tpack.graph_builder.precision import LossScaling
from tpack.reduction.sums import on_device_of
from tpack.tfutils.gradproc import Grads
from tpack.tfutils.optimizer import ProxyOptimizer
from tpack.tfutils.predicated import Gate
from tpack.tower.grads import Gradient, gradient_values, map_gradient_values


class DynamicLossScale:
    """The factor and its counters in one graph, shared by all towers; made outside of them.

    Attributes:
        scale: the factor of the current step, a float32 tensor.
        variables: the factor, the number of consecutive steps with finite gradients, and the number of skipped steps.
        smallest: the least factor.
    """

    def __init__(self, scaling: LossScaling) -> None:
        self._scaling = scaling
        self.smallest = scaling.smallest
        with tf.variable_scope("loss_scale"):
            self.variables = (
                _counter("scale", tf.float32, scaling.initial),
                _counter("finite_steps", tf.int64, 0),
                _counter("skipped_steps", tf.int64, 0),
            )
            # One read: the whole step must use one factor.
            self.scale = self.variables[0].read_value()
        self._all_finite: list[tf.Tensor] = []

    def observe(self, is_finite: tf.Tensor) -> None:
        """Add a boolean scalar, whether the gradients of one update are finite."""
        self._all_finite.append(is_finite)

    def update(self, num_steps: tf.Tensor | None = None) -> tf.Operation:
        """Return the operation that adapts the factor and counts the steps, for every update, once all are built.

        Args:
            num_steps: the number of steps whose gradients are in the update; None for one.

        Raises:
            GraphBuildError: No update was built.

        Source:
            Micikevicius et al., Mixed Precision Training, 2018.
        """
        if not self._all_finite:
            raise GraphBuildError("the loss scale observed no gradients: no optimizer that scales the cost was applied")
        options, (scale, finite_steps, skipped_steps) = self._scaling, self.variables
        with tf.name_scope("adapt_loss_scale"):
            is_finite = tf.reduce_all(tf.stack(self._all_finite))
            count = tf.where(is_finite, finite_steps.read_value() + 1, tf.zeros([], tf.int64))
            grows = count >= options.growth_steps
            larger = tf.minimum(self.scale * options.factor, options.largest)
            smaller = tf.maximum(self.scale / options.factor, options.smallest)
            adapted = tf.where(is_finite, tf.where(grows, larger, self.scale), smaller)
            skipped = tf.cast(tf.logical_not(is_finite), tf.int64)
            if num_steps is not None:
                skipped *= num_steps
            return tf.group(
                scale.assign(adapted, read_value=False),
                finite_steps.assign(tf.where(grows, tf.zeros_like(count), count), read_value=False),
                skipped_steps.assign_add(skipped, read_value=False),
            )


class LossScaleOptimizer(ProxyOptimizer):
    """Optimizer that scales the cost, and the gradients back, around another one.

    Gradients are reduced while they are scaled, then checked and scaled back. If they are not all finite, the inner
    optimizer does not run: variables, slots and counters such as Adam's stay. Reduced gradients are equal in all
    towers, so they skip the same steps. The asynchronous builder checks each tower's update, and a step counts as
    skipped if one of them was.

    A skipped step used its data, the global step counts it, and moving averages and other update operations run. Clones
    of this optimizer share the ``loss_scale``.

    Raises:
        GraphBuildError: ``opt`` is not a ``tf.compat.v1.train.Optimizer``.
    """

    def __init__(self, opt: tf.train.Optimizer, loss_scale: DynamicLossScale) -> None:
        super().__init__(opt, "LossScale")
        self._loss_scale = loss_scale

    @property
    def scale(self) -> tf.Tensor:
        """The factor of the current step."""
        return self._loss_scale.scale

    def compute_gradients(self, loss: tf.Tensor, *args: Any, **kwargs: Any) -> Grads:
        """Return the (gradient, variable) pairs of the scaled cost."""
        scaled = tf.cast(loss, tf.float32) * self._loss_scale.scale
        return super().compute_gradients(scaled, *args, **kwargs)

    def apply_gradients(
        self,
        grads_and_vars: Iterable[tuple[Gradient | None, tf.Variable]],
        global_step: tf.Variable | None = None,
        name: str | None = None,
    ) -> tf.Operation:
        """Return the operation that applies gradients, if they are finite; without any, raise a `GraphBuildError`."""
        pairs = list(grads_and_vars)
        gradients = [gradient for gradient, _ in pairs if gradient is not None]
        if not gradients:
            names = [variable.op.name for _, variable in pairs]
            raise GraphBuildError(f"LossScaleOptimizer got no gradient of {names}: expected one at least")
        with tf.name_scope("loss_scale"):
            is_finite = _are_finite(gradients)
            self._loss_scale.observe(is_finite)
            gate = Gate(is_finite)
        with gate.behind():
            with tf.name_scope("loss_scale"):
                factor = 1.0 / self._loss_scale.scale
                pairs = [(_multiply(gradient, factor), variable) for gradient, variable in pairs]
            # Outside of the name scope, so that the inner optimizer's variables keep their names.
            update = super().apply_gradients(pairs, global_step)
        with tf.name_scope("loss_scale"):
            done = gate.wait_for([update])
        return tf.group(done, name=name)


def _are_finite(gradients: Sequence[Gradient]) -> tf.Tensor:
    flags = []
    for gradient in gradients:
        values = gradient_values(gradient)
        with on_device_of(values):
            flags.append(tf.reduce_all(tf.is_finite(values)))
    return tf.reduce_all(tf.stack(flags))


def _multiply(gradient: Gradient | None, factor: tf.Tensor) -> Gradient | None:
    if gradient is None:
        return None
    with on_device_of(gradient_values(gradient)):
        return map_gradient_values(lambda values: values * factor, gradient)


def _counter(name: str, dtype: tf.DType, value: float) -> tf.Variable:
    initializer = tf.constant_initializer(value)
    return tf.get_variable(name, [], dtype, initializer, trainable=False, use_resource=True)
