"""Keras's losses and metrics, by name or as objects, as functions of targets and outputs for a graph.

A metric that is a mean over examples is such a function. Keras updates one with another state, such as an area under a
curve, only eagerly: it is computed at evaluation, over all examples.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import keras
import tensorflow.compat.v1 as tf

from tpack.compat import eager_mode
from tpack.errors import ConfigError
from tpack.utils.validation import shown

Loss: TypeAlias = str | Callable[..., Any]
Metric: TypeAlias = str | Callable[..., Any]


class KerasLoss:
    """A loss: its mean over the examples of a tower, whose mean over the towers is that of all examples.

    Args:
        loss: its name, an object of Keras, or a function of targets and outputs.

    Raises:
        ConfigError: Keras does not know the loss, or it is a sum over examples.
    """

    def __init__(self, loss: Loss) -> None:
        try:
            self._function: Callable[[Any, Any], Any] = keras.losses.get(loss)
        except (TypeError, ValueError) as error:
            raise ConfigError(f"KerasModel got the loss {shown(loss)}, which Keras does not know: {error}") from error
        if not callable(self._function):
            raise ConfigError(f"KerasModel got the loss {shown(loss)}: expected the name of one, or a function")
        if getattr(self._function, "reduction", None) == "sum":
            raise ConfigError(
                f"KerasModel got the loss {shown(loss)}, a sum over the examples: expected a mean, Keras's default "
                "reduction, since gradients are averaged over towers"
            )
        self.is_sparse = "sparse" in getattr(self._function, "__name__", type(self._function).__name__).lower()

    def compute(self, target: tf.Tensor, output: tf.Tensor) -> tf.Tensor:
        """Return the loss of a batch, a scalar."""
        pair = (target, output) if isinstance(self._function, keras.losses.Loss) else of_one_rank(target, output)
        return tf.cast(tf.reduce_mean(self._function(*pair)), tf.float32)


class KerasMetric:
    """A metric: its name, and a function of targets and outputs, or an object with its state.

    Args:
        metric: its name, an object of Keras, or a function of targets and outputs.

    Attributes:
        name: its name.
        keeper: the metric of Keras that evaluation updates; None where a function is enough.

    Raises:
        ConfigError: Keras does not know the metric.
    """

    def __init__(self, metric: Metric) -> None:
        self.keeper: keras.metrics.Metric | None = None
        self._function: Callable[[Any, Any], Any] | None = None
        if metric in ("accuracy", "acc"):
            self.name = "accuracy"
            return
        try:
            with eager_mode():
                found: Any = keras.metrics.get(metric)
        except (TypeError, ValueError) as error:
            raise ConfigError(f"KerasModel got the metric {shown(metric)}, unknown to Keras: {error}") from error
        self.name = metric if isinstance(metric, str) else getattr(found, "name", None) or found.__name__
        if isinstance(found, keras.metrics.MeanMetricWrapper):
            self._function = lambda target, output: found._fn(target, output, **found._fn_kwargs)
        elif isinstance(found, keras.metrics.Metric):
            # Each output has its own.
            with eager_mode():
                self.keeper = type(found).from_config(found.get_config())
        else:
            self._function = found

    def compute(self, target: tf.Tensor, output: tf.Tensor) -> tf.Tensor:
        """Return the mean of the metric over a batch, a scalar."""
        function = self._function or _accuracy_for(target, output)
        return tf.reduce_mean(tf.cast(function(target, output), tf.float32))


def of_one_rank(target: tf.Tensor, output: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Return targets and outputs of one rank, if they differ by a last dimension of length 1, as in Keras."""
    if target.shape.rank is None or output.shape.rank is None:
        return target, output
    if target.shape.rank == output.shape.rank + 1 and target.shape[-1] == 1:
        return tf.squeeze(target, -1), output
    if output.shape.rank == target.shape.rank + 1 and output.shape[-1] == 1:
        return tf.expand_dims(target, -1), output
    return target, output


def _accuracy_for(target: tf.Tensor, output: tf.Tensor) -> Callable[[Any, Any], Any]:
    """Return Keras's meaning of "accuracy" for these shapes."""
    if output.shape[-1] == 1:
        return keras.metrics.binary_accuracy
    if target.shape.rank < output.shape.rank or target.shape[-1] == 1:
        return keras.metrics.sparse_categorical_accuracy
    return keras.metrics.categorical_accuracy


def for_each_output(value: Any, outputs: Sequence[str]) -> list[Any]:
    """Return the value of each output: from a dict by name, from a list by position, or else the same for all.

    Args:
        value: one value, a list with one for each output, or a dict.
        outputs: the names of the outputs.

    Raises:
        ConfigError: A dict has other names.
    """
    if isinstance(value, Mapping):
        if unknown := [name for name in value if name not in outputs]:
            raise ConfigError(f"the model has no output {unknown[0]!r}: expected some of {', '.join(outputs)}")
        return [value.get(name) for name in outputs]
    return list(value) if isinstance(value, list | tuple) else [value] * len(outputs)
