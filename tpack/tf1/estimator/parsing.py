"""What ``tf.io.parse_example`` is to look for: the features of a model's columns, its labels and its weights."""

from typing import Any

import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError
from tpack.utils.validation import check_arguments, check_count, check_text


@check_arguments
def classifier_parse_example_spec(
    feature_columns: Any,
    label_key: str,
    label_dtype: Any = tf.int64,
    label_default: Any = None,
    weight_column: Any = None,
) -> dict[str, Any]:
    """Return the parsing spec of a classifier's examples.

    Args:
        feature_columns: the columns of the model.
        label_key: what the label is called.
        label_dtype: ``tf.int64``, or ``tf.string`` for a classifier with a ``label_vocabulary``.
        label_default: the label of an example that has none; None for an error.
        weight_column: a key, or a numeric column.

    Raises:
        ConfigError: A label or weight has the name of a feature, or the ``weight_column`` is something else.
    """
    spec = _column_spec(feature_columns)
    label = tf.io.FixedLenFeature((1,), tf.as_dtype(label_dtype), label_default)
    return _with_label(spec, label_key, label, weight_column)


@check_arguments
def regressor_parse_example_spec(
    feature_columns: Any,
    label_key: str,
    label_dtype: Any = tf.float32,
    label_default: Any = None,
    label_dimension: int = 1,
    weight_column: Any = None,
) -> dict[str, Any]:
    """Return the parsing spec of a regressor's examples.

    Args:
        feature_columns: the columns of the model.
        label_key: what the label is called.
        label_dtype: of the label.
        label_default: the label of an example that has none; None for an error.
        label_dimension: how many numbers a label has.
        weight_column: a key, or a numeric column.

    Raises:
        ConfigError: A label or weight has the name of a feature, or the ``weight_column`` is something else.
    """
    spec = _column_spec(feature_columns)
    width = check_count("regressor_parse_example_spec", "label_dimension", label_dimension)
    label = tf.io.FixedLenFeature((width,), tf.as_dtype(label_dtype), label_default)
    return _with_label(spec, label_key, label, weight_column)


def _column_spec(feature_columns: Any) -> dict[str, Any]:
    return dict(tf.feature_column.make_parse_example_spec(feature_columns))


def _with_label(spec: dict[str, Any], label_key: str, label: Any, weight_column: Any) -> dict[str, Any]:
    label_key = check_text("a parsing spec", "label_key", label_key)
    if label_key in spec:
        raise ConfigError(f"the label is called {label_key!r}, as a feature of the columns is")
    spec[label_key] = label
    if weight_column is None:
        return spec
    if isinstance(weight_column, str):
        weight_column = tf.feature_column.numeric_column(weight_column)
    key = getattr(weight_column, "key", None)
    if not isinstance(key, str):
        raise ConfigError(f"weight_column must be a key or a numeric column, got {weight_column!r}")
    if key in spec:
        raise ConfigError(f"the weights are called {key!r}, as the label or a feature of the columns is")
    spec.update(tf.feature_column.make_parse_example_spec([weight_column]))
    return spec
