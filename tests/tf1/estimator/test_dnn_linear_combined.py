"""Wide and deep models: the sum of both parts, each with its optimizer, in towers and under a strategy."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.column_models import column_data, dense_columns, linear_columns, train_in_towers
from tests.helpers.replicated_models import devices
from tpack.distribute.strategies import MirroredStrategy
from tpack.errors import ConfigError
from tpack.tf1.estimator.dnn_linear_combined import (
    DNNLinearCombinedClassifier,
    DNNLinearCombinedEstimator,
    DNNLinearCombinedRegressor,
)
from tpack.tf1.estimator.heads.regression import RegressionHead
from tpack.tf1.estimator.tpu_estimator import RunConfig

RNG = np.random.default_rng(2)


def both():
    return {"linear_feature_columns": linear_columns(), "dnn_feature_columns": dense_columns(), "dnn_hidden_units": [4]}


def test_towers_train_as_one_and_count_each_step_once(tmp_path):
    data = column_data(RNG), RNG.normal(size=16).astype("float32")
    estimator = DNNLinearCombinedRegressor(str(tmp_path), linear_optimizer="SGD", dnn_optimizer="SGD", **both())
    one, two = (train_in_towers(estimator, data, towers, "weighted_sum") for towers in (1, 2))
    assert one["global_step"] == two["global_step"] == 5
    assert one.keys() == two.keys()
    assert {name.partition("/")[0] for name in one} == {"dnn", "linear", "losses", "global_step"}
    for name, value in one.items():
        np.testing.assert_allclose(two[name], value, rtol=1e-3, atol=1e-5, err_msg=name)


def test_a_strategy_trains_as_one_device_does(tmp_path):
    features, labels = column_data(RNG), RNG.integers(2, size=16)
    found = []
    for index, strategy in enumerate((None, MirroredStrategy(devices(2)))):
        config = RunConfig(tf_random_seed=1, train_distribute=strategy)
        estimator = DNNLinearCombinedClassifier(str(tmp_path / str(index)), config=config, **both())
        batch = 8 if strategy else 16

        def input_fn(batch=batch):
            return tf.data.Dataset.from_tensor_slices((features, labels)).repeat(2).batch(batch)

        estimator.train(input_fn)
        found.append({name: estimator.get_variable_value(name) for name in estimator.get_variable_names()})
    assert found[0].keys() == found[1].keys()
    for name, value in found[0].items():
        np.testing.assert_allclose(found[1][name], value, rtol=1e-3, atol=1e-5, err_msg=name)


@pytest.mark.parametrize("part", ["linear", "dnn"])
def test_one_part_alone_is_enough(tmp_path, graph, part):
    options = {name: value for name, value in both().items() if name.startswith(part)}
    estimator = DNNLinearCombinedEstimator(RegressionHead(), str(tmp_path), **options)
    tf.train.create_global_step()
    features = {name: tf.constant(value) for name, value in column_data(RNG).items()}
    estimator.model_fn(features, tf.ones([16]), "train")
    assert {variable.op.name.partition("/")[0] for variable in tf.trainable_variables()} == {part}


def test_wrong_arguments_are_refused():
    with pytest.raises(ConfigError, match="expected linear_feature_columns, dnn_feature_columns or both"):
        DNNLinearCombinedClassifier()
    with pytest.raises(ConfigError, match="dnn_feature_columns without dnn_hidden_units"):
        DNNLinearCombinedClassifier(dnn_feature_columns=dense_columns())
