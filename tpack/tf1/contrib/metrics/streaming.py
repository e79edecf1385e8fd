"""Metrics of ``tf.contrib.metrics`` that ``tf.metrics`` has: there labels come first, here predictions did."""

import inspect
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

import tensorflow.compat.v1 as tf

Metric: TypeAlias = tuple[Any, Any]
Names: TypeAlias = Iterable[str] | None


def _predictions_first(metric: Callable[..., Metric], doc: str, *, without: tuple[str, ...] = ()) -> Callable:
    """Make a metric that takes what another takes, with the second argument first.

    Args:
        metric: one of ``tf.metrics``.
        doc: what the metric is.
        without: arguments that it is not to take.
    """
    first, second, *others = inspect.signature(metric).parameters.values()
    signature = inspect.Signature([second, first, *(other for other in others if other.name not in without)])

    def streaming(*args: Any, **kwargs: Any) -> Metric:
        return metric(**signature.bind(*args, **kwargs).arguments)

    streaming.__doc__ = f"{doc}\n\n    Returns:\n        Its value so far, and what adds a batch to it.\n    "
    streaming.__signature__ = signature  # type: ignore[attr-defined]
    return streaming


streaming_accuracy = _predictions_first(tf.metrics.accuracy, "Say how many predictions equal their labels.")
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
streaming_precision = _predictions_first(tf.metrics.precision, "Say how many of those predicted are true.")
streaming_precision_at_thresholds = _predictions_first(
    tf.metrics.precision_at_thresholds, "Say for each threshold how many of those above it are true."
)
streaming_recall = _predictions_first(tf.metrics.recall, "Say how many of those that are true were predicted.")
streaming_recall_at_thresholds = _predictions_first(
    tf.metrics.recall_at_thresholds, "Say for each threshold how many of those that are true are above it."
)
streaming_root_mean_squared_error = _predictions_first(
    tf.metrics.root_mean_squared_error, "Take the root of the mean squared error."
)
streaming_sensitivity_at_specificity = _predictions_first(
    tf.metrics.sensitivity_at_specificity, "Approximate the sensitivity where the specificity is a given one."
)
streaming_sparse_average_precision_at_k = _predictions_first(
    tf.metrics.average_precision_at_k, "Average the precision among the k most likely classes."
)
streaming_sparse_precision_at_k = _predictions_first(
    tf.metrics.precision_at_k, "Say how many of the k most likely classes are labels."
)
streaming_sparse_recall_at_k = _predictions_first(
    tf.metrics.recall_at_k, "Say how many labels are among the k most likely classes."
)
streaming_specificity_at_sensitivity = _predictions_first(
    tf.metrics.specificity_at_sensitivity, "Approximate the specificity where the sensitivity is a given one."
)
streaming_true_negatives = _predictions_first(tf.metrics.true_negatives, "Add up true negatives.")
streaming_true_positives = _predictions_first(tf.metrics.true_positives, "Add up true positives.")


def streaming_percentage_less(
    values: tf.Tensor,
    threshold: float,
    weights: tf.Tensor | None = None,
    metrics_collections: Names = None,
    updates_collections: Names = None,
    name: str | None = None,
) -> Metric:
    """Say how many values are below a threshold, as a part of all.

    Returns:
        Its value so far, and what adds a batch to it.
    """
    return tf.metrics.percentage_below(values, threshold, weights, metrics_collections, updates_collections, name)


def streaming_sparse_precision_at_top_k(
    top_k_predictions: tf.Tensor,
    labels: Any,
    class_id: int | None = None,
    weights: tf.Tensor | None = None,
    metrics_collections: Names = None,
    updates_collections: Names = None,
    name: str | None = None,
) -> Metric:
    """Say how many of the classes that were predicted are labels.

    Args:
        top_k_predictions: the numbers of the classes, B x k.
        labels: those that are right.
        class_id: count this class only.
        weights: of each row.
        metrics_collections: where to put the value.
        updates_collections: where to put the update.
        name: of the scope.

    Returns:
        Its value so far, and what adds a batch to it.
    """
    name = name or _at_k("precision_at_k", class_id)
    return tf.metrics.precision_at_top_k(
        labels, tf.to_int64(top_k_predictions), None, class_id, weights, metrics_collections, updates_collections, name
    )


def sparse_recall_at_top_k(
    labels: Any,
    top_k_predictions: tf.Tensor,
    class_id: int | None = None,
    weights: tf.Tensor | None = None,
    metrics_collections: Names = None,
    updates_collections: Names = None,
    name: str | None = None,
) -> Metric:
    """Say how many labels are among the classes that were predicted; arguments are those of the precision.

    Returns:
        Its value so far, and what adds a batch to it.
    """
    name = name or _at_k("recall_at_k", class_id)
    return tf.metrics.recall_at_top_k(
        labels, tf.to_int64(top_k_predictions), None, class_id, weights, metrics_collections, updates_collections, name
    )


def streaming_recall_at_k(
    predictions: tf.Tensor,
    labels: tf.Tensor,
    k: int,
    weights: tf.Tensor | None = None,
    metrics_collections: Names = None,
    updates_collections: Names = None,
    name: str | None = None,
) -> Metric:
    """Say how often the label is among the k most likely classes.

    Args:
        predictions: how likely each class is, B x classes.
        labels: the class of each row.
        k: how many classes.
        weights: of each row.
        metrics_collections: where to put the value.
        updates_collections: where to put the update.
        name: of the scope.

    Returns:
        Its value so far, and what adds a batch to it.
    """
    is_in = tf.to_float(tf.nn.in_top_k(predictions, labels, k))
    return tf.metrics.mean(is_in, weights, metrics_collections, updates_collections, name or f"recall_at_{k}")


def _at_k(name: str, class_id: int | None) -> str:
    return name if class_id is None else f"{name}_class{class_id}"
