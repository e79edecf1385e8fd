"""Linear models against scikit-learn, and their names against those of TensorFlow 1.15."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from sklearn.linear_model import LinearRegression, LogisticRegression

from tests.helpers.column_models import column_data, linear_columns, train_in_towers
from tests.helpers.replicated_models import train
from tpack.errors import ConfigError, WrongTypeError
from tpack.tf1.estimator.canned import LinearClassifier, LinearEstimator, LinearRegressor
from tpack.tf1.estimator.heads.classification import MultiLabelHead

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 2)).astype("float32")
COLUMN = tf.feature_column.numeric_column("x", shape=(2,))
PREFIX = "linear/linear_model"


def fitted(estimator, labels, steps):
    found = train(
        lambda features, labels, mode, params: estimator.model_fn(features, labels, mode),
        ({"x": X}, labels),
        steps=steps,
    )
    return found[f"{PREFIX}/x/weights/part_0"], found[f"{PREFIX}/bias_weights/part_0"]


def test_a_converged_classifier_is_that_of_scikit_learn(tmp_path):
    labels = (X @ [1.0, -2.0] + 2 * np.random.default_rng(1).normal(size=60) > 0.3).astype("int64")
    optimizer = tf.train.GradientDescentOptimizer(0.1)
    weights, bias = fitted(LinearClassifier(COLUMN, str(tmp_path), optimizer=optimizer), labels, 400)
    expected = LogisticRegression(C=np.inf, tol=1e-8).fit(X, labels)
    np.testing.assert_allclose(weights[:, 0], expected.coef_[0], rtol=1e-3)
    np.testing.assert_allclose(bias, expected.intercept_, rtol=1e-3)


def test_a_converged_regressor_is_that_of_scikit_learn(tmp_path):
    labels = (X @ [[1.0], [-2.0]] + 0.5 + 0.1 * RNG.normal(size=(60, 1))).astype("float32")
    weights, bias = fitted(LinearRegressor([COLUMN], str(tmp_path), optimizer=sgd), labels, 200)
    expected = LinearRegression().fit(X, labels)
    np.testing.assert_allclose(weights[:, 0], expected.coef_[0], rtol=1e-4)
    np.testing.assert_allclose(bias, expected.intercept_, rtol=1e-4)


def sgd():
    return tf.train.GradientDescentOptimizer(0.005)


@pytest.mark.parametrize("reduction", ["weighted_sum", "weighted_sum_over_batch_size"])
def test_towers_train_as_one_and_names_are_those_of_tensorflow_1(tmp_path, reduction):
    data = column_data(RNG), RNG.integers(3, size=16)
    options = {"n_classes": 3, "loss_reduction": reduction}
    if reduction == "weighted_sum":
        options["weight_column"] = "w"
    one, three = (
        train_in_towers(LinearClassifier(linear_columns(), str(tmp_path), **options), data, towers, reduction)
        for towers in (1, 4)
    )
    names = {f"{PREFIX}/{name}/part_0" for name in ("x/weights", "c/weights", "c_X_h/weights", "bias_weights")}
    slots = {f"linear/{name}/{slot}" for name in names for slot in ("Ftrl", "Ftrl_1")}
    assert one.keys() == three.keys() == names | slots | {"losses", "global_step"}
    for name, value in one.items():
        np.testing.assert_allclose(three[name], value, rtol=1e-3, atol=1e-5, err_msg=name)


def test_any_head_and_one_rate_for_few_columns(tmp_path, graph):
    estimator = LinearEstimator(MultiLabelHead(2), linear_columns(), str(tmp_path), "SGD")
    tf.train.create_global_step()
    features = {name: tf.constant(value) for name, value in column_data(RNG).items()}
    spec = estimator.model_fn(features, tf.ones([16, 2], tf.int64), "train")
    rates = [op for op in graph.get_operations() if op.type == "ResourceApplyGradientDescent"]
    # There are three columns: one over the root of that is more than the highest rate.
    assert {tf.get_static_value(op.inputs[1]).item() for op in rates} == {np.float32(0.2).item()}
    assert spec.loss.shape == []
    with pytest.raises(ConfigError, match="expected a dict of features"):
        estimator.model_fn(tf.ones([2, 2]), None, "infer")


def test_a_model_in_parts_goes_on_from_its_checkpoint(tmp_path):
    def input_fn():
        return tf.data.Dataset.from_tensors(({"x": X}, X[:, :1]))

    # The slots of parts are saved as if each were the only one.
    for step in (1, 2):
        estimator = LinearRegressor(COLUMN, str(tmp_path), partitioner=tf.fixed_size_partitioner(2))
        assert estimator.train(input_fn).get_variable_value("global_step") == step


def test_wrong_arguments_are_refused():
    with pytest.raises(ConfigError, match=r"got feature_columns=\[\]: expected at least one column"):
        LinearClassifier([])
    with pytest.raises(ConfigError, match="expected one of Adagrad, Adam, Ftrl, RMSProp, SGD"):
        LinearRegressor(COLUMN, optimizer="Sgd")
    with pytest.raises(WrongTypeError, match="LinearEstimator"):
        LinearEstimator("binary", [COLUMN])
