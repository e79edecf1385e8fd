"""Estimators made of others, and gradients that are clipped together."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tpack.errors import ConfigError
from tpack.estimator.estimator import Estimator
from tpack.estimator.spec import EstimatorSpec
from tpack.tf1.estimator.baseline import BaselineRegressor
from tpack.tf1.estimator.extenders import add_metrics, clip_gradients_by_norm, forward_features

FEATURES = {"x": np.arange(4.0), "id": np.arange(4)}


def built(estimator, mode, features=None):
    tf.train.get_or_create_global_step()
    features = features or {name: tf.constant(value) for name, value in FEATURES.items()}
    return estimator.model_fn(features, tf.ones([4]), mode)


def test_metrics_are_added_in_evaluation(tmp_path, graph):
    def most(labels, predictions):
        return {"most": tf.metrics.mean(tf.reduce_max(labels) - predictions["predictions"])}

    estimator = add_metrics(BaselineRegressor(str(tmp_path)), most)
    assert estimator.model_dir == str(tmp_path)
    with tf.variable_scope("", reuse=tf.AUTO_REUSE):
        assert {"most", "average_loss"} <= built(estimator, "eval").eval_metric_ops.keys()
        assert not built(estimator, "train").eval_metric_ops
        with pytest.raises(ConfigError, match="expected a dict of metrics"):
            built(add_metrics(estimator, lambda: 3), "eval")
    with pytest.raises(ConfigError, match="expected some of features, labels, predictions, config"):
        add_metrics(estimator, lambda logits: {})


def test_features_are_forwarded_in_prediction(tmp_path, graph):
    plain = BaselineRegressor(str(tmp_path))
    sparse = {"x": tf.ones([2]), "s": tf.sparse.from_dense([[1, 0], [0, 2]])}
    with tf.variable_scope("", reuse=tf.AUTO_REUSE):
        spec = built(forward_features(plain, "id"), "infer")
        assert spec.predictions.keys() == {"predictions", "id"}
        assert spec.export_outputs["predict"].outputs.keys() == {"predictions", "id"}
        assert built(forward_features(plain), "infer").predictions.keys() == {"predictions", "id", "x"}
        assert "id" not in built(forward_features(plain, "id"), "eval").predictions
        filled = built(forward_features(plain, ["s"], {"s": -1}), "infer", sparse).predictions["s"]
        with tf.Session() as session:
            assert session.run(filled).tolist() == [[1, -1], [-1, 2]]
        cases = [
            (plain, "none", "got 'none': expected some of x, s"),
            (plain, "s", "expected its fill value in sparse_default_values"),
            (forward_features(plain, "x"), "x", "got x, which the model predicts: expected other names"),
        ]
        with pytest.raises(ConfigError, match="got sparse_default_values with .id., which is dense"):
            built(forward_features(plain, "id", {"id": 0}), "infer")
        for estimator, key, message in cases:
            with pytest.raises(ConfigError, match=message):
                built(forward_features(estimator, key), "infer", sparse)

        def bare(features, labels, mode):
            return EstimatorSpec(mode, predictions=features["x"])

        with pytest.raises(ConfigError, match="got other features or predictions: expected dicts of both"):
            built(forward_features(Estimator(bare, str(tmp_path))), "infer")


def test_gradients_are_clipped_together(graph):
    clipping = clip_gradients_by_norm(tf.train.MomentumOptimizer(1.0, 0.5), 1.0)
    variables = [tf.get_variable(name, [], initializer=tf.zeros_initializer()) for name in "ab"]
    train_op = clipping.minimize(3 * variables[0] + 4 * variables[1])
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(train_op)
        np.testing.assert_allclose(session.run(variables), [-0.6, -0.8], rtol=1e-6)
    assert clipping.get_name() == "ClipByNormMomentum"
    assert clipping.get_slot_names() == ["momentum"]
    assert clipping.get_slot(variables[0], "momentum") in clipping.variables()
    with pytest.raises(ConfigError, match="got clip_norm=0: expected a positive number"):
        clip_gradients_by_norm(clipping, 0.0)
