"""``optimize_loss``: a loss, an optimizer and what lies between them, in one call.

Gradients can be changed and summarised.
"""

import inspect
import numbers
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError
from tpack.types import GradsAndVars
from tpack.utils import logger
from tpack.utils.validation import shown

OPTIMIZER_CLS_NAMES: dict[str, Callable[..., tf.train.Optimizer]] = {
    "Adagrad": tf.train.AdagradOptimizer,
    "Adam": tf.train.AdamOptimizer,
    "Ftrl": tf.train.FtrlOptimizer,
    "Momentum": lambda learning_rate: tf.train.MomentumOptimizer(learning_rate, momentum=0.9),
    "RMSProp": tf.train.RMSPropOptimizer,
    "SGD": tf.train.GradientDescentOptimizer,
}
OPTIMIZER_SUMMARIES = ["learning_rate", "loss", "gradients", "gradient_norm", "global_gradient_norm"]
_USUAL_SUMMARIES = ("loss", "learning_rate", "global_gradient_norm")


def optimize_loss(
    loss: tf.Tensor,
    global_step: tf.Variable | None,
    learning_rate: Any,
    optimizer: Any,
    gradient_noise_scale: float | None = None,
    gradient_multipliers: Mapping[Any, float] | None = None,
    clip_gradients: Any = None,
    learning_rate_decay_fn: Callable[..., tf.Tensor] | None = None,
    update_ops: Sequence[tf.Operation] | None = None,
    variables: Sequence[tf.Variable] | None = None,
    name: str | None = None,
    summaries: Sequence[str] | None = None,
    colocate_gradients_with_ops: bool = False,
    increment_global_step: bool = True,
) -> tf.Tensor:
    """Return the loss as a tensor that makes a step of training when it is computed.

    Args:
        loss: a scalar.
        global_step: counted with each step; None for that of the graph.
        learning_rate: a number or a scalar; None with an optimizer that has its own.
        optimizer: a name of `OPTIMIZER_CLS_NAMES`, a class, an optimizer, or a function of the learning rate.
        gradient_noise_scale: add normal noise of this size to the gradients.
        gradient_multipliers: factors of gradients by the names of their variables.
        clip_gradients: the largest global norm, or a function of pairs of gradient and variable.
        learning_rate_decay_fn: a function of the learning rate and the global step.
        update_ops: operations that run before the loss is computed; None for UPDATE_OPS.
        variables: the variables to train; None for all trainable ones.
        name: the variable scope, ``OptimizeLoss`` by default.
        summaries: some of `OPTIMIZER_SUMMARIES`; None for the loss, the learning rate and the global norm.
        colocate_gradients_with_ops: compute gradients on the devices of the operations.
        increment_global_step: count the step.

    Creates:
        ``learning_rate``, if that is a number, and the variables of the optimizer.

    Raises:
        ConfigError: An argument is out of range or of another type, or several exclude each other.
    """
    loss = tf.convert_to_tensor(loss)
    if loss.shape.rank != 0:
        raise ConfigError(f"optimize_loss got {loss.name} of the shape {loss.shape}: expected a scalar")
    wanted = _check_summaries(summaries)
    global_step = _check_step(global_step, learning_rate, learning_rate_decay_fn)
    with tf.variable_scope(name, "OptimizeLoss", [loss, global_step]):
        updates = tf.get_collection(tf.GraphKeys.UPDATE_OPS) if update_ops is None else update_ops
        if updates:
            with tf.control_dependencies(list(dict.fromkeys(updates))):
                loss = tf.identity(loss)
        rate = _rate(learning_rate)
        if rate is not None and learning_rate_decay_fn is not None:
            rate = learning_rate_decay_fn(rate, global_step)
            if "learning_rate" in wanted:
                tf.summary.scalar("learning_rate", rate)
        made = make_optimizer(optimizer, rate)
        grads = made.compute_gradients(
            loss, variables or tf.trainable_variables(), colocate_gradients_with_ops=colocate_gradients_with_ops
        )
        grads = _changed(grads, gradient_noise_scale, gradient_multipliers)
        if "global_gradient_norm" in wanted:
            tf.summary.scalar("global_norm/gradient_norm", tf.global_norm([grad for grad, _ in grads]))
        clipped = _clip(grads, clip_gradients)
        _summarize(wanted, loss, clipped, is_clipped=clip_gradients is not None)
        step = global_step if increment_global_step else None
        # The loss is that before the step.
        with tf.control_dependencies([loss]):
            train = made.apply_gradients(clipped, global_step=step, name="train")
        with tf.control_dependencies([train]):
            return tf.identity(loss, name="control_dependency")


def adaptive_clipping_fn(
    std_factor: float = 2.0,
    decay: float = 0.95,
    static_max_norm: float | None = None,
    global_step: tf.Variable | None = None,
    report_summary: bool = False,
    epsilon: float = 1e-8,
    name: str | None = None,
) -> Callable[[GradsAndVars], GradsAndVars]:
    """Return a function that scales down gradients whose norm is far above its past.

    Args:
        std_factor: the limit, in deviations of the logarithm of the norm.
        decay: of the averages of this logarithm and of its square.
        static_max_norm: a fixed limit besides.
        global_step: with it, the averages begin as plain means.
        report_summary: summarise the limit.
        epsilon: added to the norm, and the smallest variance.
        name: the variable scope, ``AdaptiveMaxNorm`` by default.

    Creates:
        ``mean`` and ``sq_mean``, when the function is called.
    """

    def clip(grads_and_vars: GradsAndVars) -> GradsAndVars:
        pairs = list(grads_and_vars)
        norm = tf.global_norm([grad for grad, _ in pairs])
        with tf.variable_scope(name, "AdaptiveMaxNorm", [norm]):
            log_norm = tf.log(norm + epsilon)
            share = decay
            if global_step is not None:
                steps = tf.cast(global_step, tf.float32)
                share = tf.minimum(decay, steps / (steps + 1.0))
            mean, square = (_average(*each, share) for each in (("mean", log_norm), ("sq_mean", tf.square(log_norm))))
            deviation = tf.sqrt(tf.maximum(epsilon, square - tf.square(mean)))
            limit = tf.exp(mean + std_factor * deviation)
        if report_summary:
            tf.summary.scalar("global_norm/adaptive_max_gradient_norm", limit)
        factor = tf.where(norm < limit, tf.ones_like(norm), tf.exp(mean) / norm)
        if static_max_norm is not None:
            factor = tf.minimum(static_max_norm / norm, factor)
        return [(scaled(grad, factor), var) for grad, var in pairs]

    return clip


def make_optimizer(optimizer: Any, rate: Any) -> tf.train.Optimizer:
    """Return an optimizer given by name, as a class, as a function of the learning rate, or itself.

    Raises:
        ConfigError: It is none of these, or has no learning rate.
    """
    if isinstance(optimizer, tf.train.Optimizer):
        return optimizer
    is_class = inspect.isclass(optimizer) and issubclass(optimizer, tf.train.Optimizer)
    if rate is None and (isinstance(optimizer, str) or is_class):
        raise ConfigError(f"got learning_rate=None: expected one for the optimizer {shown(optimizer)}")
    if isinstance(optimizer, str):
        if optimizer not in OPTIMIZER_CLS_NAMES:
            names = ", ".join(OPTIMIZER_CLS_NAMES)
            raise ConfigError(f"got optimizer={shown(optimizer)}: expected one of {names}")
        return OPTIMIZER_CLS_NAMES[optimizer](learning_rate=rate)
    if not callable(optimizer):
        raise ConfigError(
            f"got optimizer={shown(optimizer)}: expected a name, a class, an Optimizer or a function of the rate"
        )
    if is_class:
        return optimizer(learning_rate=rate)
    made = optimizer() if rate is None else optimizer(rate)
    if not isinstance(made, tf.train.Optimizer):
        raise ConfigError(f"the function of optimizer= returned {shown(made)}: expected an Optimizer")
    return made


def clip_gradient_norms(gradients_to_variables: GradsAndVars, max_norm: float) -> GradsAndVars:
    """Return gradients, each scaled down to a norm if it is larger."""
    return [(_clipped(grad, max_norm), var) for grad, var in gradients_to_variables]


def multiply_gradients(grads_and_vars: GradsAndVars, gradient_multipliers: Mapping[Any, Any]) -> GradsAndVars:
    """Return gradients times factors.

    Args:
        grads_and_vars: the gradients.
        gradient_multipliers: factors by variables or their names; other gradients stay as they are.

    Raises:
        ConfigError: There are no factors, or one for a variable without a gradient.
    """
    if not isinstance(gradient_multipliers, Mapping) or not gradient_multipliers:
        raise ConfigError(f"got gradient_multipliers={shown(gradient_multipliers)}: expected a dict with entries")
    multiplied = []
    for grad, var in grads_and_vars:
        found = [factor for key, factor in gradient_multipliers.items() if key is var or key == var.op.name]
        if found and grad is None:
            raise ConfigError(f"got gradient_multipliers with {var.op.name}, which has no gradient: expected others")
        multiplied.append((scaled(grad, found[0]) if found else grad, var))
    return multiplied


def add_gradients_summaries(grads_and_vars: GradsAndVars) -> list[tf.Tensor]:
    """Summarise gradients and their norms; return the summaries."""
    summaries = []
    for grad, var in grads_and_vars:
        if grad is None:
            logger.warning(f"{var.op.name} has no gradient, and no summary of it.")
            continue
        values = grad.values if isinstance(grad, tf.IndexedSlices) else grad
        summaries.append(tf.summary.histogram(f"{var.op.name}_gradient", values))
        summaries.append(tf.summary.scalar(f"{var.op.name}_gradient_norm", tf.global_norm([values])))
    return summaries


def scaled(grad: Any, factor: Any) -> Any:
    """Return a gradient, which may be sparse or None, times a factor."""
    if grad is None:
        return None
    if isinstance(grad, tf.IndexedSlices):
        return tf.IndexedSlices(grad.values * tf.cast(factor, grad.dtype), grad.indices, grad.dense_shape)
    return grad * tf.cast(factor, grad.dtype)


def _clipped(grad: Any, max_norm: float) -> Any:
    if isinstance(grad, tf.IndexedSlices):
        return tf.IndexedSlices(tf.clip_by_norm(grad.values, max_norm), grad.indices, grad.dense_shape)
    return None if grad is None else tf.clip_by_norm(grad, max_norm)


def _check_summaries(summaries: Sequence[str] | None) -> Sequence[str]:
    for name in summaries or ():
        if name not in OPTIMIZER_SUMMARIES:
            raise ConfigError(f"got summaries with {shown(name)}: expected some of {', '.join(OPTIMIZER_SUMMARIES)}")
    return _USUAL_SUMMARIES if summaries is None else summaries


def _check_step(global_step: tf.Variable | None, learning_rate: Any, decay_fn: Any) -> tf.Variable | None:
    if global_step is None:
        global_step = tf.train.get_global_step()
    else:
        tf.train.assert_global_step(global_step)
    if learning_rate is not None and decay_fn is not None and global_step is None:
        raise ConfigError("got learning_rate_decay_fn and a graph without a global step: expected one")
    return global_step


def _rate(learning_rate: Any) -> Any:
    if learning_rate is None:
        return None
    if tf.is_tensor(learning_rate) and learning_rate.shape.rank == 0:
        return learning_rate
    if isinstance(learning_rate, float) or (
        isinstance(learning_rate, numbers.Real) and not tf.is_tensor(learning_rate)
    ):
        if learning_rate < 0.0:
            raise ConfigError(f"got learning_rate={learning_rate}: expected at least 0")
        initializer = tf.constant_initializer(float(learning_rate))
        return tf.get_variable("learning_rate", [], trainable=False, initializer=initializer)
    raise ConfigError(f"got learning_rate={shown(learning_rate)}: expected a number or a scalar tensor")


def _changed(grads: GradsAndVars, noise: float | None, multipliers: Mapping[Any, float] | None) -> GradsAndVars:
    if noise is not None:
        grads = [(_noisy(grad, noise), var) for grad, var in grads]
    if multipliers is None:
        return grads
    found = [next((f for key, f in multipliers.items() if key is var or key == var.name), None) for _, var in grads]
    return [
        (grad if factor is None else scaled(grad, factor), var)
        for (grad, var), factor in zip(grads, found, strict=True)
    ]


def _noisy(grad: Any, noise: float) -> Any:
    if grad is None:
        return None
    shape = grad.dense_shape if isinstance(grad, tf.IndexedSlices) else tf.shape(grad)
    return tf.convert_to_tensor(grad) + tf.truncated_normal(shape, dtype=grad.dtype) * noise


def _clip(grads: GradsAndVars, clip_gradients: Any) -> GradsAndVars:
    if clip_gradients is None:
        return grads
    if callable(clip_gradients):
        return clip_gradients(grads)
    if not isinstance(clip_gradients, numbers.Real):
        raise ConfigError(f"got clip_gradients={shown(clip_gradients)}: expected a number or a function")
    clipped, _ = tf.clip_by_global_norm([grad for grad, _ in grads], clip_gradients)
    return list(zip(clipped, [var for _, var in grads], strict=True))


def _summarize(wanted: Sequence[str], loss: tf.Tensor, grads: GradsAndVars, *, is_clipped: bool) -> None:
    if "loss" in wanted:
        tf.summary.scalar("loss", loss)
    for grad, var in grads:
        if grad is not None:
            values = grad.values if isinstance(grad, tf.IndexedSlices) else grad
            name = var.name.replace(":", "_")
            if "gradients" in wanted:
                tf.summary.histogram(f"gradients/{name}", values)
            if "gradient_norm" in wanted:
                tf.summary.scalar(f"gradient_norm/{name}", tf.global_norm([values]))
    if is_clipped and ("global_gradient_norm" in wanted or "gradient_norm" in wanted):
        tf.summary.scalar("global_norm/clipped_gradient_norm", tf.global_norm([grad for grad, _ in grads]))


def _average(name: str, value: tf.Tensor, decay: Any) -> tf.Tensor:
    """Return a moving average, updated by this value."""
    zeros = tf.zeros_initializer()
    average = tf.get_variable(name, value.shape, value.dtype, zeros, trainable=False, use_resource=True)
    update = average.assign_sub((average - value) * (1.0 - decay), read_value=False)
    with tf.control_dependencies([update]):
        return average.read_value()
