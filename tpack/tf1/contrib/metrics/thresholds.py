"""Metrics of ``tf.contrib.metrics`` at several thresholds.

Each counts the true and false examples above and below every threshold, and is a value so far and the operation that
adds a batch to it.
"""

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError
from tpack.tf1.contrib.metrics.streaming import Metric, Names
from tpack.tf1.signatures import like, parameter

_EPSILON = 1e-7

# Whether the label and the prediction are positive.
_KINDS = {
    "true_positives": (True, True),
    "false_negatives": (True, False),
    "true_negatives": (False, False),
    "false_positives": (False, True),
}


def f1_score(
    labels: tf.Tensor,
    predictions: tf.Tensor,
    weights: tf.Tensor | None = None,
    num_thresholds: int = 200,
    metrics_collections: Names = None,
    updates_collections: Names = None,
    name: str | None = None,
) -> Metric:
    """Find the best harmonic mean of precision and recall over thresholds.

    Args:
        labels: which are true.
        predictions: from 0 to 1, of the same shape.
        weights: of each.
        num_thresholds: the number of thresholds, evenly from 0 to 1.
        metrics_collections: those of the value.
        updates_collections: those of the update.
        name: of the scope.
    """

    def best(true_positives: tf.Tensor, false_negatives: tf.Tensor, false_positives: tf.Tensor) -> tf.Tensor:
        precision = true_positives / (_EPSILON + true_positives + false_positives)
        recall = true_positives / (_EPSILON + true_positives + false_negatives)
        return tf.reduce_max(2.0 * precision * recall / (precision + recall + _EPSILON))

    with tf.variable_scope(name, "f1", (labels, predictions, weights)):
        kinds = ("true_positives", "false_negatives", "false_positives")
        counts = _count(labels, predictions, _evenly(num_thresholds), weights, kinds)
        return _metric(best, counts, (None, None), metrics_collections, updates_collections)


@like(f1_score, after={"predictions": {"target_recall": parameter("target_recall", float)}})
def precision_at_recall(
    labels: Any, predictions: Any, target_recall: float, weights: Any, num_thresholds: int, name: Any, **given: Any
) -> Metric:
    """Find the precision at the highest threshold with a recall of at least ``target_recall``; see `f1_score`.

    Raises:
        ConfigError: The recall is not from 0 to 1.
    """
    if not 0 <= target_recall <= 1:
        raise ConfigError(f"precision_at_recall got target_recall={target_recall}: expected the range from 0 to 1")

    def precision(true_positives: tf.Tensor, false_negatives: tf.Tensor, *others: tf.Tensor) -> tf.Tensor:
        recalls = true_positives / (true_positives + false_negatives + _EPSILON)
        # The recall falls with the threshold. Where none is enough, -1 is the last threshold, above all predictions.
        highest = tf.reduce_sum(tf.to_int32(recalls >= target_recall)) - 1
        found, wrong = true_positives[highest] + _EPSILON, others[-1][highest]
        return found / (found + wrong)

    with tf.variable_scope(name, "precision_at_recall", (labels, predictions, weights)):
        counts = _count(labels, predictions, _evenly(num_thresholds), weights, tuple(_KINDS))
        return _metric(precision, counts, ("value", "update_op"), **given)


@like(f1_score, after={"predictions": {"precision": parameter("precision", float)}, "name": {"strict_mode": False}})
def recall_at_precision(
    labels: Any,
    predictions: Any,
    precision: float,
    weights: Any,
    num_thresholds: int,
    name: Any,
    strict_mode: bool,
    **given: Any,
) -> Metric:
    """Find the recall at the threshold with the precision nearest to ``precision``; see `f1_score`.

    With ``strict_mode``, the precision must be reached; the value is 0 where none reaches it.

    Raises:
        ConfigError: The precision is not from 0 to 1.
    """
    if not 0 <= precision <= 1:
        raise ConfigError(f"recall_at_precision got precision={precision}: expected the range from 0 to 1")

    def recall(true_positives: tf.Tensor, false_negatives: tf.Tensor, *others: tf.Tensor) -> tf.Tensor:
        precisions = true_positives / (true_positives + others[-1] + _EPSILON)
        recalls = true_positives / (true_positives + false_negatives + _EPSILON)
        away = precisions - precision
        if not strict_mode:
            return recalls[tf.argmin(tf.abs(away), 0, output_type=tf.int32)]
        is_reached = away >= 0
        nearest = tf.argmin(tf.where(is_reached, away, tf.fill(tf.shape(away), 2.0)), 0, output_type=tf.int32)
        return tf.where(tf.reduce_any(is_reached), recalls[nearest], 0.0)

    with tf.variable_scope(name, "recall_at_precision", (labels, predictions, weights)):
        counts = _count(labels, predictions, _evenly(num_thresholds), weights, tuple(_KINDS))
        return _metric(recall, counts, ("value", "update_op"), **given)


def streaming_false_positive_rate_at_thresholds(
    predictions: tf.Tensor,
    labels: tf.Tensor,
    thresholds: Sequence[float],
    weights: tf.Tensor | None = None,
    metrics_collections: Names = None,
    updates_collections: Names = None,
    name: str | None = None,
) -> Metric:
    """Compute the share of false examples above each threshold."""
    return _rate_at("false_positive_rate", ("true_negatives", "false_positives"), **locals())


@like(streaming_false_positive_rate_at_thresholds)
def streaming_false_negative_rate_at_thresholds(**given: Any) -> Metric:
    """Compute the share of true examples below each threshold."""
    return _rate_at("false_negative_rate", ("true_positives", "false_negatives"), **given)


def _rate_at(
    rate: str,
    kinds: tuple[str, str],
    *,
    predictions: Any,
    labels: Any,
    thresholds: Any,
    weights: Any,
    name: Any,
    **given: Any,
) -> Metric:
    short = f"{rate[0]}{rate[6]}r"
    with tf.variable_scope(name, f"{rate}_at_thresholds", (predictions, labels, weights)):
        counts = _count(labels, predictions, thresholds, weights, kinds)
        return _metric(_rate, counts, (f"{short}_value", f"{short}_update_op"), **given)


def streaming_true_positives_at_thresholds(
    predictions: tf.Tensor, labels: tf.Tensor, thresholds: Sequence[float], weights: tf.Tensor | None = None
) -> Metric:
    """Add up true positives for each threshold."""
    return _count(labels, predictions, thresholds, weights, ("true_positives",))[0]


@like(streaming_true_positives_at_thresholds)
def streaming_false_positives_at_thresholds(**given: Any) -> Metric:
    """Add up false positives for each threshold."""
    return _count(**given, kinds=("false_positives",))[0]


@like(streaming_true_positives_at_thresholds)
def streaming_true_negatives_at_thresholds(**given: Any) -> Metric:
    """Add up true negatives for each threshold."""
    return _count(**given, kinds=("true_negatives",))[0]


@like(streaming_true_positives_at_thresholds)
def streaming_false_negatives_at_thresholds(**given: Any) -> Metric:
    """Add up false negatives for each threshold."""
    return _count(**given, kinds=("false_negatives",))[0]


def _rate(others: tf.Tensor, wrong: tf.Tensor) -> tf.Tensor:
    return wrong / (_EPSILON + wrong + others)


def _evenly(count: int) -> list[float]:
    return [-_EPSILON, *((step + 1) / (count - 1) for step in range(count - 2)), 1.0 + _EPSILON]


def metric_variable(shape: Any, dtype: tf.DType, name: str) -> tf.Variable:
    """Make a local variable that counts from 0."""
    return tf.Variable(
        lambda: tf.zeros(shape, dtype),
        trainable=False,
        collections=[tf.GraphKeys.LOCAL_VARIABLES, tf.GraphKeys.METRIC_VARIABLES],
        use_resource=True,
        synchronization=tf.VariableSynchronization.ON_READ,
        aggregation=tf.VariableAggregation.SUM,
        name=name,
    )


def _count(
    labels: tf.Tensor, predictions: tf.Tensor, thresholds: Sequence[float], weights: Any, kinds: Sequence[str]
) -> list[Metric]:
    """Count in a variable for each kind and threshold; return for each kind the counts before and after the batch."""
    labels, predictions = tf.cast(labels, tf.bool), tf.cast(predictions, tf.float32)
    predictions.shape.assert_is_compatible_with(labels.shape)
    if weights is not None:
        weights = tf.reshape(tf.to_float(weights) * tf.ones_like(predictions), [1, -1])
    limits = tf.constant([[limit] for limit in thresholds])
    is_true = tf.reshape(labels, [1, -1])
    is_above = tf.reshape(predictions, [1, -1]) > limits
    found = []
    for kind in kinds:
        wants_true, wants_above = _KINDS[kind]
        variable = metric_variable([len(thresholds)], tf.float32, kind)
        is_it = tf.equal(is_true, wants_true) & tf.equal(is_above, wants_above)
        counted = tf.to_float(is_it) if weights is None else tf.to_float(is_it) * weights
        found.append((tf.identity(variable), variable.assign_add(tf.reduce_sum(counted, 1), read_value=True)))
    return found


def _metric(
    function: Callable[..., tf.Tensor],
    counts: list[Metric],
    names: tuple[str | None, str | None],
    metrics_collections: Names,
    updates_collections: Names,
) -> Metric:
    value, update = (
        tf.identity(function(*columns), name) for columns, name in zip(zip(*counts, strict=True), names, strict=True)
    )
    return in_collections(value, update, metrics_collections, updates_collections)


def in_collections(value: Any, update: Any, metrics_collections: Names, updates_collections: Names) -> Metric:
    """Put a metric into collections, and return it."""
    if metrics_collections:
        tf.add_to_collections(metrics_collections, value)
    if updates_collections:
        tf.add_to_collections(updates_collections, update)
    return value, update
