"""Heads whose logits say which class an example is of: one of two, or one of several."""

import abc
from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError
from tpack.estimator.spec import ClassificationOutput, ExportOutput, Metrics, PredictOutput, RegressionOutput
from tpack.tf1.estimator.heads.base import DEFAULT_SIGNATURE, LossFn, LossSpec, SingleHead, chosen
from tpack.tf1.estimator.heads.checks import (
    check_classes,
    check_labels,
    check_logits,
    check_thresholds,
    ids_of,
    in_range,
)
from tpack.utils.validation import check_arguments

_SUM_OVER_BATCH_SIZE = "sum_over_batch_size"


class _ClassHead(SingleHead):
    """What heads for one class have in common: the names of classes."""

    _vocabulary: tuple[str, ...] | None
    _n_classes: int

    def class_predictions(self, class_ids: tf.Tensor) -> dict[str, tf.Tensor]:
        """Return which class was chosen and which there are, by number and by name.

        Args:
            class_ids: [B, 1] integers.
        """
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
    """One of two classes: one logit, that of the second one.

    Args:
        weight_column: a key of the features, or a numeric column.
        thresholds: of probabilities, for which accuracy, precision and recall are told too.
        label_vocabulary: the names of the classes, which labels are then; else labels are numbers from 0 to 1.
        loss_reduction: how the losses of examples become one.
        loss_fn: takes ``labels`` and ``logits``, returns [B, 1]; None for the cross entropy.
        name: added to the names of metrics.

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
        """Return the probability, and the class that is more probable."""
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
        """Return labels as floats from 0 to 1.

        Args:
            labels: what came.
            logits: what they are to go with.

        Raises:
            ConfigError: They are of another dtype.
        """
        labels = check_labels(labels, logits, 1)
        if self._vocabulary is not None:
            labels = ids_of(labels, self._vocabulary, "BinaryClassHead")
        elif labels.dtype == tf.string:
            raise ConfigError("labels of a BinaryClassHead without label_vocabulary are numbers, got string")
        return in_range(tf.cast(labels, tf.float32), 1, "labels of two classes")

    def unreduced_loss(self, labels: tf.Tensor, logits: tf.Tensor, features: Any) -> tf.Tensor:
        """Return the cross entropy, or what ``loss_fn`` says."""
        if self._loss_fn is not None:
            return self.own_loss(labels, logits, features, 1)
        return tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits)

    def metric_ops(
        self, found: LossSpec, predictions: Mapping[Any, tf.Tensor], regularization: tf.Tensor | None
    ) -> Metrics:
        """Return how well the classes are told apart."""
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
        return {
            **self.loss_metrics(found, regularization),
            **{self.key(name): metric for name, metric in made.items()},
        }

    def export_outputs(self, predictions: Mapping[Any, tf.Tensor]) -> dict[str, ExportOutput]:
        """Offer a classification, the probability as a regression, and all predictions."""
        classification = self.classification(predictions)
        return {
            DEFAULT_SIGNATURE: classification,
            "classification": classification,
            "regression": RegressionOutput(predictions["logistic"]),
            "predict": PredictOutput(dict(predictions)),
        }


@check_arguments
class MultiClassHead(_ClassHead):
    """One of several classes: one logit for each.

    Args:
        n_classes: how many, at least three.
        weight_column: a key of the features, or a numeric column.
        label_vocabulary: the names of the classes, which labels are then; else labels are integers.
        loss_reduction: how the losses of examples become one.
        loss_fn: takes ``labels`` and ``logits``, returns [B, 1]; None for the cross entropy.
        name: added to the names of metrics.

    Raises:
        ConfigError: There are fewer classes, or another number of names, or the losses are not reduced.
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
        """Return the probabilities, and the class that is most probable."""
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

    def unreduced_loss(self, labels: tf.Tensor, logits: tf.Tensor, features: Any) -> tf.Tensor:
        """Return the cross entropy, or what ``loss_fn`` says."""
        if self._loss_fn is not None:
            return self.own_loss(labels, logits, features, 1)
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
        """Offer a classification, and all predictions."""
        classification = self.classification(predictions)
        return {
            DEFAULT_SIGNATURE: classification,
            "classification": classification,
            "predict": PredictOutput(dict(predictions)),
        }


def class_names(n_classes: int, vocabulary: Sequence[str] | None) -> tf.Tensor:
    """Return the names of classes, [n_classes] strings: their numbers where there is no vocabulary."""
    names = list(vocabulary) if vocabulary is not None else [str(number) for number in range(n_classes)]
    return tf.constant(names, tf.string)


def for_each_example(row: tf.Tensor, like: tf.Tensor) -> tf.Tensor:
    """Return a row once for each example.

    Args:
        row: [D].
        like: a tensor with a row for each example.

    Shapes:
        [D] to [B, D].
    """
    return tf.tile(row[tf.newaxis], [tf.shape(like)[0], 1])


def curve_metrics(labels: tf.Tensor, probabilities: tf.Tensor, weights: Any) -> dict[str, Any]:
    """Return the areas under the ROC curve and under that of precision and recall, by name."""
    curves = {"auc": "ROC", "auc_precision_recall": "PR"}
    return {name: tf.metrics.auc(labels, probabilities, weights=weights, curve=curve) for name, curve in curves.items()}


def threshold_metrics(
    labels: tf.Tensor, probabilities: tf.Tensor, weights: Any, thresholds: Sequence[float]
) -> dict[str, Any]:
    """Return accuracy, precision and recall of a class that is chosen above a threshold, for each threshold."""
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
    """Return the accuracy of what always says the more frequent class."""
    mean, update = tf.metrics.mean(labels, weights=weights)
    return tf.maximum(mean, 1.0 - mean), tf.maximum(update, 1.0 - update)


def _full(weights: Any, labels: tf.Tensor) -> Any:
    return None if isinstance(weights, float) else weights * tf.ones_like(labels, tf.float32)
