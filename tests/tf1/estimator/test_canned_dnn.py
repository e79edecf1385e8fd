"""Networks of dense layers against their formula in numpy, step by step."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.column_models import column_data, dense_columns, train_in_towers
from tests.helpers.replicated_models import train
from tpack.errors import ConfigError
from tpack.tf1.estimator.canned import DNNClassifier, DNNEstimator, DNNRegressor
from tpack.tf1.estimator.heads.regression import RegressionHead

RNG = np.random.default_rng(1)
X = RNG.normal(size=(20, 2)).astype("float32")
Y = RNG.normal(size=(20, 1)).astype("float32")
COLUMN = tf.feature_column.numeric_column("x", shape=(2,))
RATE, FIRST_SUM = 0.05, 0.1


def start():
    """Return the first weights of a network with a hidden layer of three."""
    return [RNG.normal(size=shape).astype("float32") for shape in ((2, 3), (3,), (3, 1), (1,))]


def adagrad_steps(weights, steps):
    """Return the weights after steps of Adagrad on the squared error, and the losses before each step."""
    weights, sums, losses = [w.astype("float64") for w in weights], [FIRST_SUM] * 4, []
    for _ in range(steps):
        w1, b1, w2, b2 = weights
        hidden = np.maximum(X @ w1 + b1, 0)
        error = hidden @ w2 + b2 - Y
        losses.append((error**2).sum())
        back = (2 * error) @ w2.T * (hidden > 0)
        grads = [X.T @ back, back.sum(0), hidden.T @ (2 * error), (2 * error).sum(0)]
        sums = [total + grad**2 for total, grad in zip(sums, grads, strict=True)]
        weights = [w - RATE * grad / np.sqrt(total) for w, grad, total in zip(weights, grads, sums, strict=True)]
    return weights, losses


def test_steps_are_those_of_the_formula(tmp_path):
    first = start()
    estimator = DNNRegressor([3], COLUMN, str(tmp_path))
    names = [f"dnn/{name}" for name in ("hiddenlayer_0/kernel", "hiddenlayer_0/bias", "logits/kernel", "logits/bias")]
    values = dict(zip(names, first, strict=True))

    def model_fn(features, labels, mode, params):
        def from_values(getter, name, *args, **kwargs):
            first_value = {"initializer": tf.constant_initializer(values[name])} if name in values else {}
            return getter(name, *args, **{**kwargs, **first_value})

        with tf.variable_scope("", custom_getter=from_values):
            return estimator.model_fn(features, labels, mode)

    found = train(model_fn, ({"x": X}, Y), steps=5)
    weights, losses = adagrad_steps(first, 5)
    np.testing.assert_allclose(found["losses"], losses, rtol=1e-4)
    for name, value in zip(names, weights, strict=True):
        np.testing.assert_allclose(found[f"{name}/part_0"], value, rtol=1e-3, atol=1e-5, err_msg=name)


def test_towers_train_as_one(tmp_path):
    data = column_data(RNG), np.array(["u", "v", "w", "w"] * 4)
    options = {"n_classes": 3, "label_vocabulary": ["u", "v", "w"], "weight_column": "w", "optimizer": "SGD"}
    one, two = (
        train_in_towers(DNNClassifier([4, 3], dense_columns(), str(tmp_path), **options), data, towers, "weighted_sum")
        for towers in (1, 2)
    )
    assert "dnn/input_from_feature_columns/input_layer/h_embedding/embedding_weights/part_0" in one
    assert one.keys() == two.keys()
    for name, value in one.items():
        np.testing.assert_allclose(two[name], value, rtol=1e-3, atol=1e-5, err_msg=name)


def test_dropout_is_for_training_and_batches_are_normalised(tmp_path, graph, session8):
    estimator = DNNEstimator(
        RegressionHead(), [4], COLUMN, str(tmp_path), dropout=0.5, activation_fn=None, batch_norm=True
    )
    tf.train.create_global_step()
    for mode in ("train", "infer"):
        with tf.variable_scope("", reuse=tf.AUTO_REUSE):
            estimator.model_fn({"x": tf.constant(X)}, tf.constant(Y), mode)
        assert len([op for op in graph.get_operations() if op.type == "RandomUniform" and "dropout" in op.name]) == 1
    names = {variable.op.name for variable in tf.global_variables()}
    normal = {"gamma/part_0", "beta/part_0", "moving_mean", "moving_variance"}
    assert {f"dnn/hiddenlayer_0/batchnorm_0/{name}" for name in normal} <= names
    tags = {tensor.op.name for tensor in tf.get_collection(tf.GraphKeys.SUMMARIES)}
    assert {"dnn/dnn/hiddenlayer_0/fraction_of_zero_values", "dnn/dnn/logits/activation"} <= tags


def test_wrong_arguments_are_refused():
    with pytest.raises(ConfigError, match="hidden_units=0"):
        DNNRegressor([3, 0], COLUMN)
    with pytest.raises(ConfigError, match="expected at least 0 and less than 1"):
        DNNClassifier([3], COLUMN, dropout=1.0)
