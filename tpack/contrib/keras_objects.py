"""What Keras's losses, metrics and optimizers are in a graph: functions, and optimizers of TensorFlow.

They may be given by name or as objects. What Keras can only do eagerly is an error that says what to use.
"""

from collections.abc import Callable
from typing import Any, TypeAlias

import keras
import tensorflow.compat.v1 as tf

from tpack.compat import eager_mode
from tpack.errors import ConfigError
from tpack.utils import logger
from tpack.utils.checks import shown

Loss: TypeAlias = str | Callable[..., Any]
Metric: TypeAlias = str | Callable[..., Any]

# The arguments of Keras's optimizers that change what a step does, and their values when they do nothing.
_NEUTRAL = {
    "weight_decay": None,
    "clipnorm": None,
    "global_clipnorm": None,
    "clipvalue": None,
    "use_ema": False,
    "loss_scale_factor": None,
    "gradient_accumulation_steps": None,
    "amsgrad": False,
}


class KerasMetric:
    """A metric without a state: its name, and its function of targets and outputs."""

    def __init__(self, name: str, function: Callable[[Any, Any], Any] | None) -> None:
        self.name = name
        self._function = function

    def compute(self, target: tf.Tensor, output: tf.Tensor) -> tf.Tensor:
        """Return the metric of each row, or of the batch."""
        function = self._function or _accuracy_for(target, output)
        return tf.cast(function(target, output), tf.float32)


def _accuracy_for(target: tf.Tensor, output: tf.Tensor) -> Callable[[Any, Any], Any]:
    """Return what "accuracy" means for these shapes, as Keras has it."""
    if output.shape[-1] == 1:
        return keras.metrics.binary_accuracy
    if target.shape.rank < output.shape.rank or target.shape[-1] == 1:
        return keras.metrics.sparse_categorical_accuracy
    return keras.metrics.categorical_accuracy


def as_metric(metric: Metric) -> KerasMetric:
    """Return a metric that needs no state.

    Args:
        metric: its name, an object of Keras or a function of targets and outputs.

    Raises:
        ConfigError: It has a state.
    """
    if metric in ("accuracy", "acc"):
        return KerasMetric("accuracy", None)
    found: Any = keras.metrics.get(metric)
    if isinstance(found, keras.metrics.MeanMetricWrapper):
        return KerasMetric(metric if isinstance(metric, str) else found.name, _function_of(found))
    if isinstance(found, keras.metrics.Metric):
        raise ConfigError(
            f"KerasDesc got the metric {shown(metric)}, which has a state that Keras can update only eagerly: give a "
            "function of targets and outputs, or use an Inferencer such as BinaryClassificationStats"
        )
    return KerasMetric(found.__name__, found)


def _function_of(metric: Any) -> Callable[[Any, Any], Any]:
    return lambda target, output: metric._fn(target, output, **metric._fn_kwargs)


def as_loss(loss: Loss) -> Callable[[Any, Any], Any]:
    """Return a function of targets and outputs, for the name of a loss, an object of Keras or such a function."""
    found: Callable[[Any, Any], Any] = keras.losses.get(loss)
    return found


def as_optimizer_function(optimizer: Any) -> Callable[[], tf.train.Optimizer]:
    """Return a function that makes an optimizer of TensorFlow.

    Raises:
        ConfigError: It is another one of Keras's than Adam and SGD, or has options that these have not.
    """
    if isinstance(optimizer, tf.train.Optimizer):
        return lambda: optimizer
    if not isinstance(optimizer, (str, keras.optimizers.Optimizer)) and callable(optimizer):
        function: Callable[[], tf.train.Optimizer] = optimizer
        return function
    found, options = _options_of(optimizer)
    used = [name for name, neutral in _NEUTRAL.items() if options.get(name, neutral) not in (neutral, False)]
    if type(found) not in _TRANSLATED or used or not isinstance(options["learning_rate"], float):
        raise ConfigError(
            f"KerasDesc got the optimizer {type(found).__name__}{' with ' + ', '.join(used) if used else ''}: Keras "
            "can run it only eagerly. Wanted one of tf.train, or Keras's Adam or SGD with a number as its learning rate"
        )
    logger.info(f"Keras's {type(found).__name__} becomes the optimizer of TensorFlow that makes the same steps.")
    return lambda: _TRANSLATED[type(found)](options)


def _options_of(optimizer: Any) -> tuple[Any, dict[str, Any]]:
    """Return one of Keras's optimizers and its options.

    Raises:
        ConfigError: It was made in a graph, where its numbers cannot be read.
    """
    try:
        with eager_mode():
            found = keras.optimizers.get(optimizer)
            return found, found.get_config()
    except (NotImplementedError, TypeError, ValueError) as error:
        raise ConfigError(
            f"KerasDesc cannot read the learning rate of {shown(optimizer)}, which was made in a graph: make it "
            "outside of the graph, or give its name or one of tf.train"
        ) from error


def _learning_rate(options: dict[str, Any]) -> tf.Variable:
    """Return a variable that hyper-parameter setters find by its name."""
    initializer = tf.constant_initializer(options["learning_rate"])
    return tf.get_variable("learning_rate", [], initializer=initializer, trainable=False)


def _adam(options: dict[str, Any]) -> tf.train.Optimizer:
    return tf.train.AdamOptimizer(_learning_rate(options), options["beta_1"], options["beta_2"], options["epsilon"])


def _sgd(options: dict[str, Any]) -> tf.train.Optimizer:
    if not options["momentum"]:
        return tf.train.GradientDescentOptimizer(_learning_rate(options))
    return tf.train.MomentumOptimizer(_learning_rate(options), options["momentum"], use_nesterov=options["nesterov"])


_TRANSLATED: dict[type[Any], Callable[[dict[str, Any]], tf.train.Optimizer]] = {
    keras.optimizers.Adam: _adam,
    keras.optimizers.SGD: _sgd,
}
