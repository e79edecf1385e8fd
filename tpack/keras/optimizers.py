"""Equivalents in graph mode of Keras's optimizers, given by name or as objects, with their schedules.

Keras runs its own eagerly only. Where graph mode has the same formula, its optimizer gets Keras's numbers. Its learning
rate is a variable, ``learning_rate`` for `HyperParamSetter`, or a schedule of Keras applied to the global step.
"""

from collections.abc import Callable
from typing import Any

import keras
import tensorflow.compat.v1 as tf

from tpack.compat.runtime import eager_mode
from tpack.errors import ConfigError
from tpack.optimizers.base import shrink
from tpack.optimizers.hyper import as_dtype_of
from tpack.optimizers.weight_decay import AdamW, Lion
from tpack.tfutils.gradproc import GlobalNormClip, GradientProcessor, MapGradient
from tpack.tfutils.graph_lookup import get_global_step_var
from tpack.tfutils.optimizer import apply_grad_processors
from tpack.utils.validation import shown

# The arguments of Keras's optimizers that change a step, with their values without effect.
_NEUTRAL = {
    "weight_decay": (None, False, 0, 0.0),
    "use_ema": (False,),
    "loss_scale_factor": (None,),
    "gradient_accumulation_steps": (None,),
    "amsgrad": (False,),
}
_Options = dict[str, Any]


def as_optimizer_function(optimizer: Any) -> Callable[[], tf.train.Optimizer]:
    """Return a function that makes an optimizer of graph mode.

    Args:
        optimizer: one of ``tf.train``, a function that returns one, or the name or object of one of Keras.

    Raises:
        ConfigError: Graph mode has no equivalent of Keras's optimizer, or not with its options.
    """
    if isinstance(optimizer, tf.train.Optimizer):
        return lambda: optimizer
    if not isinstance(optimizer, (str, dict, keras.optimizers.Optimizer)) and callable(optimizer):
        function: Callable[[], tf.train.Optimizer] = optimizer
        return function
    found, options = _options_of(optimizer)
    kind = type(found)
    has_decay = kind in (keras.optimizers.AdamW, keras.optimizers.Lion)
    known = [name for name in _NEUTRAL if name in options and not (has_decay and name == "weight_decay")]
    used = [name for name in known if options[name] not in _NEUTRAL[name]]
    if kind not in _MAKERS or used:
        raise ConfigError(
            f"KerasModel got the optimizer {kind.__name__}{' with ' + ', '.join(used) if used else ''}, which Keras "
            f"runs only eagerly: expected Keras's {', '.join(sorted(each.__name__ for each in _MAKERS))} without such "
            "options, or one of tf.train, tpack.optimizers or a function that returns one"
        )
    make = _MAKERS[kind]
    clips = _clips_of(options)
    rate = _rate_of(found, options)
    processors = [*clips, *_densifying(kind, options)]
    return lambda: apply_grad_processors(make(rate(), options), processors) if processors else make(rate(), options)


def _options_of(optimizer: Any) -> tuple[Any, _Options]:
    """Return one of Keras's optimizers and its options.

    Raises:
        ConfigError: It was made in a graph, where its numbers cannot be read, or is something else.
    """
    try:
        with eager_mode():
            found = keras.optimizers.get(optimizer)
            options = found.get_config()
    except (NotImplementedError, TypeError, ValueError) as error:
        raise ConfigError(
            f"KerasModel cannot read the optimizer {shown(optimizer)} ({error}): expected the name or an object of one "
            "of Keras, made outside of any graph, or one of tf.train"
        ) from error
    excluded = getattr(found, "_exclude_from_weight_decay_pattern", None)
    options["no_decay"] = () if excluded is None else getattr(excluded, "pattern", excluded)
    if getattr(found, "_exclude_from_weight_decay", None):
        raise ConfigError(
            "KerasModel got an optimizer that excludes variables from weight decay by var_list: expected names, since "
            "towers have their own variables; use exclude_from_weight_decay(var_names=[...])"
        )
    return found, options


def _rate_of(found: Any, options: _Options) -> Callable[[], tf.Variable | tf.Tensor]:
    """Return a function that makes the learning rate in the current graph."""
    schedule = getattr(found, "_learning_rate", None)
    if isinstance(schedule, keras.optimizers.schedules.LearningRateSchedule):
        return lambda: tf.identity(_at_step(schedule), name="learning_rate")
    rate = options["learning_rate"]
    if not isinstance(rate, float):
        raise ConfigError(
            f"KerasModel got an optimizer whose learning rate is {shown(rate)}: expected a number or a "
            "keras.optimizers.schedules.LearningRateSchedule"
        )
    initializer = tf.constant_initializer(rate)
    return lambda: tf.get_variable("learning_rate", [], initializer=initializer, trainable=False)


def _at_step(schedule: Any) -> tf.Tensor:
    """Return the value of a schedule at the current step; Keras counts from 0, like the global step."""
    step = get_global_step_var()
    with tf.device(step.device), tf.name_scope("schedule"):
        return tf.cast(schedule(step.read_value()), tf.float32)


def _clips_of(options: _Options) -> list[GradientProcessor]:
    """Return the gradient clipping of the options."""
    value, norm, whole = (options.get(name) for name in ("clipvalue", "clipnorm", "global_clipnorm"))
    if value is not None:
        return [MapGradient(lambda grad: tf.clip_by_value(grad, -value, value))]
    if norm is not None:
        return [MapGradient(lambda grad: tf.clip_by_norm(grad, norm))]
    return [] if whole is None else [GlobalNormClip(whole)]


def _densifying(kind: type[Any], options: _Options) -> list[GradientProcessor]:
    """Return a processor that makes gradients dense, where graph mode would skip the missing rows of sparse ones."""
    keeps_state = kind is keras.optimizers.SGD and options["momentum"]
    return [MapGradient(lambda grad: tf.convert_to_tensor(grad))] if keeps_state else []


class _Adam(tf.train.AdamOptimizer):
    """TensorFlow's optimizer with the squares of all slices of a row, as in Keras, instead of the square of their sum.

    They differ where a row occurs several times in a batch.
    """

    def _resource_apply_sparse_duplicate_indices(
        self, grad: tf.Tensor, handle: tf.Variable, indices: tf.Tensor
    ) -> tf.Operation:
        return self._resource_apply_sparse(grad, handle, indices)


class _AdamW(AdamW):
    """The same with decoupled weight decay."""

    def _resource_apply_sparse_duplicate_indices(
        self, grad: tf.Tensor, handle: tf.Variable, indices: tf.Tensor
    ) -> tf.Operation:
        has_decay = not self._left_out.has(handle)
        with tf.control_dependencies(shrink(handle, grad, self._weight_decay, self._lr_t) if has_decay else []):
            return tf.train.AdamOptimizer._resource_apply_sparse(self, grad, handle, indices)


class _Momentum(tf.train.MomentumOptimizer):
    """Momentum of steps and not of gradients, as in Keras: they differ where the learning rate changes."""

    def _resource_apply_dense(self, grad: tf.Tensor, var: tf.Variable) -> tf.Operation:
        return tf.raw_ops.ResourceApplyKerasMomentum(
            var=var.handle,
            accum=self.get_slot(var, "momentum").handle,
            lr=tf.cast(self._learning_rate_tensor, grad.dtype),
            grad=grad,
            momentum=tf.cast(self._momentum_tensor, grad.dtype),
            use_nesterov=self._use_nesterov,
        )


class _RMSProp(tf.train.RMSPropOptimizer):
    """TensorFlow's optimizer with averages of squares that begin at zero, as in Keras, instead of one.

    Sparse gradients move the averages of all rows, and are squared slice by slice.
    """

    def _create_slots(self, var_list: list[tf.Variable]) -> None:
        for variable in var_list:
            for name in ("mg", "rms", "momentum") if self._centered else ("rms", "momentum"):
                self._zeros_slot(variable, name, self._name)

    def _resource_apply_sparse_duplicate_indices(
        self, grad: tf.Tensor, handle: tf.Variable, indices: tf.Tensor
    ) -> tf.Operation:
        num_rows = tf.shape(handle)[0]
        total, squares = (tf.math.unsorted_segment_sum(each, indices, num_rows) for each in (grad, tf.square(grad)))
        rate, share, epsilon = as_dtype_of(
            handle, self._learning_rate_tensor, self._momentum_tensor, self._epsilon_tensor
        )
        divisor = self._averaged(handle, "rms", squares)
        if self._centered:
            divisor -= tf.square(self._averaged(handle, "mg", total))
        momentum = self.get_slot(handle, "momentum")
        step = share * momentum.read_value() + rate * total / tf.sqrt(divisor + epsilon)
        return tf.group(momentum.assign(step, read_value=False), handle.assign_sub(step, read_value=False))

    def _averaged(self, var: tf.Variable, name: str, value: tf.Tensor) -> tf.Tensor:
        """Move the average in a slot towards a value, and return it."""
        slot = self.get_slot(var, name)
        (share,) = as_dtype_of(var, self._decay_tensor)
        after = share * slot.read_value() + (1 - share) * value
        with tf.control_dependencies([slot.assign(after, read_value=False)]):
            return tf.identity(after)


def _adam(rate: Any, options: _Options) -> tf.train.Optimizer:
    return _Adam(rate, options["beta_1"], options["beta_2"], options["epsilon"])


def _adamw(rate: Any, options: _Options) -> tf.train.Optimizer:
    beta1, beta2, decay = options["beta_1"], options["beta_2"], options["weight_decay"]
    return _AdamW(rate, decay, beta1=beta1, beta2=beta2, epsilon=options["epsilon"], no_decay=options["no_decay"])


def _lion(rate: Any, options: _Options) -> tf.train.Optimizer:
    decay = options["weight_decay"] or 0.0
    return Lion(rate, decay, beta1=options["beta_1"], beta2=options["beta_2"], no_decay=options["no_decay"])


def _rmsprop(rate: Any, options: _Options) -> tf.train.Optimizer:
    return _RMSProp(rate, options["rho"], options["momentum"], options["epsilon"], centered=options["centered"])


def _sgd(rate: Any, options: _Options) -> tf.train.Optimizer:
    if not options["momentum"]:
        return tf.train.GradientDescentOptimizer(rate)
    return _Momentum(rate, options["momentum"], use_nesterov=options["nesterov"])


_MAKERS: dict[type[Any], Callable[[Any, _Options], tf.train.Optimizer]] = {
    keras.optimizers.Adam: _adam,
    keras.optimizers.AdamW: _adamw,
    keras.optimizers.Lion: _lion,
    keras.optimizers.RMSprop: _rmsprop,
    keras.optimizers.SGD: _sgd,
}
