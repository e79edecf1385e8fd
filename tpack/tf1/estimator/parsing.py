"""Specs for ``tf.io.parse_example``: the features of a model's columns, its labels and its weights."""

from typing import Any

import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError
from tpack.tf1.signatures import like
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
        label_key: the name of the label.
        label_dtype: ``tf.int64``, or ``tf.string`` for a classifier with a ``label_vocabulary``.
        label_default: the label of an example without one; None for an error.
        weight_column: a key, or a numeric column.

    Raises:
        ConfigError: A label or weight has the name of a feature, or the ``weight_column`` is something else.
    """
    return _spec(1, **locals())


@check_arguments
@like(classifier_parse_example_spec, after={"label_default": {"label_dimension": 1}}, label_dtype=tf.float32)
def regressor_parse_example_spec(label_dimension: int, **given: Any) -> dict[str, Any]:
    """Return the parsing spec of a regressor's examples.

    Args:
        label_dtype: of the label.
        label_dimension: the number of numbers of a label.
        **given: see `classifier_parse_example_spec`.

    Raises:
        ConfigError: As for `classifier_parse_example_spec`.
    """
    return _spec(check_count("regressor_parse_example_spec", "label_dimension", label_dimension), **given)


def _spec(
    width: int, *, feature_columns: Any, label_key: str, label_dtype: Any, label_default: Any, weight_column: Any
) -> dict[str, Any]:
    spec = dict(tf.feature_column.make_parse_example_spec(feature_columns))
    label_key = check_text("a parsing spec", "label_key", label_key)
    if label_key in spec:
        raise ConfigError(f"got label_key={label_key!r}: expected another name than that of a feature")
    spec[label_key] = tf.io.FixedLenFeature((width,), tf.as_dtype(label_dtype), label_default)
    if weight_column is None:
        return spec
    if isinstance(weight_column, str):
        weight_column = tf.feature_column.numeric_column(weight_column)
    key = getattr(weight_column, "key", None)
    if not isinstance(key, str):
        raise ConfigError(f"got weight_column={weight_column!r}: expected a key or a numeric column")
    if key in spec:
        raise ConfigError(f"got weight_column {key!r}: expected another name than that of the label or a feature")
    spec.update(tf.feature_column.make_parse_example_spec([weight_column]))
    return spec
