"""A head for examples that may be of several classes at once."""

from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError
from tpack.estimator.spec import ClassificationOutput, ExportOutput, Metrics, PredictOutput
from tpack.tf1.estimator.heads.base import DEFAULT_SIGNATURE, LossFn, LossSpec, SingleHead, chosen
from tpack.tf1.estimator.heads.checks import (
    check_classes,
    check_labels,
    check_logits,
    check_thresholds,
    ids_of,
    in_range,
)
from tpack.tf1.estimator.heads.classification import class_names, curve_metrics, for_each_example, threshold_metrics
from tpack.utils.validation import check_arguments, is_integer, shown

_SUM_OVER_BATCH_SIZE = "sum_over_batch_size"


@check_arguments
class MultiLabelHead(SingleHead):
    """Any of several classes: one logit for each, and the mean of their cross entropies as the loss.

    Labels are [B, n_classes] zeros and ones, or a ``SparseTensor`` with the numbers or names of each example's classes.

    Args:
        n_classes: how many, at least two.
        weight_column: a key of the features, or a numeric column.
        thresholds: of probabilities, for which accuracy, precision and recall are told.
        label_vocabulary: the names of the classes.
        loss_reduction: how the losses of examples become one.
        loss_fn: takes ``labels`` and ``logits``, returns [B, 1]; None for the mean cross entropy.
        classes_for_class_based_metrics: numbers or names of classes with metrics of their own.
        name: added to the names of metrics.

    Raises:
        ConfigError: There are fewer classes, another number of names, a threshold that is not between 0 and 1, a class
            that is none, or losses that are not reduced.
    """

    def __init__(
        self,
        n_classes: int,
        weight_column: Any = None,
        thresholds: Sequence[float] | None = None,
        label_vocabulary: Sequence[str] | None = None,
        loss_reduction: str = _SUM_OVER_BATCH_SIZE,
        loss_fn: LossFn | None = None,
        classes_for_class_based_metrics: Sequence[Any] | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__(name, weight_column, loss_reduction, loss_fn)
        check_classes(self, n_classes, label_vocabulary, 2)
        self._n_classes = n_classes
        self._thresholds = check_thresholds(thresholds)
        self._vocabulary = None if label_vocabulary is None else tuple(label_vocabulary)
        self._watched = tuple(map(self._number_of, classes_for_class_based_metrics or ()))

    @property
    def logits_dimension(self) -> int:
        """One logit for each class."""
        return self._n_classes

    def predictions(self, logits: Any, keys: Sequence[str] | None = None) -> dict[Any, tf.Tensor]:
        """Return the probability of each class."""
        logits = check_logits(logits, self._n_classes)
        with tf.name_scope("predictions"):
            made = {"logits": logits, "probabilities": tf.sigmoid(logits, name="probabilities")}
        return chosen(made, keys)

    def numbered_labels(self, labels: Any, logits: tf.Tensor) -> tf.Tensor:
        """Return labels as zeros and ones, [B, n_classes].

        Args:
            labels: what came.
            logits: what they are to go with.

        Raises:
            ConfigError: They are of another dtype.
        """
        if isinstance(labels, tf.SparseTensor):
            ids = in_range(ids_of(labels.values, self._vocabulary, "MultiLabelHead"), self._n_classes - 1, "labels")
            numbered = tf.SparseTensor(labels.indices, ids, labels.dense_shape)
            labels = tf.cast(tf.sparse.to_indicator(numbered, self._n_classes), tf.int64)
        labels = check_labels(labels, logits, self._n_classes)
        if not labels.dtype.is_integer:
            raise ConfigError(f"dense labels of a MultiLabelHead are integers, 0 or 1, got {labels.dtype.name}")
        return in_range(labels, 1, "dense labels of several classes")

    def unreduced_loss(self, labels: tf.Tensor, logits: tf.Tensor, features: Any) -> tf.Tensor:
        """Return the mean cross entropy of the classes, or what ``loss_fn`` says."""
        if self._loss_fn is not None:
            return self.own_loss(labels, logits, features, 1)
        each = tf.losses.sigmoid_cross_entropy(labels, logits, reduction=tf.losses.Reduction.NONE)
        return tf.reduce_mean(each, axis=-1, keepdims=True)

    def metric_ops(
        self, found: LossSpec, predictions: Mapping[Any, tf.Tensor], regularization: tf.Tensor | None
    ) -> Metrics:
        """Return how well all classes are told, and those with metrics of their own."""
        labels, probabilities = found.processed_labels, predictions["probabilities"]
        weights = None if isinstance(found.weights, float) else found.weights * tf.ones_like(probabilities)
        made = {
            **curve_metrics(labels, probabilities, weights),
            **threshold_metrics(labels, probabilities, weights, self._thresholds),
        }
        for number in self._watched:
            of_class = f"class{number}" if self._vocabulary is None else self._vocabulary[number]
            only = None if weights is None else weights[:, number]
            made[f"probability_mean/{of_class}"] = tf.metrics.mean(probabilities[:, number], weights=only)
            curves = curve_metrics(labels[:, number], probabilities[:, number], only)
            made.update({f"{name}/{of_class}": metric for name, metric in curves.items()})
        return {
            **self.loss_metrics(found, regularization),
            **{self.key(name): metric for name, metric in made.items()},
        }

    def export_outputs(self, predictions: Mapping[Any, tf.Tensor]) -> dict[str, ExportOutput]:
        """Offer a classification, and all predictions."""
        probabilities = predictions["probabilities"]
        names = for_each_example(class_names(self._n_classes, self._vocabulary), probabilities)
        classification = ClassificationOutput(probabilities, names)
        return {
            DEFAULT_SIGNATURE: classification,
            "classification": classification,
            "predict": PredictOutput(dict(predictions)),
        }

    def _number_of(self, of_class: Any) -> int:
        if self._vocabulary is not None and of_class in self._vocabulary:
            return self._vocabulary.index(of_class)
        if is_integer(of_class) and 0 <= of_class < self._n_classes:
            return of_class
        raise ConfigError(
            f"classes_for_class_based_metrics are numbers from 0 to {self._n_classes - 1}, or names of the "
            f"label_vocabulary; got {shown(of_class)}"
        )
