"""Functions that make logits of features, and how they are called."""

import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.column_models import dense_columns
from tpack.errors import ConfigError
from tpack.tf1.estimator.logits import call_logit_fn, check_columns, dnn_logit_fn_builder, linear_logit_fn_builder

COLUMN = tf.feature_column.numeric_column("x")
FEATURES = {"x": [[1.0], [2.0]]}


def test_builders_make_functions_of_features(graph):
    features = {"x": tf.constant(FEATURES["x"])}
    linear = linear_logit_fn_builder(3, [COLUMN])
    network = dnn_logit_fn_builder(2, [4], [COLUMN], tf.nn.relu, None, None, False)
    assert call_logit_fn(linear, features, "train", None, None).shape == [2, 3]
    assert call_logit_fn(network, features, "train", None, None).shape == [2, 2]
    tags = {tensor.op.name for tensor in tf.get_collection(tf.GraphKeys.SUMMARIES)}
    assert {"bias", "fraction_of_zero_weights", "hiddenlayer_0/activation"} <= tags


def test_what_is_no_logit_function_is_refused(graph):
    for wrong in (3, lambda inputs: inputs):
        with pytest.raises(ConfigError, match="expected a function that takes features"):
            call_logit_fn(wrong, {}, "train", None, None)
    with pytest.raises(ConfigError, match="expected a tensor or a dict of tensors"):
        call_logit_fn(lambda features: 3, {}, "train", None, None)
    with pytest.raises(ConfigError, match="units=0"):
        linear_logit_fn_builder(0, [COLUMN])
    with pytest.raises(ConfigError, match="units=0"):
        dnn_logit_fn_builder(0, [1], [COLUMN], None, None, None, False)


def test_one_column_is_a_list_of_one():
    assert check_columns(None, COLUMN) == check_columns(None, (COLUMN,)) == [COLUMN]
    columns = dense_columns()
    assert check_columns(None, set(columns)) and len(check_columns(None, columns)) == 3
    for none in (None, []):
        with pytest.raises(ConfigError, match=r"expected at least one column"):
            check_columns(3, none)
