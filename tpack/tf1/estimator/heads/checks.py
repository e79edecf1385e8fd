"""Checks of a head's inputs: logits, labels, weights, vocabularies and thresholds."""

from collections.abc import Sequence
from typing import Any

import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError, WrongTypeError
from tpack.utils.validation import check_count, mismatch, shown

# TensorFlow 2 has other names for some of the reductions.
_NAMES_OF_TF2 = {"sum": tf.losses.Reduction.SUM, "sum_over_batch_size": tf.losses.Reduction.SUM_OVER_BATCH_SIZE}

_NAMES_ARE_LABELS = ", or names of the label_vocabulary where there is one"


def check_reduction(loss_reduction: str) -> str:
    """Return the name of a reduction in ``tf.losses.Reduction``, from that in TensorFlow 1 or 2.

    Raises:
        ConfigError: The reduction is unknown, or leaves a loss for each example.
    """
    if isinstance(loss_reduction, str):
        loss_reduction = _NAMES_OF_TF2.get(loss_reduction, loss_reduction)
    wanted = [name for name in tf.losses.Reduction.all() if name != tf.losses.Reduction.NONE]
    if loss_reduction not in wanted:
        raise ConfigError(mismatch("a head", "loss_reduction", loss_reduction, f"one of {', '.join(wanted)}"))
    return loss_reduction


def check_classes(owner: object, n_classes: int, vocabulary: Sequence[str] | None, least: int) -> None:
    """Check the number of classes, and that a vocabulary has a name for each.

    Args:
        owner: the head.
        n_classes: the number of classes.
        vocabulary: the names of the classes, or None.
        least: the smallest allowed number.

    Raises:
        ConfigError: There are too few classes, another number of names, or a name twice.
        WrongTypeError: The vocabulary is not a list.
    """
    check_count(owner, "n_classes", n_classes, minimum=least)
    if vocabulary is None:
        return
    if not isinstance(vocabulary, (list, tuple)):
        raise WrongTypeError(mismatch(owner, "label_vocabulary", vocabulary, "a list or tuple of names"))
    if len(vocabulary) != n_classes or len(set(vocabulary)) != n_classes:
        expected = f"{n_classes} different names, one for each class"
        raise ConfigError(mismatch(owner, "label_vocabulary", vocabulary, expected))


def check_thresholds(thresholds: Sequence[float] | None) -> tuple[float, ...]:
    """Return thresholds of probabilities; raise ConfigError if one is not between 0 and 1."""
    found = tuple(thresholds or ())
    for threshold in found:
        if not 0 < threshold < 1:
            raise ConfigError(mismatch("a head", "thresholds", threshold, "numbers between 0 and 1"))
    return found


def check_logits(logits: Any, width: int) -> tf.Tensor:
    """Return logits as a tensor of floats.

    Raises:
        ConfigError: They are of another dtype, or not ``width`` per example.
    """
    logits = tf.convert_to_tensor(logits)
    if not logits.dtype.is_floating:
        raise ConfigError(f"got logits of {logits.dtype.name}: expected floats")
    if logits.shape.rank is not None and (logits.shape.rank < 2 or logits.shape.as_list()[-1] not in (None, width)):
        raise ConfigError(f"got logits of the shape {logits.shape}: expected {width} column(s)")
    return logits


def check_labels(labels: Any, logits: tf.Tensor, width: int, what: str = "labels") -> tf.Tensor:
    """Return labels as a tensor [B, width] with a row for each row of the logits.

    Args:
        labels: [B, width], or [B] where the width is one; other shapes are also an error at run time.
        logits: [B, D].
        width: the number of columns.
        what: their name in the message.

    Raises:
        ConfigError: They are missing, sparse, or of another shape.
    """
    if labels is None:
        raise ConfigError(f"got no {what} from the input_fn: expected some to train and to evaluate")
    if isinstance(labels, (tf.SparseTensor, dict)):
        raise ConfigError(f"got {what} {shown(labels)}: expected one dense tensor")
    labels = tf.convert_to_tensor(labels)
    rank = logits.shape.rank or 2
    if labels.shape.rank == rank - 1 and (width == 1 or rank > 2):
        labels = labels[..., tf.newaxis]
    # A list, since what an element of a shape is depends on whether TensorFlow 2's behaviour is on.
    if labels.shape.rank is not None and (labels.shape.rank != rank or labels.shape.as_list()[-1] not in (None, width)):
        raise ConfigError(f"got {what} of the shape {labels.shape}: expected {width} column(s)")
    wanted = logits.shape[:-1].concatenate([width])
    if not labels.shape.is_compatible_with(wanted):
        raise ConfigError(
            f"got {what} of the shape {labels.shape}: expected {wanted}, for logits of the shape {logits.shape}"
        )
    if labels.shape.is_fully_defined() and wanted.is_fully_defined():
        return labels
    shape = tf.concat([tf.shape(logits)[:-1], [width]], 0)
    message = f"{what} of this head must have a row for each row of the logits, and {width} column(s)"
    with tf.control_dependencies([tf.debugging.assert_equal(shape, tf.shape(labels), message=message)]):
        return tf.ensure_shape(tf.identity(labels), wanted)


def weights_of(features: Any, weight_column: Any, losses: tf.Tensor) -> Any:
    """Return the weights of examples, in the shape of their losses.

    Args:
        features: the input.
        weight_column: a key of the features, a numeric column, or None.
        losses: [B, 1] or [B, D].

    Returns:
        [B, 1] or [B, D] floats, or 1.0 without a column.

    Raises:
        ConfigError: The feature is missing, or of another shape.
    """
    if weight_column is None:
        return 1.0
    key = weight_column if isinstance(weight_column, str) else getattr(weight_column, "key", None)
    if not isinstance(key, str):
        expected = "a key of the features or a numeric column"
        raise ConfigError(mismatch("a head", "weight_column", weight_column, expected))
    if not isinstance(features, dict) or key not in features:
        raise ConfigError(f"got no feature {key!r}: expected that of the weight_column")
    weights = tf.convert_to_tensor(features[key])
    if not weights.dtype.is_floating and not weights.dtype.is_integer:
        raise ConfigError(f"got weights of {weights.dtype.name} in the feature {key!r}: expected numbers")
    weights = tf.cast(weights, tf.float32)
    normalize = getattr(weight_column, "normalizer_fn", None)
    weights = weights if normalize is None else normalize(weights)
    return _for_each_loss(weights, losses)


def _for_each_loss(weights: tf.Tensor, losses: tf.Tensor) -> tf.Tensor:
    """Return weights with a row for each row of losses; shapes unknown now are checked at run time."""
    rank = losses.shape.rank or 2
    came = weights.shape
    if came.rank is None:
        num_missing = tf.cast(tf.equal(tf.rank(weights), rank - 1), tf.int32)
        weights = tf.reshape(weights, tf.concat([tf.shape(weights), tf.ones([num_missing], tf.int32)], 0))
    elif came.rank < rank:
        weights = weights[..., tf.newaxis]
    rows, width = losses.shape[:-1], losses.shape.as_list()[-1]
    if came.rank is not None and (
        weights.shape.rank != rank
        or weights.shape.as_list()[-1] not in (None, 1, width)
        or not weights.shape[:-1].is_compatible_with(rows)
    ):
        raise ConfigError(f"got weights of the shape {came}: expected one for each loss of the shape {losses.shape}")
    if came.is_fully_defined() and rows.is_fully_defined():
        return weights
    message = "weights must have a row for each row of the losses"
    same = tf.debugging.assert_equal(tf.shape(weights)[:-1], tf.shape(losses)[:-1], message=message)
    with tf.control_dependencies([same]):
        return tf.identity(weights)


def ids_of(labels: tf.Tensor, vocabulary: Sequence[Any] | None, what: str) -> tf.Tensor:
    """Return labels as class numbers, integers of the same shape; an unknown name is -1.

    Args:
        labels: numbers, or names with a vocabulary.
        vocabulary: the names of the classes, or None.
        what: the head, for messages.

    Raises:
        ConfigError: Labels are of another dtype.
    """
    if vocabulary is None:
        if not labels.dtype.is_integer:
            raise ConfigError(f"a {what} without label_vocabulary got labels of {labels.dtype.name}: expected integers")
        return tf.cast(labels, tf.int64)
    if labels.dtype != tf.string:
        raise ConfigError(f"a {what} with label_vocabulary got labels of {labels.dtype.name}: expected strings")
    keys = tf.constant(list(vocabulary), tf.string)
    numbers = tf.range(len(vocabulary), dtype=tf.int64)
    table = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(keys, numbers), default_value=-1)
    return table.lookup(labels)


def in_range(numbers: tf.Tensor, highest: int, what: str, *, hint: str = _NAMES_ARE_LABELS) -> tf.Tensor:
    """Return numbers that are checked at run time to be from 0 to ``highest``."""
    message = f"{what} must be from 0 to {highest}{hint}"
    low = tf.debugging.assert_greater_equal(numbers, tf.zeros([], numbers.dtype), message=message)
    high = tf.debugging.assert_less_equal(numbers, tf.constant(highest, numbers.dtype), message=message)
    with tf.control_dependencies([low, high]):
        return tf.identity(numbers)
