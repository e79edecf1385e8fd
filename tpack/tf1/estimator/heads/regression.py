"""Heads for numbers: regression, Poisson and logistic regression."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError
from tpack.estimator.spec import ExportOutput, Metrics, RegressionOutput
from tpack.tf1.estimator.heads.base import LossFn, LossSpec, SingleHead, chosen, exported
from tpack.tf1.estimator.heads.checks import check_labels, check_logits, in_range
from tpack.tf1.signatures import like
from tpack.utils.validation import check_arguments, check_count

_SUM_OVER_BATCH_SIZE = "sum_over_batch_size"


@check_arguments
class RegressionHead(SingleHead):
    """Numbers, with the squared error as the loss.

    Args:
        label_dimension: the number of numbers of an example.
        weight_column: a key of the features, or a numeric column.
        loss_reduction: of the losses of examples.
        loss_fn: takes ``labels`` and ``logits``, returns [B, label_dimension]; None for the squared error.
        inverse_link_fn: from logits to predictions; None where they are the same.
        name: a suffix of the names of metrics.

    Raises:
        ConfigError: The dimension is not positive, or the losses are not reduced.
    """

    def __init__(
        self,
        label_dimension: int = 1,
        weight_column: Any = None,
        loss_reduction: str = _SUM_OVER_BATCH_SIZE,
        loss_fn: LossFn | None = None,
        inverse_link_fn: Callable[[tf.Tensor], tf.Tensor] | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__(name, weight_column, loss_reduction, loss_fn)
        self._dimension = self._loss_width = check_count(self, "label_dimension", label_dimension)
        self._inverse_link = inverse_link_fn

    @property
    def logits_dimension(self) -> int:
        """One logit for each number."""
        return self._dimension

    def predictions(self, logits: Any, keys: Sequence[str] | None = None) -> dict[Any, tf.Tensor]:
        """Return the numbers, and the logits where they differ."""
        logits = check_logits(logits, self._dimension)
        with tf.name_scope("predictions"):
            if self._inverse_link is None:
                return chosen({"predictions": logits}, keys)
            return chosen({"predictions": self._inverse_link(logits), "logits": logits}, keys)

    def numbered_labels(self, labels: Any, logits: tf.Tensor) -> tf.Tensor:
        """Return labels as floats; raise ConfigError if they are text."""
        labels = check_labels(labels, logits, self._dimension)
        if labels.dtype == tf.string:
            raise ConfigError("a regression got labels of string: expected numbers")
        return tf.cast(labels, tf.float32)

    def unreduced_loss(self, labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
        """Return the squared error."""
        return tf.losses.mean_squared_error(labels, logits, reduction=tf.losses.Reduction.NONE)

    def metric_ops(
        self, found: LossSpec, predictions: Mapping[Any, tf.Tensor], regularization: tf.Tensor | None
    ) -> Metrics:
        """Return the means of the loss, of labels and of predictions."""
        return {
            **self.loss_metrics(found, regularization),
            self.key("prediction/mean"): tf.metrics.mean(predictions["predictions"], weights=found.weights),
            self.key("label/mean"): tf.metrics.mean(found.processed_labels, weights=found.weights),
        }

    def export_outputs(self, predictions: Mapping[Any, tf.Tensor]) -> dict[str, ExportOutput]:
        """Return a regression, and all predictions."""
        return exported("regression", RegressionOutput(predictions["predictions"]), predictions)


@check_arguments
class PoissonRegressionHead(RegressionHead):
    """Counts: logits are logarithms of their means, and the loss is the negative Poisson log likelihood.

    Args:
        label_dimension: the number of numbers of an example.
        weight_column: a key of the features, or a numeric column.
        loss_reduction: of the losses of examples.
        compute_full_loss: add Stirling's approximation of the term that depends on labels alone.
        name: a suffix of the names of metrics.

    Raises:
        ConfigError: The dimension is not positive, or the losses are not reduced.
    """

    @like(
        RegressionHead.__init__,
        without="loss_fn inverse_link_fn",
        after={"loss_reduction": {"compute_full_loss": True}},
    )
    def __init__(self, compute_full_loss: bool, **given: Any) -> None:
        def loss(labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
            return tf.nn.log_poisson_loss(labels, logits, compute_full_loss=compute_full_loss)

        super().__init__(**given, loss_fn=loss, inverse_link_fn=tf.math.exp)


@check_arguments
class LogisticRegressionHead(RegressionHead):
    """A probability: labels are numbers from 0 to 1, and the loss is the cross entropy.

    Args:
        weight_column: a key of the features, or a numeric column.
        loss_reduction: of the losses of examples.
        name: a suffix of the names of metrics.

    Raises:
        ConfigError: The losses are not reduced.
    """

    @like(RegressionHead.__init__, without="label_dimension loss_fn inverse_link_fn")
    def __init__(self, **given: Any) -> None:
        def loss(labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
            return tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits)

        super().__init__(**given, loss_fn=loss, inverse_link_fn=tf.sigmoid)

    def numbered_labels(self, labels: Any, logits: tf.Tensor) -> tf.Tensor:
        """Return labels as floats, checked at run time to be from 0 to 1."""
        return in_range(super().numbered_labels(labels, logits), 1, "labels of a LogisticRegressionHead", hint="")
