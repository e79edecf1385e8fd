"""Heads for classes: one of two, one of several, or any of several."""

import abc
from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError
from tpack.estimator.spec import ClassificationOutput, ExportOutput, Metrics, RegressionOutput
from tpack.tf1.estimator.heads.base import LossFn, LossSpec, SingleHead, chosen, exported
from tpack.tf1.estimator.heads.checks import (
    check_classes,
    check_labels,
    check_logits,
    check_thresholds,
    ids_of,
    in_range,
)
from tpack.utils.validation import check_arguments, shown

_SUM_OVER_BATCH_SIZE = "sum_over_batch_size"


class _ClassHead(SingleHead):
    """A head for one class, with the names of classes."""

    _vocabulary: tuple[str, ...] | None
    _n_classes: int

    def class_predictions(self, class_ids: tf.Tensor) -> dict[str, tf.Tensor]:
        """Return the chosen and all classes, by number and by name, for class ids [B, 1]."""
        names = class_names(self._n_classes, self._vocabulary)
        return {
            "class_ids": class_ids,
            "classes": tf.gather(names, class_ids, name="classes"),
            "all_class_ids": for_each_example(tf.range(self._n_classes), class_ids),
            "all_classes": for_each_example(names, class_ids),
        }

    def classification(self, predictions: Mapping[Any, tf.Tensor]) -> ClassificationOutput:
        """Return the export output with the probabilities of all classes."""
        return ClassificationOutput(predictions["probabilities"], predictions["all_classes"])

    @abc.abstractmethod
    def metric_ops(
        self, found: LossSpec, predictions: Mapping[Any, tf.Tensor], regularization: tf.Tensor | None
    ) -> Metrics:
        """Return metrics for evaluation, by name."""


@check_arguments
class BinaryClassHead(_ClassHead):
    """One of two classes, by the logit of the second one.

    Args:
        weight_column: a key of the features, or a numeric column.
        thresholds: probabilities at which accuracy, precision and recall are reported too.
        label_vocabulary: the names of the classes, as labels; without it labels are numbers from 0 to 1.
        loss_reduction: of the losses of examples.
        loss_fn: takes ``labels`` and ``logits``, returns [B, 1]; None for the cross entropy.
        name: a suffix of the names of metrics.

    Raises:
        ConfigError: A threshold is not between 0 and 1, there are not two names, or the losses are not reduced.
    """

    def __init__(
        self,
        weight_column: Any = None,
        thresholds: Sequence[float] | None = None,
        label_vocabulary: Sequence[str] | None = None,
        loss_reduction: str = _SUM_OVER_BATCH_SIZE,
        loss_fn: LossFn | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__(name, weight_column, loss_reduction, loss_fn)
        check_classes(self, 2, label_vocabulary, 2)
        self._n_classes = 2
        self._thresholds = check_thresholds(thresholds)
        self._vocabulary = None if label_vocabulary is None else tuple(label_vocabulary)

    @property
    def logits_dimension(self) -> int:
        """One logit."""
        return 1

    def predictions(self, logits: Any, keys: Sequence[str] | None = None) -> dict[Any, tf.Tensor]:
        """Return the probability, and the more probable class."""
        logits = check_logits(logits, 1)
        with tf.name_scope("predictions"):
            logistic = tf.sigmoid(logits, name="logistic")
            both = tf.concat([tf.zeros_like(logits), logits], -1)
            # Of two that are alike, the first.
            class_ids = tf.cast(logits > 0, tf.int64)
            made = {
                "logits": logits,
                "logistic": logistic,
                "probabilities": tf.nn.softmax(both, name="probabilities"),
                **self.class_predictions(class_ids),
            }
        return chosen(made, keys)

    def numbered_labels(self, labels: Any, logits: tf.Tensor) -> tf.Tensor:
        """Return labels as floats from 0 to 1; raise ConfigError if they are of another dtype."""
        labels = check_labels(labels, logits, 1)
        if self._vocabulary is not None:
            labels = ids_of(labels, self._vocabulary, "BinaryClassHead")
        elif labels.dtype == tf.string:
            raise ConfigError("a BinaryClassHead without label_vocabulary got labels of string: expected numbers")
        return in_range(tf.cast(labels, tf.float32), 1, "labels of two classes")

    def unreduced_loss(self, labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
        """Return the cross entropy."""
        return tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits)

    def metric_ops(
        self, found: LossSpec, predictions: Mapping[Any, tf.Tensor], regularization: tf.Tensor | None
    ) -> Metrics:
        """Return the metrics of a binary classification."""
        labels, weights = found.processed_labels, _full(found.weights, found.processed_labels)
        logistic, class_ids = predictions["logistic"], predictions["class_ids"]
        made = {
            "accuracy": tf.metrics.accuracy(labels, class_ids, weights=weights),
            "precision": tf.metrics.precision(labels, class_ids, weights=weights),
            "recall": tf.metrics.recall(labels, class_ids, weights=weights),
            "prediction/mean": tf.metrics.mean(logistic, weights=weights),
            "label/mean": tf.metrics.mean(labels, weights=weights),
            "accuracy_baseline": _accuracy_baseline(labels, weights),
            **curve_metrics(labels, logistic, weights),
            **threshold_metrics(labels, logistic, weights, self._thresholds),
        }
        return {**self.loss_metrics(found, regularization), **{self.key(name): metric for name, metric in made.items()}}

    def export_outputs(self, predictions: Mapping[Any, tf.Tensor]) -> dict[str, ExportOutput]:
        """Return a classification, the probability as a regression, and all predictions."""
        regression = RegressionOutput(predictions["logistic"])
        return exported("classification", self.classification(predictions), predictions, regression=regression)


@check_arguments
class MultiClassHead(_ClassHead):
    """One of several classes, with a logit for each.

    Args:
        n_classes: at least three.
        weight_column: a key of the features, or a numeric column.
        label_vocabulary: the names of the classes, as labels; without it labels are integers.
        loss_reduction: of the losses of examples.
        loss_fn: takes ``labels`` and ``logits``, returns [B, 1]; None for the cross entropy.
        name: a suffix of the names of metrics.

    Raises:
        ConfigError: There are fewer classes, another number of names, or the losses are not reduced.
    """

    def __init__(
        self,
        n_classes: int,
        weight_column: Any = None,
        label_vocabulary: Sequence[str] | None = None,
        loss_reduction: str = _SUM_OVER_BATCH_SIZE,
        loss_fn: LossFn | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__(name, weight_column, loss_reduction, loss_fn)
        check_classes(self, n_classes, label_vocabulary, 3)
        self._n_classes = n_classes
        self._vocabulary = None if label_vocabulary is None else tuple(label_vocabulary)

    @property
    def logits_dimension(self) -> int:
        """One logit for each class."""
        return self._n_classes

    def predictions(self, logits: Any, keys: Sequence[str] | None = None) -> dict[Any, tf.Tensor]:
        """Return the probabilities, and the most probable class."""
        logits = check_logits(logits, self._n_classes)
        with tf.name_scope("predictions"):
            made = {
                "logits": logits,
                "probabilities": tf.nn.softmax(logits, name="probabilities"),
                **self.class_predictions(tf.argmax(logits, axis=-1)[..., tf.newaxis]),
            }
        return chosen(made, keys)

    def numbered_labels(self, labels: Any, logits: tf.Tensor) -> tf.Tensor:
        """Return labels as numbers of classes."""
        labels = ids_of(check_labels(labels, logits, 1), self._vocabulary, "MultiClassHead")
        return in_range(labels, self._n_classes - 1, "labels")

    def unreduced_loss(self, labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
        """Return the cross entropy."""
        flat = tf.losses.sparse_softmax_cross_entropy(labels, logits, reduction=tf.losses.Reduction.NONE)
        return flat[..., tf.newaxis]

    def metric_ops(
        self, found: LossSpec, predictions: Mapping[Any, tf.Tensor], regularization: tf.Tensor | None
    ) -> Metrics:
        """Return the mean loss and the accuracy."""
        weights = _full(found.weights, found.processed_labels)
        accuracy = tf.metrics.accuracy(found.processed_labels, predictions["class_ids"], weights=weights)
        return {**self.loss_metrics(found, regularization), self.key("accuracy"): accuracy}

    def export_outputs(self, predictions: Mapping[Any, tf.Tensor]) -> dict[str, ExportOutput]:
        """Return a classification, and all predictions."""
        return exported("classification", self.classification(predictions), predictions)


@check_arguments
class MultiLabelHead(SingleHead):
    """Any of several classes: a logit for each, and the mean of their cross entropies as the loss.

    Labels are [B, n_classes] zeros and ones, or a ``SparseTensor`` with the numbers or names of each example's classes.

    Args:
        n_classes: at least two.
        weight_column: a key of the features, or a numeric column.
        thresholds: probabilities at which accuracy, precision and recall are reported.
        label_vocabulary: the names of the classes.
        loss_reduction: of the losses of examples.
        loss_fn: takes ``labels`` and ``logits``, returns [B, 1]; None for the mean cross entropy.
        classes_for_class_based_metrics: numbers or names of classes with metrics of their own.
        name: a suffix of the names of metrics.

    Raises:
        ConfigError: There are fewer classes, another number of names, a threshold that is not between 0 and 1, an
            unknown class, or losses that are not reduced.
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
        """Return labels as zeros and ones, [B, n_classes]; raise ConfigError if they are of another dtype."""
        if isinstance(labels, tf.SparseTensor):
            ids = in_range(ids_of(labels.values, self._vocabulary, "MultiLabelHead"), self._n_classes - 1, "labels")
            numbered = tf.SparseTensor(labels.indices, ids, labels.dense_shape)
            labels = tf.cast(tf.sparse.to_indicator(numbered, self._n_classes), tf.int64)
        labels = check_labels(labels, logits, self._n_classes)
        if not labels.dtype.is_integer:
            raise ConfigError(f"a MultiLabelHead got dense labels of {labels.dtype.name}: expected integers, 0 or 1")
        return in_range(labels, 1, "dense labels of several classes")

    def unreduced_loss(self, labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
        """Return the mean cross entropy of the classes."""
        each = tf.losses.sigmoid_cross_entropy(labels, logits, reduction=tf.losses.Reduction.NONE)
        return tf.reduce_mean(each, axis=-1, keepdims=True)

    def metric_ops(
        self, found: LossSpec, predictions: Mapping[Any, tf.Tensor], regularization: tf.Tensor | None
    ) -> Metrics:
        """Return the metrics of all classes together, and of those with their own."""
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
        return {**self.loss_metrics(found, regularization), **{self.key(name): metric for name, metric in made.items()}}

    def export_outputs(self, predictions: Mapping[Any, tf.Tensor]) -> dict[str, ExportOutput]:
        """Return a classification, and all predictions."""
        probabilities = predictions["probabilities"]
        names = for_each_example(class_names(self._n_classes, self._vocabulary), probabilities)
        return exported("classification", ClassificationOutput(probabilities, names), predictions)

    def _number_of(self, of_class: Any) -> int:
        if self._vocabulary is not None and of_class in self._vocabulary:
            return self._vocabulary.index(of_class)
        if isinstance(of_class, int) and not isinstance(of_class, bool) and 0 <= of_class < self._n_classes:
            return of_class
        raise ConfigError(
            f"got classes_for_class_based_metrics with {shown(of_class)}: expected numbers from 0 to "
            f"{self._n_classes - 1}, or names of the label_vocabulary"
        )


def class_names(n_classes: int, vocabulary: Sequence[str] | None) -> tf.Tensor:
    """Return the names of classes, [n_classes] strings: their numbers without a vocabulary."""
    names = list(vocabulary) if vocabulary is not None else [str(number) for number in range(n_classes)]
    return tf.constant(names, tf.string)


def for_each_example(row: tf.Tensor, like: tf.Tensor) -> tf.Tensor:
    """Repeat a row [D] for each example of a tensor: [B, D]."""
    return tf.tile(row[tf.newaxis], [tf.shape(like)[0], 1])


def curve_metrics(labels: tf.Tensor, probabilities: tf.Tensor, weights: Any) -> dict[str, Any]:
    """Return the areas under the ROC and the precision-recall curve, by name."""
    curves = {"auc": "ROC", "auc_precision_recall": "PR"}
    return {name: tf.metrics.auc(labels, probabilities, weights=weights, curve=curve) for name, curve in curves.items()}


def threshold_metrics(
    labels: tf.Tensor, probabilities: tf.Tensor, weights: Any, thresholds: Sequence[float]
) -> dict[str, Any]:
    """Return accuracy, precision and recall of a class at each threshold."""
    made = {}
    for threshold in thresholds:
        above = tf.cast(probabilities >= threshold, tf.float32)
        at = f"positive_threshold_{threshold:g}"
        made[f"accuracy/{at}"] = tf.metrics.accuracy(labels, above, weights=weights)
        made[f"precision/{at}"] = _first_of(
            tf.metrics.precision_at_thresholds(labels, probabilities, [threshold], weights=weights)
        )
        made[f"recall/{at}"] = _first_of(
            tf.metrics.recall_at_thresholds(labels, probabilities, [threshold], weights=weights)
        )
    return made


def _first_of(metric: tuple[tf.Tensor, tf.Tensor]) -> tuple[tf.Tensor, tf.Tensor]:
    value, update = metric
    return tf.squeeze(value), tf.squeeze(update)


def _accuracy_baseline(labels: tf.Tensor, weights: Any) -> tuple[tf.Tensor, tf.Tensor]:
    """Return the accuracy of always choosing the more frequent class."""
    mean, update = tf.metrics.mean(labels, weights=weights)
    return tf.maximum(mean, 1.0 - mean), tf.maximum(update, 1.0 - update)


def _full(weights: Any, labels: tf.Tensor) -> Any:
    return None if isinstance(weights, float) else weights * tf.ones_like(labels, tf.float32)
