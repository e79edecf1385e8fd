"""Keras's losses and metrics, by name or as objects, as functions of targets and outputs for a graph.

A metric that is a mean over examples is such a function. Keras updates one with another state, such as an area under a
curve, only eagerly: it is computed at evaluation, over all examples.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import keras
import numpy as np
import tensorflow.compat.v1 as tf

from tpack.compat.runtime import eager_mode
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
            self._function: Callable[..., Any] = keras.losses.get(loss)
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

    def compute(self, target: tf.Tensor, output: tf.Tensor, weight: tf.Tensor | None = None) -> tf.Tensor:
        """Return the loss of a batch, a scalar; with weights or a mask of the output as Keras applies them."""
        function = self._function
        if isinstance(function, keras.losses.Loss):
            value = function(target, output, sample_weight=weight)
        elif weight is None and getattr(output, "_keras_mask", None) is None:
            value = function(*of_one_rank(target, output))
        else:
            value = _FunctionLoss(function)(target, output, sample_weight=weight)
        return tf.cast(tf.reduce_mean(value), cost_dtype())


class _FunctionLoss(keras.losses.Loss):
    """A function as a loss of Keras, which applies weights and masks."""

    def __init__(self, function: Callable[[Any, Any], Any]) -> None:
        super().__init__(name="loss_of_function")
        self._function = function

    def call(self, y_true: tf.Tensor, y_pred: tf.Tensor) -> tf.Tensor:
        """Return the losses of the examples."""
        return self._function(*of_one_rank(y_true, y_pred))


def cost_dtype() -> tf.DType:
    """Return the dtype of costs: float32, or float64 where it is Keras's."""
    return tf.float64 if keras.config.floatx() == "float64" else tf.float32


class KerasMetric:
    """A metric: its name, and a function of targets and outputs, or an object with its state.

    Args:
        metric: its name, an object of Keras, or a function of targets and outputs.
        is_weighted: apply the weights of the examples, which needs a state.

    Attributes:
        name: its name.

    Raises:
        ConfigError: Keras does not know the metric.
    """

    def __init__(self, metric: Metric, *, is_weighted: bool = False) -> None:
        self._keeper: keras.metrics.Metric | None = None
        self._function: Callable[[Any, Any], Any] | None = None
        self.is_weighted = is_weighted
        if metric in ("accuracy", "acc"):
            self.name = metric
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
                self._keeper = type(found).from_config(found.get_config())
        else:
            self._function = found

    @property
    def has_state(self) -> bool:
        """Whether Keras keeps it in variables other than a mean over examples."""
        return self.is_weighted or self._keeper is not None

    def keeper(self, target: Any, output: Any) -> keras.metrics.Metric:
        """Return the metric of Keras, with its state in eager variables, for tensors or arrays of these shapes."""
        if self._keeper is None:
            function = self._function or _accuracy_for(target, output)
            with eager_mode():
                self._keeper = keras.metrics.MeanMetricWrapper(function, name=self.name)
        return self._keeper

    def compute(self, target: tf.Tensor, output: tf.Tensor) -> tf.Tensor:
        """Return the mean of the metric over a batch, a scalar."""
        values = tf.cast((self._function or _accuracy_for(target, output))(target, output), cost_dtype())
        mask = getattr(output, "_keras_mask", None)
        if mask is None or mask.shape.rank != values.shape.rank:
            return tf.reduce_mean(values)
        mask = tf.cast(mask, values.dtype)
        return tf.math.divide_no_nan(tf.reduce_sum(values * mask), tf.reduce_sum(mask))


def of_one_rank(target: tf.Tensor, output: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Return targets and outputs of one rank, if they differ by a last dimension of length 1, as in Keras."""
    if target.shape.rank is None or output.shape.rank is None:
        return target, output
    if target.shape.rank == output.shape.rank + 1 and target.shape[-1] == 1:
        return tf.squeeze(target, -1), output
    if output.shape.rank == target.shape.rank + 1 and output.shape[-1] == 1:
        return tf.expand_dims(target, -1), output
    return target, output


def _accuracy_for(target: Any, output: Any) -> Callable[[Any, Any], Any]:
    """Return Keras's meaning of "accuracy" for tensors or arrays of these shapes."""
    if output.shape[-1] == 1:
        return keras.metrics.binary_accuracy
    if len(target.shape) < len(output.shape) or target.shape[-1] == 1:
        return keras.metrics.sparse_categorical_accuracy
    return keras.metrics.categorical_accuracy


class OutputLosses:
    """The losses of a model's outputs with their weights in the sum, also in place of Keras's own in ``compute_loss``.

    Args:
        losses: the loss of each output; None for none.
        loss_weights: the factor of each; None for 1.
        num_targets: the number of targets: one for each output, or for each output with a loss.

    Raises:
        ConfigError: The numbers differ.
    """

    def __init__(self, losses: Sequence[Any], loss_weights: Any, names: Sequence[str], num_targets: int) -> None:
        self.losses = [None if loss is None else KerasLoss(loss) for loss in losses]
        self.weights = [1.0] * len(losses)
        if loss_weights is not None:
            given = for_each_output(loss_weights, names)
            self.weights = [1.0 if weight is None else float(weight) for weight in given]
        num_losses = sum(loss is not None for loss in self.losses)
        if num_targets not in (len(losses), num_losses) or len(self.weights) != len(losses):
            raise ConfigError(
                f"KerasModel got {num_losses} loss(es) for {num_targets} target(s) and {len(self.weights)} weight(s): "
                "expected one for each"
            )
        self._has_all_targets = num_targets == len(losses)

    def paired(self, targets: Sequence[Any]) -> list[Any]:
        """Return the target of each output; None without one."""
        left = iter(targets)
        return [next(left) if self._has_all_targets or loss is not None else None for loss in self.losses]

    def compute(self, targets: Sequence[Any], outputs: Sequence[Any], weights: Sequence[Any]) -> list[Any]:
        """Return the loss of each output before it is weighted in the sum; None without one.

        Args:
            targets: as `paired` returns them.
            outputs: the outputs.
            weights: the weights of each output's examples; None for none.
        """
        columns = zip(self.losses, targets, outputs, weights, strict=True)
        return [None if loss is None else loss.compute(*column) for loss, *column in columns]

    def weighted(self, values: Sequence[Any]) -> list[tf.Tensor]:
        """Return the parts of the cost of what `compute` returned."""
        pairs = zip(values, self.weights, strict=True)
        return [value if weight == 1 else value * weight for value, weight in pairs if value is not None]


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


def metrics_by_output(metrics: Any, names: Sequence[str], *, is_weighted: bool = False) -> list[list[KerasMetric]]:
    """Return the metrics of each output: a flat list is for each, others are lists or dicts by output.

    Raises:
        ConfigError: There are metrics for another number of outputs, or unknown ones.
    """
    is_list = isinstance(metrics, list | tuple)
    # For several outputs, Keras takes a list of as many entries as one for each.
    is_by_output = is_list and (len(metrics) == len(names) > 1 or any(isinstance(e, list | tuple) for e in metrics))
    if isinstance(metrics, Mapping) or is_by_output:
        by_output = for_each_output(metrics, names)
    else:
        by_output = [metrics] * len(names)
    if len(by_output) != len(names):
        raise ConfigError(f"KerasModel got metrics for {len(by_output)} output(s) of {len(names)}")
    lists = [[] if each is None else list(each) if isinstance(each, list | tuple) else [each] for each in by_output]
    return [[KerasMetric(metric, is_weighted=is_weighted) for metric in each] for each in lists]


COMPUTE_LOSS, COMPUTE_METRICS = "compute_loss", "compute_metrics"

_REFUSED = ("train_step", "test_step", "make_train_function", "make_test_function")


def has_own(model: Any, method: str) -> bool:
    """Tell whether the class of a model, if there is one, overrides a method of ``keras.Model``."""
    return model is not None and getattr(type(model), method) is not getattr(keras.Model, method)


def refuse_own_steps(model: Any) -> None:
    """Refuse a model with its own steps.

    Raises:
        ConfigError: It has.
    """
    for method in _REFUSED:
        if has_own(model, method):
            raise ConfigError(
                f"KerasModel got a {type(model).__name__} with its own {method}, which Keras runs eagerly with its "
                "optimizer: expected at most its own compute_loss and compute_metrics; use compute_loss(self, x, y, "
                "y_pred, sample_weight, training) for another cost, a ModelDesc for the layers in a graph, or a "
                "trainer of your own for several optimizers"
            )


def own_metrics(model: Any) -> list[keras.metrics.Metric]:
    """Return the metrics that are attributes of a model or its layers, in an order that equal models share."""
    return [metric for layer in model._flatten_layers() for metric in layer._metrics]


_COPIES, _SMALL = 8, 1e-6


def refuse_sums(model: Any, x: Any) -> None:
    """Refuse a model for several towers whose layers add losses that are sums over the examples.

    The mean of the towers' sums is not the sum over all of them. A sum grows with copies of the same examples.

    Args:
        model: the model, built.
        x: inputs for it, nested arrays of at least one row.

    Raises:
        ConfigError: It adds one.
    """
    layers = model._flatten_layers()
    if not any(each.activity_regularizer or type(each).__module__.partition(".")[0] != "keras" for each in layers):
        return
    few, many = (_added_losses(model, x, copies) for copies in (1, _COPIES))
    for first, second in zip(few, many, strict=False):
        if abs(first) > _SMALL and abs(second / first - _COPIES) < 1:
            raise ConfigError(
                f"fit got several towers and a {type(model).__name__} whose layers add_loss a sum over the "
                "examples: expected a mean, such as keras.ops.mean, since gradients are averaged over towers; use "
                "towers=1 for this one"
            )


def _added_losses(model: Any, x: Any, copies: int) -> list[float]:
    """Return the losses that layers add in a call with copies of two examples, of which no state is kept."""
    repeated = keras.tree.map_structure(lambda column: np.concatenate([column[:2]] * copies), x)
    with eager_mode(), keras.StatelessScope(collect_losses=True) as scope:
        model(repeated, training=False)
        return [float(loss) for loss in scope.losses]
