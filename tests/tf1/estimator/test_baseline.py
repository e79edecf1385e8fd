"""Models without features learn the mean, or how frequent classes are."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.replicated_models import train
from tpack.errors import ConfigError
from tpack.tf1.estimator.baseline import BaselineClassifier, BaselineEstimator, BaselineRegressor
from tpack.tf1.estimator.heads.regression import PoissonRegressionHead

X = np.zeros((10, 1), "float32")


def bias_of(estimator, labels, steps=300):
    def model_fn(features, labels, mode, params):
        return estimator.model_fn(features, labels, mode)

    return train(model_fn, ({"x": X}, labels), steps=steps)["baseline/bias"]


def test_frequencies_and_means_are_learned(tmp_path):
    sgd = tf.train.GradientDescentOptimizer(0.1)
    counts = np.array([5, 3, 2])
    bias = bias_of(BaselineClassifier(str(tmp_path), 3, optimizer=sgd), np.repeat([0, 1, 2], counts))
    np.testing.assert_allclose(np.exp(bias) / np.exp(bias).sum(), counts / 10, rtol=1e-3)
    values = np.arange(20, dtype="float32").reshape(10, 2)
    regressor = BaselineRegressor(str(tmp_path), 2, optimizer=lambda: tf.train.GradientDescentOptimizer(0.02))
    np.testing.assert_allclose(bias_of(regressor, values, 50), values.mean(0), rtol=1e-3)
    poisson = BaselineEstimator(PoissonRegressionHead(), str(tmp_path), "SGD")
    np.testing.assert_allclose(np.exp(bias_of(poisson, values[:, :1] / 10)), [0.9], rtol=1e-3)


def test_examples_are_counted_by_the_first_feature(graph, tmp_path):
    estimator = BaselineRegressor(str(tmp_path))
    spec = estimator.model_fn({"s": tf.sparse.from_dense(tf.ones([3, 2]))}, None, "infer")
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        assert session.run(spec.predictions["predictions"]).tolist() == [[0.0]] * 3
    with pytest.raises(ConfigError, match="expected a dict of features, to count"):
        estimator.model_fn({}, None, "infer")
