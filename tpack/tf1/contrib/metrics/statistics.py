"""Counts, rates, agreement and correlation: metrics of ``tf.contrib.metrics``.

A streaming metric is its value so far, and the operation that adds a batch to it.
"""

from collections.abc import Mapping
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError
from tpack.tf1.contrib.metrics.streaming import (
    Metric,
    Names,
    streaming_false_negatives,
    streaming_false_positives,
    streaming_true_negatives,
    streaming_true_positives,
)
from tpack.tf1.contrib.metrics.thresholds import in_collections, metric_variable
from tpack.tf1.signatures import like


def accuracy(
    predictions: tf.Tensor, labels: tf.Tensor, weights: tf.Tensor | None = None, name: str | None = None
) -> tf.Tensor:
    """Return the part of a batch whose predictions equal their labels.

    Raises:
        ConfigError: Labels are neither booleans, integers nor text, or predictions of another type.
    """
    if not (labels.dtype.is_integer or labels.dtype in (tf.bool, tf.string)):
        raise ConfigError(f"accuracy got labels of {labels.dtype}: expected booleans, integers or text")
    if predictions.dtype != labels.dtype:
        raise ConfigError(f"accuracy got predictions of {predictions.dtype}: expected those of labels, {labels.dtype}")
    with tf.name_scope(name, "accuracy", (predictions, labels)):
        is_right = tf.to_float(tf.equal(predictions, labels))
        if weights is None:
            return tf.reduce_mean(is_right)
        weights = tf.to_float(weights) * tf.ones_like(is_right)
        return tf.reduce_sum(is_right * weights) / tf.reduce_sum(weights)


@like(tf.metrics.mean)
def count(values: tf.Tensor, **given: Any) -> Metric:
    """Count examples, or add up their weights."""
    every = tf.ones_like(values, tf.bool)
    return tf.metrics.true_positives(every, every, **{**given, "name": given["name"] or "count"})


def streaming_covariance(
    predictions: tf.Tensor,
    labels: tf.Tensor,
    weights: tf.Tensor | None = None,
    metrics_collections: Names = None,
    updates_collections: Names = None,
    name: str | None = None,
) -> Metric:
    """Compute the unbiased covariance of two series, NaN below two examples; weights count repeated examples.

    Each batch is joined by the difference of the means, so that no large sums are subtracted.
    """
    with tf.variable_scope(name, "covariance", (predictions, labels, weights)):
        parts = ("count", "mean_prediction", "mean_label", "comoment")
        variables = [metric_variable([], tf.float32, part) for part in parts]
        before = tuple(map(tf.identity, variables))
        after = _joined(before, tf.to_float(predictions), tf.to_float(labels), weights)
        with tf.control_dependencies(before):
            updated = [variable.assign(part, read_value=True) for variable, part in zip(variables, after, strict=True)]
        value = _unbiased(before[3], before[0], "covariance")
        with tf.control_dependencies(updated):
            update = _unbiased(updated[3], updated[0], "update_op")
        return in_collections(value, update, metrics_collections, updates_collections)


@like(streaming_covariance)
def streaming_false_positive_rate(**given: Any) -> Metric:
    """Compute the share of false examples that were predicted."""
    return _rate("false_positive_rate", streaming_false_positives, streaming_true_negatives, **given)


@like(streaming_covariance)
def streaming_false_negative_rate(**given: Any) -> Metric:
    """Compute the share of true examples that were not predicted."""
    return _rate("false_negative_rate", streaming_false_negatives, streaming_true_positives, **given)


def _rate(
    scope: str, count_wrong: Any, count_right: Any, predictions: Any, labels: Any, weights: Any, name: Any, **given: Any
) -> Metric:
    with tf.variable_scope(name, scope, (predictions, labels, weights)):
        wrong, right = (counted(predictions, labels, weights) for counted in (count_wrong, count_right))
        both = zip(wrong, right, ("value", "update_op"), strict=True)
        value, update = (tf.div_no_nan(bad, bad + good, name=name) for bad, good, name in both)
        return in_collections(value, update, **given)


def cohen_kappa(
    labels: tf.Tensor,
    predictions_idx: tf.Tensor,
    num_classes: int,
    weights: tf.Tensor | None = None,
    metrics_collections: Names = None,
    updates_collections: Names = None,
    name: str | None = None,
) -> Metric:
    """Compute Cohen's kappa: the agreement of two raters, in ``labels`` and ``predictions_idx``, beyond chance."""
    with tf.variable_scope(name, "cohen_kappa", (labels, predictions_idx, weights)):
        counts = [metric_variable([num_classes], tf.float64, part) for part in ("po", "pe_row", "pe_col")]
        weights = None if weights is None else tf.reshape(weights, [-1])
        confusion = tf.math.confusion_matrix(
            tf.reshape(labels, [-1]), tf.reshape(predictions_idx, [-1]), num_classes, tf.float64, weights=weights
        )
        added = (tf.diag_part(confusion), tf.reduce_sum(confusion, 0), tf.reduce_sum(confusion, 1))
        updated = [variable.assign_add(part, read_value=True) for variable, part in zip(counts, added, strict=True)]
        value, update = _kappa("value", *map(tf.identity, counts)), _kappa("update_op", *updated)
        return in_collections(value, update, metrics_collections, updates_collections)


def _kappa(name: str, agreed: tf.Tensor, rows: tf.Tensor, columns: tf.Tensor) -> tf.Tensor:
    total = tf.reduce_sum(rows)
    by_chance = tf.div_no_nan(tf.reduce_sum(rows * columns), total)
    return tf.div_no_nan(tf.reduce_sum(agreed) - by_chance, total - by_chance, name=name)


def _joined(before: tuple[tf.Tensor, ...], x: tf.Tensor, y: tf.Tensor, weights: Any) -> tuple[tf.Tensor, ...]:
    x.shape.assert_is_compatible_with(y.shape)
    count_before, x_before, y_before, comoment_before = before
    weights = tf.ones_like(x) if weights is None else tf.to_float(weights) * tf.ones_like(x)
    count_now = tf.reduce_sum(weights)
    x_now, y_now = (tf.div_no_nan(tf.reduce_sum(series * weights), count_now) for series in (x, y))
    comoment_now = tf.reduce_sum(weights * (x - x_now) * (y - y_now))
    total = count_before + count_now
    part = tf.div_no_nan(count_now, total)
    x_away, y_away = x_now - x_before, y_now - y_before
    comoment = comoment_before + comoment_now + x_away * y_away * count_before * part
    return total, x_before + x_away * part, y_before + y_away * part, comoment


def _unbiased(comoment: tf.Tensor, total: tf.Tensor, name: str) -> tf.Tensor:
    return tf.where(total < 2, float("nan"), comoment / (total - 1), name=name)


@like(streaming_covariance)
def streaming_pearson_correlation(predictions: Any, labels: Any, weights: Any, name: Any, **given: Any) -> Metric:
    """Compute Pearson's correlation of two series, NaN below two examples."""
    with tf.variable_scope(name, "pearson_r", (predictions, labels, weights)):
        both = streaming_covariance(predictions, labels, weights, name="covariance")
        first = streaming_covariance(predictions, predictions, weights, name="variance_predictions")
        second = streaming_covariance(labels, labels, weights, name="variance_labels")
        parts = zip(both, first, second, ("pearson_r", "update_op"), strict=True)
        value, update = (tf.truediv(cov, tf.sqrt(x) * tf.sqrt(y), name=part) for cov, x, y, part in parts)
        return in_collections(value, update, **given)


def streaming_concat(
    values: tf.Tensor,
    axis: int = 0,
    max_size: int | None = None,
    metrics_collections: Names = None,
    updates_collections: Names = None,
    name: str | None = None,
) -> Metric:
    """Keep all values, or the first ``max_size``; the update returns their number.

    Args:
        values: a batch of them; only their size along ``axis`` may change.
        axis: along which to join them.
        max_size: the number to keep; None for all.
        metrics_collections: those of the value.
        updates_collections: those of the update.
        name: of the scope.

    Raises:
        ConfigError: The rank is unknown, or another dimension than ``axis`` is.
    """
    rank = values.shape.rank
    if rank is None or not -rank <= axis < rank:
        raise ConfigError(f"streaming_concat got axis={axis} for the shape {values.shape}: expected an axis of it")
    axis %= rank
    shape = values.shape.as_list()
    if None in shape[:axis] + shape[axis + 1 :]:
        raise ConfigError(f"streaming_concat got values of shape {shape}: expected known sizes but that of axis {axis}")
    with tf.variable_scope(name, "streaming_concat", (values,)):
        array = _growing([*shape[:axis], None, *shape[axis + 1 :]], values.dtype)
        value = tf.identity(array, "concat")
        joined = tf.concat([value, values], axis)
        if max_size is not None:
            head = (*[slice(None)] * axis, slice(max_size))
            joined = joined[head]
        with tf.control_dependencies([array.assign(joined, read_value=False)]):
            update = tf.shape(joined)[axis]
        return in_collections(value, update, metrics_collections, updates_collections)


def _growing(shape: list[int | None], dtype: tf.DType) -> tf.Variable:
    """Make an empty variable that may grow along one axis."""
    return tf.Variable(
        lambda: tf.zeros([size or 0 for size in shape], dtype),
        trainable=False,
        collections=[tf.GraphKeys.LOCAL_VARIABLES, tf.GraphKeys.METRIC_VARIABLES],
        validate_shape=False,
        use_resource=True,
        shape=tf.TensorShape(shape),
        name="array",
    )


def aggregate_metrics(*value_update_tuples: Metric) -> tuple[list[Any], list[Any]]:
    """Return the values of several metrics, and their updates; raise ConfigError if there are none."""
    if not value_update_tuples:
        raise ConfigError("aggregate_metrics got no metrics: expected at least one")
    values, updates = zip(*value_update_tuples, strict=True)
    return list(values), list(updates)


def aggregate_metric_map(names_to_tuples: Mapping[str, Metric]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return {name: value} and {name: update} of {name: metric}."""
    values = {name: metric[0] for name, metric in names_to_tuples.items()}
    return values, {name: metric[1] for name, metric in names_to_tuples.items()}
