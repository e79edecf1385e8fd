"""Specs to parse examples by."""

import pytest
import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError
from tpack.tf1.estimator.export import classifier_parse_example_spec, regressor_parse_example_spec

X = tf.feature_column.numeric_column("x")
W = tf.feature_column.numeric_column("w")


def feature(size, dtype, default=None):
    return tf.io.FixedLenFeature((size,), dtype, default)


def test_a_spec_has_features_label_and_weights():
    spec = {"x": feature(1, tf.float32), "y": feature(1, tf.int64), "w": feature(1, tf.float32)}
    assert classifier_parse_example_spec([X], "y", weight_column="w") == spec
    words = classifier_parse_example_spec([X], "y", tf.string, "none")
    assert words == {"x": feature(1, tf.float32), "y": feature(1, tf.string, "none")}
    numbers = regressor_parse_example_spec([X], "y", label_dimension=2, weight_column=W)
    assert numbers == {**spec, "y": feature(2, tf.float32)}


def test_names_are_given_once():
    with pytest.raises(ConfigError, match="expected another name than that of a feature"):
        classifier_parse_example_spec([X], "x")
    with pytest.raises(ConfigError, match="expected another name than that of the label or a feature"):
        regressor_parse_example_spec([X], "y", weight_column="y")
    with pytest.raises(ConfigError, match="expected a key or a numeric column"):
        classifier_parse_example_spec([X], "y", weight_column=3)
