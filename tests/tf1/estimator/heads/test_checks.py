"""What heads refuse, before and while the graph runs, and what they make of labels and weights."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError, WrongTypeError
from tpack.tf1.estimator.heads import checks
from tpack.tf1.estimator.heads.classification import BinaryClassHead, MultiClassHead

LOSSES = np.zeros((4, 1), "float32")


def test_reductions_have_names_of_both_tensorflows():
    assert checks.check_reduction("sum") == checks.check_reduction("weighted_sum") == tf.losses.Reduction.SUM
    assert checks.check_reduction("sum_over_batch_size") == tf.losses.Reduction.SUM_OVER_BATCH_SIZE
    for bad in ("none", "auto", 3):
        with pytest.raises(ConfigError, match="a head got loss_reduction=.*: expected one of weighted_sum"):
            checks.check_reduction(bad)


def test_classes_and_their_names_fit():
    checks.check_classes("a head", 3, ("a", "b", "c"), 3)
    with pytest.raises(ConfigError, match="MultiClassHead got n_classes=2: expected an integer of at least 3"):
        MultiClassHead(2)
    with pytest.raises(WrongTypeError, match="BinaryClassHead got label_vocabulary='ab': expected a list of text"):
        BinaryClassHead(label_vocabulary="ab")
    with pytest.raises(WrongTypeError, match="expected a list or tuple of names"):
        checks.check_classes("a head", 2, "ab", 2)
    for names in (["a"], ["a", "a"]):
        with pytest.raises(ConfigError, match="expected 2 different names"):
            BinaryClassHead(label_vocabulary=names)
    for threshold in (0.0, 1.5):
        with pytest.raises(ConfigError, match="a head got thresholds=.*: expected numbers between 0 and 1"):
            BinaryClassHead(thresholds=[threshold])


def test_logits_of_another_shape_or_dtype_are_refused(graph):
    assert checks.check_logits(np.zeros((2, 3), "float32"), 3).shape == [2, 3]
    with pytest.raises(ConfigError, match=r"got logits of the shape \(2, 3\): expected 2 column\(s\)"):
        checks.check_logits(tf.zeros([2, 3]), 2)
    with pytest.raises(ConfigError, match="got logits of int32: expected floats"):
        checks.check_logits(tf.zeros([2, 3], tf.int32), 3)


def test_labels_get_the_shape_of_logits(graph):
    logits = tf.zeros([4, 1])
    assert checks.check_labels(tf.zeros([4]), logits, 1).shape == [4, 1]
    cases = [
        (None, "got no labels from the input_fn: expected some to train and to"),
        (tf.sparse.from_dense([[1.0]]), "got labels a SparseTensor: expected one dense tensor"),
        (tf.zeros([4, 2]), r"got labels of the shape \(4, 2\): expected 1 column\(s\)"),
        (tf.zeros([3, 1]), r"got labels of the shape \(3, 1\): expected \(4, 1\), for logits of the"),
    ]
    for labels, message in cases:
        with pytest.raises(ConfigError, match=message):
            checks.check_labels(labels, logits, 1)


def test_labels_of_unknown_shape_are_checked_when_the_graph_runs(graph, session8):
    labels, logits = tf.placeholder(tf.float32), tf.placeholder(tf.float32, [None, 1])
    checked = checks.check_labels(labels, logits, 1)
    assert checked.shape.as_list() == [None, 1]
    feed = {logits: np.zeros((2, 1))}
    assert session8.run(checked, {**feed, labels: [[1.0], [2.0]]}).tolist() == [[1.0], [2.0]]
    with pytest.raises(tf.errors.InvalidArgumentError, match="must have a row for each row of the logits"):
        session8.run(checked, {**feed, labels: [[1.0]]})


def test_weights_are_those_of_a_key_or_of_a_column(graph, session8):
    features = {"w": tf.constant([1, 2, 3, 4]), "text": tf.constant(["a"] * 4), "wide": tf.ones([4, 3])}
    double = tf.feature_column.numeric_column("w", normalizer_fn=lambda value: 2 * value)
    assert checks.weights_of(features, None, LOSSES) == 1.0
    plain, doubled = session8.run(
        [checks.weights_of(features, column, tf.constant(LOSSES)) for column in ("w", double)]
    )
    assert plain.tolist() == [[1], [2], [3], [4]]
    assert doubled.tolist() == [[2], [4], [6], [8]]
    cases = [
        ("none", "got no feature 'none': expected that of the weight_column"),
        ("text", "weights of string in the feature .text.: expected numbers"),
        ("wide", r"got weights of the shape \(4, 3\): expected one for each loss of the"),
        (3, "got weight_column=3: expected a key of the features or a numeric"),
    ]
    for column, message in cases:
        with pytest.raises(ConfigError, match=message):
            checks.weights_of(features, column, tf.constant(LOSSES))


def test_labels_become_numbers_of_classes(graph, session8):
    ids = checks.ids_of(tf.constant(["b", "z", "a"]), ["a", "b"], "head")
    checked = checks.in_range(ids, 1, "labels")
    session8.run(tf.tables_initializer())
    assert session8.run(ids).tolist() == [1, -1, 0]
    with pytest.raises(tf.errors.InvalidArgumentError, match="labels must be from 0 to 1, or names of the"):
        session8.run(checked)
    with pytest.raises(tf.errors.InvalidArgumentError, match="labels must be from 0 to 2"):
        session8.run(checks.in_range(tf.constant([3]), 2, "labels"))
    with pytest.raises(ConfigError, match="got labels of float32: expected integers"):
        checks.ids_of(tf.constant([1.0]), None, "head")
    with pytest.raises(ConfigError, match="got labels of int32: expected strings"):
        checks.ids_of(tf.constant([1]), ["a", "b"], "head")


def test_columns_may_be_unknown_where_shapes_are_those_of_tensorflow_1(graph):
    tf.disable_v2_tensorshape()
    try:
        logits = tf.placeholder(tf.float32, [None, None])
        checked = checks.check_labels(tf.placeholder(tf.float32, [None, None]), logits, 1)
        assert checked.shape.as_list() == [None, 1]
        checks.check_logits(logits, 1)
        with pytest.raises(ConfigError, match=r"expected 1 column\(s\)"):
            checks.check_labels(tf.placeholder(tf.float32, [None, 2]), logits, 1)
    finally:
        tf.enable_v2_tensorshape()


def test_weights_have_a_row_for_each_row_of_losses(graph, session8):
    losses, unknown = tf.zeros([2, 2, 1]), tf.placeholder(tf.float32)
    for shape in ([2, 1], [2, 1, 1], [1, 2]):
        with pytest.raises(ConfigError, match=r"expected one for each loss of the"):
            checks.weights_of({"w": tf.ones(shape)}, "w", losses)
    found = checks.weights_of({"w": unknown}, "w", losses)
    for shape in ([2, 2], [2, 2, 1]):
        assert session8.run(found, {unknown: np.ones(shape)}).shape == (2, 2, 1)
    for shape in ([2, 1], [2, 1, 1], [2]):
        with pytest.raises(tf.errors.InvalidArgumentError):
            session8.run(found, {unknown: np.ones(shape)})
