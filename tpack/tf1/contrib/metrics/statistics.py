"""Metrics of ``tf.contrib.metrics``: those of ``tf.metrics`` with predictions before labels, and more of their kind.

A streaming metric is its value so far, and the operation that adds a batch to it.
"""

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError
from tpack.tf1.signatures import like, parameter

Metric: TypeAlias = tuple[Any, Any]
Names: TypeAlias = Iterable[str] | None

_OF_METRICS: dict[str, Any] = {
    "trainable": False,
    "collections": [tf.GraphKeys.LOCAL_VARIABLES, tf.GraphKeys.METRIC_VARIABLES],
    "use_resource": True,
}


def _predictions_first(metric: str | Callable[..., Metric], doc: str, without: str = "") -> Callable[..., Metric]:
    """Make a metric with the first two arguments of another one, or of ``tf.metrics``, swapped, and without some."""
    function = getattr(tf.metrics, metric) if isinstance(metric, str) else metric
    first, second, *others = inspect.signature(function).parameters.values()
    signature = inspect.Signature([second, first, *(other for other in others if other.name not in without.split())])

    def streaming(*args: Any, **kwargs: Any) -> Metric:
        return function(**signature.bind(*args, **kwargs).arguments)

    streaming.__doc__ = f"{doc}\n\n    Returns:\n        The value so far, and what adds a batch to it.\n    "
    streaming.__signature__ = signature  # type: ignore[attr-defined]
    return streaming


streaming_accuracy = _predictions_first("accuracy", "Compute the share of predictions that equal labels.")
streaming_auc = _predictions_first("auc", "Approximate the area under a curve.", "summation_method thresholds")
streaming_false_negatives = _predictions_first("false_negatives", "Add up false negatives.")
streaming_false_positives = _predictions_first("false_positives", "Add up false positives.")
streaming_mean_absolute_error = _predictions_first("mean_absolute_error", "Average the absolute error.")
streaming_mean_cosine_distance = _predictions_first("mean_cosine_distance", "Average the cosine distance.")
streaming_mean_iou = _predictions_first("mean_iou", "Average intersection over union of the classes.")
streaming_mean_relative_error = _predictions_first("mean_relative_error", "Average the relative error.")
streaming_mean_squared_error = _predictions_first("mean_squared_error", "Average the squared error.")
streaming_precision = _predictions_first("precision", "Compute the precision.")
streaming_precision_at_thresholds = _predictions_first("precision_at_thresholds", "Compute precisions.")
streaming_recall = _predictions_first("recall", "Compute the recall.")
streaming_recall_at_thresholds = _predictions_first("recall_at_thresholds", "Compute recalls.")
streaming_root_mean_squared_error = _predictions_first("root_mean_squared_error", "Compute the RMS error.")
streaming_sensitivity_at_specificity = _predictions_first("sensitivity_at_specificity", "Approximate the sensitivity.")
streaming_sparse_average_precision_at_k = _predictions_first("average_precision_at_k", "Average precisions at k.")
streaming_sparse_precision_at_k = _predictions_first("precision_at_k", "Compute the precision of k classes.")
streaming_sparse_recall_at_k = _predictions_first("recall_at_k", "Compute the recall of k classes.")
streaming_specificity_at_sensitivity = _predictions_first("specificity_at_sensitivity", "Approximate the specificity.")
streaming_true_negatives = _predictions_first("true_negatives", "Add up true negatives.")
streaming_true_positives = _predictions_first("true_positives", "Add up true positives.")


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


@like(streaming_covariance, after={"labels": {"k": parameter("k", int)}})
def streaming_recall_at_k(predictions: Any, labels: Any, k: int, name: str | None, **given: Any) -> Metric:
    """Compute how often the label of a row is among the ``k`` most likely of its predictions, B x classes."""
    is_in = tf.to_float(tf.nn.in_top_k(predictions, labels, k))
    return tf.metrics.mean(is_in, **given, name=name or f"recall_at_{k}")


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


@like(
    streaming_covariance,
    without="predictions labels",
    after={"": {name: parameter(name, Any) for name in ("labels", "predictions_idx", "num_classes")}},
)
def cohen_kappa(
    labels: Any, predictions_idx: Any, num_classes: int, weights: Any, name: str | None, **given: Any
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
        return in_collections(value, update, **given)


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
        shape[axis] = None
        growing = {**_OF_METRICS, "validate_shape": False, "shape": tf.TensorShape(shape)}
        zeros = [size or 0 for size in shape]
        array = tf.Variable(lambda: tf.zeros(zeros, values.dtype), **growing, name="array")
        value = tf.identity(array, "concat")
        joined = tf.concat([value, values], axis)
        if max_size is not None:
            head = (*[slice(None)] * axis, slice(max_size))
            joined = joined[head]
        with tf.control_dependencies([array.assign(joined, read_value=False)]):
            update = tf.shape(joined)[axis]
        return in_collections(value, update, metrics_collections, updates_collections)


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


_EPSILON = 1e-7

# Whether the label and the prediction are positive.
_KINDS = {
    "true_positives": (True, True),
    "false_negatives": (True, False),
    "true_negatives": (False, False),
    "false_positives": (False, True),
}


@like(
    streaming_covariance,
    without="predictions labels",
    after={
        "": {"labels": parameter("labels", tf.Tensor), "predictions": parameter("predictions", tf.Tensor)},
        "weights": {"num_thresholds": 200},
    },
)
def f1_score(
    labels: tf.Tensor, predictions: tf.Tensor, weights: Any, num_thresholds: int, name: str | None, **given: Any
) -> Metric:
    """Find the best harmonic mean of precision and recall over thresholds.

    Args:
        labels: which are true.
        predictions: from 0 to 1, of the same shape.
        weights: of each.
        num_thresholds: the number of thresholds, evenly from 0 to 1.
        name: of the scope.
        **given: the collections of the value and of the update.
    """

    def best(true_positives: tf.Tensor, false_negatives: tf.Tensor, false_positives: tf.Tensor) -> tf.Tensor:
        precision = true_positives / (_EPSILON + true_positives + false_positives)
        recall = true_positives / (_EPSILON + true_positives + false_negatives)
        return tf.reduce_max(2.0 * precision * recall / (precision + recall + _EPSILON))

    with tf.variable_scope(name, "f1", (labels, predictions, weights)):
        kinds = ("true_positives", "false_negatives", "false_positives")
        counts = _count(labels, predictions, _evenly(num_thresholds), weights, kinds)
        return _metric(best, counts, (None, None), **given)


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


@like(streaming_covariance, after={"labels": {"thresholds": parameter("thresholds", Sequence[float])}})
def streaming_false_positive_rate_at_thresholds(**given: Any) -> Metric:
    """Compute the share of false examples above each threshold."""
    return _rate_at("false_positive_rate", ("true_negatives", "false_positives"), **given)


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

        def share(others: tf.Tensor, wrong: tf.Tensor) -> tf.Tensor:
            return wrong / (_EPSILON + wrong + others)

        return _metric(share, counts, (f"{short}_value", f"{short}_update_op"), **given)


def streaming_true_positives_at_thresholds(
    predictions: tf.Tensor, labels: tf.Tensor, thresholds: Sequence[float], weights: tf.Tensor | None = None
) -> Metric:
    """Add up true positives for each threshold."""
    return _count(labels, predictions, thresholds, weights, ("true_positives",))[0]


def _at_thresholds(kind: str) -> Callable[..., Metric]:
    """Return a function that adds up one kind of examples for each threshold."""

    @like(streaming_true_positives_at_thresholds)
    def streaming(**given: Any) -> Metric:
        return _count(**given, kinds=(kind,))[0]

    streaming.__doc__ = f"Add up {kind.replace('_', ' ')} for each threshold."
    return streaming


streaming_false_positives_at_thresholds = _at_thresholds("false_positives")
streaming_true_negatives_at_thresholds = _at_thresholds("true_negatives")
streaming_false_negatives_at_thresholds = _at_thresholds("false_negatives")


def _evenly(count: int) -> list[float]:
    return [-_EPSILON, *((step + 1) / (count - 1) for step in range(count - 2)), 1.0 + _EPSILON]


def metric_variable(shape: Any, dtype: tf.DType, name: str) -> tf.Variable:
    """Make a local variable that counts from 0."""
    summed = {"synchronization": tf.VariableSynchronization.ON_READ, "aggregation": tf.VariableAggregation.SUM}
    return tf.Variable(lambda: tf.zeros(shape, dtype), **_OF_METRICS, **summed, name=name)


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
