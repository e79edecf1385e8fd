"""Metrics of ``tf.metrics`` with predictions before labels, as ``tf.contrib.metrics`` had them."""

import inspect
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

import tensorflow.compat.v1 as tf

from tpack.tf1.signatures import like

Metric: TypeAlias = tuple[Any, Any]
Names: TypeAlias = Iterable[str] | None


def _predictions_first(metric: Callable[..., Metric], doc: str, *, without: tuple[str, ...] = ()) -> Callable:
    """Make a metric with the first two arguments of another one swapped, and without some."""
    first, second, *others = inspect.signature(metric).parameters.values()
    signature = inspect.Signature([second, first, *(other for other in others if other.name not in without)])

    def streaming(*args: Any, **kwargs: Any) -> Metric:
        return metric(**signature.bind(*args, **kwargs).arguments)

    streaming.__doc__ = f"{doc}\n\n    Returns:\n        The value so far, and what adds a batch to it.\n    "
    streaming.__signature__ = signature  # type: ignore[attr-defined]
    return streaming


streaming_accuracy = _predictions_first(tf.metrics.accuracy, "Compute the share of predictions that equal labels.")
streaming_auc = _predictions_first(
    tf.metrics.auc, "Approximate the area under a curve.", without=("summation_method", "thresholds")
)
streaming_false_negatives = _predictions_first(tf.metrics.false_negatives, "Add up false negatives.")
streaming_false_positives = _predictions_first(tf.metrics.false_positives, "Add up false positives.")
streaming_mean_absolute_error = _predictions_first(tf.metrics.mean_absolute_error, "Average the absolute error.")
streaming_mean_cosine_distance = _predictions_first(tf.metrics.mean_cosine_distance, "Average the cosine distance.")
streaming_mean_iou = _predictions_first(tf.metrics.mean_iou, "Average intersection over union of the classes.")
streaming_mean_relative_error = _predictions_first(tf.metrics.mean_relative_error, "Average the relative error.")
streaming_mean_squared_error = _predictions_first(tf.metrics.mean_squared_error, "Average the squared error.")
streaming_precision = _predictions_first(tf.metrics.precision, "Compute the precision.")
streaming_precision_at_thresholds = _predictions_first(tf.metrics.precision_at_thresholds, "Compute precisions.")
streaming_recall = _predictions_first(tf.metrics.recall, "Compute the recall.")
streaming_recall_at_thresholds = _predictions_first(tf.metrics.recall_at_thresholds, "Compute recalls.")
streaming_root_mean_squared_error = _predictions_first(tf.metrics.root_mean_squared_error, "Compute the RMS error.")
streaming_sensitivity_at_specificity = _predictions_first(
    tf.metrics.sensitivity_at_specificity, "Approximate the sensitivity at a specificity."
)
streaming_sparse_average_precision_at_k = _predictions_first(
    tf.metrics.average_precision_at_k, "Average the precision among the k most likely classes."
)
streaming_sparse_precision_at_k = _predictions_first(tf.metrics.precision_at_k, "Compute the precision of k classes.")
streaming_sparse_recall_at_k = _predictions_first(tf.metrics.recall_at_k, "Compute the recall of k classes.")
streaming_specificity_at_sensitivity = _predictions_first(
    tf.metrics.specificity_at_sensitivity, "Approximate the specificity at a sensitivity."
)
streaming_true_negatives = _predictions_first(tf.metrics.true_negatives, "Add up true negatives.")
streaming_true_positives = _predictions_first(tf.metrics.true_positives, "Add up true positives.")


def streaming_recall_at_k(
    predictions: tf.Tensor,
    labels: tf.Tensor,
    k: int,
    weights: tf.Tensor | None = None,
    metrics_collections: Names = None,
    updates_collections: Names = None,
    name: str | None = None,
) -> Metric:
    """Compute how often the label is among the k most likely classes.

    Args:
        predictions: the likelihood of each class, B x classes.
        labels: the class of each row.
        k: the number of classes.
        weights: of each row.
        metrics_collections: those of the value.
        updates_collections: those of the update.
        name: of the scope.

    Returns:
        Its value so far, and the operation that adds a batch to it.
    """
    is_in = tf.to_float(tf.nn.in_top_k(predictions, labels, k))
    return tf.metrics.mean(is_in, weights, metrics_collections, updates_collections, name or f"recall_at_{k}")


def sparse_recall_at_top_k(
    labels: Any,
    top_k_predictions: tf.Tensor,
    class_id: int | None = None,
    weights: tf.Tensor | None = None,
    metrics_collections: Names = None,
    updates_collections: Names = None,
    name: str | None = None,
) -> Metric:
    """Compute the share of labels among the predicted classes, B x k; all or one class."""
    return _at_top_k(tf.metrics.recall_at_top_k, "recall_at_k", **locals())


@like(_predictions_first(sparse_recall_at_top_k, ""))
def streaming_sparse_precision_at_top_k(**given: Any) -> Metric:
    """Compute the share of predicted classes, B x k, that are labels; all or one class."""
    return _at_top_k(tf.metrics.precision_at_top_k, "precision_at_k", **given)


def _at_top_k(
    metric: Callable[..., Metric],
    scope: str,
    *,
    top_k_predictions: tf.Tensor,
    class_id: int | None,
    name: str | None,
    **given: Any,
) -> Metric:
    name = name or (scope if class_id is None else f"{scope}_class{class_id}")
    predicted = tf.to_int64(top_k_predictions)
    return metric(predictions_idx=predicted, k=None, class_id=class_id, name=name, **given)
