"""A model that is replicated over K devices is the model, on one batch as a whole."""

import functools

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.replicated_models import batch, devices, regression, train
from tests.helpers.sessions import cpu_session
from tpack.errors import ConfigError
from tpack.estimator.replicate_model_fn import replicate_model_fn, shard_inputs
from tpack.estimator.replicated import VariablePlacement, replication_over
from tpack.estimator.spec import EstimatorSpec, ModeKeys
from tpack.estimator.tower_optimizer import TowerOptimizer
from tpack.tower.context import TowerContext

OPTIMIZERS = {
    "sgd": lambda: tf.train.GradientDescentOptimizer(0.05),
    "momentum": lambda: tf.train.MomentumOptimizer(0.02, 0.9),
    "adam": lambda: tf.train.AdamOptimizer(0.1),
    "adagrad": lambda: tf.train.AdagradOptimizer(0.3),
}


def assert_same(got, expected):
    assert got.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_allclose(got[name], value, rtol=2e-4, atol=2e-5, err_msg=name)


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_towers_train_like_one_big_batch(rng, optimizer):
    data = batch(rng)
    params = {"optimizer": OPTIMIZERS[optimizer]}
    expected = train(regression, data, params=params)
    assert np.isfinite(expected["losses"]).all()
    assert expected["losses"][-1] < expected["losses"][0]
    for num_towers in (1, 2, 4, 8) if optimizer == "adam" else (8,):
        assert_same(train(replicate_model_fn(regression, devices=devices(num_towers)), data, params=params), expected)


def test_sums_of_losses_are_summed(rng):
    data = batch(rng)
    params = {"reduce": tf.reduce_sum, "optimizer": lambda: tf.train.GradientDescentOptimizer(0.005)}
    replicated = replicate_model_fn(regression, tf.losses.Reduction.SUM, devices(4))
    assert_same(train(replicated, data, params=params), train(regression, data, params=params))


def test_variables_round_robin(rng):
    data = batch(rng)
    replicated = replicate_model_fn(regression, devices=devices(3), variable_placement=VariablePlacement.ROUND_ROBIN)
    with tf.Graph().as_default():
        features, labels = tf.nest.map_structure(lambda value: tf.constant(value[:15]), data)
        tf.train.get_or_create_global_step()
        replicated(features, labels, mode=ModeKeys.TRAIN)
        names = {variable.op.name: variable.device for variable in tf.trainable_variables()}
    assert names == {"weights": "/device:CPU:0", "table": "/device:CPU:1"}


def test_names_are_those_of_one_tower(rng):
    features, labels = batch(rng)
    with tf.Graph().as_default() as graph, cpu_session() as session:
        tf.train.get_or_create_global_step()
        spec = replicate_model_fn(regression, devices=devices(2))(features, labels, mode=ModeKeys.TRAIN)
        session.run(tf.global_variables_initializer())
        assert [variable.op.name for variable in tf.trainable_variables()] == ["weights", "table"]
        assert spec.loss.name == "loss:0"
        first, second = session.run(["values:0", "tower_1/values:0"])
        np.testing.assert_array_equal(np.concatenate([first, second]), np.ones(16))
        assert graph.get_tensor_by_name("values:0").device == "/device:CPU:0"
        assert graph.get_tensor_by_name("tower_1/values:0").device == "/device:CPU:1"


def test_predictions_and_metrics_are_those_of_the_batch(rng):
    features, labels = batch(rng)
    answers = {}
    for num_towers in (1, 2, 8):
        with tf.Graph().as_default(), cpu_session() as session:
            replicated = replicate_model_fn(regression, devices=devices(num_towers))
            evaluated = replicated(features, labels, mode=ModeKeys.EVAL)
            with tf.variable_scope("", reuse=True):
                predicted = replicated(features, None, mode=ModeKeys.PREDICT)
            session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
            session.run(tf.trainable_variables()[0].assign([0.5, 1.5, -2]))
            session.run(evaluated.eval_metric_ops["error"][1])
            wanted = (evaluated.loss, evaluated.eval_metric_ops["error"][0], predicted.predictions["values"])
            outputs = predicted.export_outputs
            answers[num_towers] = session.run(
                (*wanted, outputs["serving_default"].outputs["values"], outputs["regress"].value)
            )
    for num_towers in (2, 8):
        for got, expected in zip(answers[num_towers], answers[1], strict=True):
            np.testing.assert_allclose(got, expected, rtol=1e-6)
    assert answers[8][2].shape == (16,)


def test_params_and_config_reach_each_tower_as_copies(graph):
    seen = []

    def model(features, labels, mode, params, config):
        seen.append((params.pop("a"), config))
        return EstimatorSpec(mode, features)

    replicated = replicate_model_fn(model, devices=devices(2))
    params = {"a": 1}
    replicated(tf.zeros([2]), None, ModeKeys.PREDICT, params=params, config="config")
    assert (seen, params) == ([(1, "config")] * 2, {"a": 1})


def test_inside_the_tower_of_an_estimator(rng):
    data = batch(rng)

    def inside(features, labels, mode, params):
        with TowerContext("", is_training=True):
            return replicate_model_fn(regression, devices=devices(4))(features, labels, mode, params=params)

    assert_same(train(inside, data), train(regression, data))


def test_sparse_features_and_labels_by_name(rng):
    data = batch(rng)

    def model(features, labels, mode):
        weights = tf.get_variable("weights", [3, 1], initializer=tf.zeros_initializer())
        values = tf.sparse.sparse_dense_matmul(features["x"], weights)[:, 0] * features["nested"][0]
        loss = tf.losses.mean_squared_error(labels["y"], values)
        optimizer = TowerOptimizer(tf.train.MomentumOptimizer(0.05, 0.9))
        return EstimatorSpec(mode, loss=loss, train_op=optimizer.minimize(loss, tf.train.get_global_step()))

    def sparse(model_fn):
        def with_sparse_inputs(features, labels, mode, params):
            x = tf.sparse.from_dense(tf.nn.relu(features["x"]))
            ones = tf.ones([16])
            return model_fn({"x": x, "nested": [ones]}, {"y": labels}, mode=mode)

        return with_sparse_inputs

    expected = train(sparse(model), data)
    assert expected["losses"][-1] < expected["losses"][0]
    for num_towers in (2, 8):
        assert_same(train(sparse(replicate_model_fn(model, devices=devices(num_towers))), data), expected)


def test_one_device_is_not_split(graph):
    replicated = replicate_model_fn(lambda features, mode: EstimatorSpec(mode, features), devices=["/gpu:0"])
    features = tf.zeros([3])
    assert replicated(features, None, mode=ModeKeys.PREDICT).predictions is features
    assert shard_inputs(1, 2, replication_over(["/gpu:0"])) == [(1, 2)]


def test_replicated_models_are_model_fns_themselves(rng):
    data = batch(rng)
    partial = functools.partial(regression, params={"optimizer": OPTIMIZERS["adam"]})
    assert_same(
        train(replicate_model_fn(partial, devices=devices(2)), data),
        train(regression, data, params={"optimizer": OPTIMIZERS["adam"]}),
    )


@pytest.mark.parametrize("reduction", [tf.losses.Reduction.NONE, "whatever"])
def test_losses_that_are_not_reduced_are_refused(reduction):
    with pytest.raises(ConfigError, match="replicate_model_fn got loss_reduction=.*: expected a reduction"):
        replicate_model_fn(regression, reduction)
    with pytest.raises(ValueError, match="replicate_model_fn got loss_reduction=None: expected text"):
        replicate_model_fn(regression, None)


def test_what_is_no_model_fn_is_refused():
    with pytest.raises(ConfigError, match="does not take features"):
        replicate_model_fn(lambda x: x)


def test_batch_that_is_not_divisible_is_refused(graph, rng):
    features, labels = batch(rng, 6)
    with pytest.raises(ConfigError, match="divisible by the number of towers, 4"):
        replicate_model_fn(regression, devices=devices(4))(features, labels, mode=ModeKeys.EVAL)


def plain_optimizer(features, mode, calls=1):
    x = tf.get_variable("x", [])
    loss = tf.reduce_mean(features * x)
    return EstimatorSpec(mode, loss=loss, train_op=tf.train.GradientDescentOptimizer(0.1).minimize(loss))


def test_optimizer_that_is_not_wrapped_is_refused(graph):
    with pytest.raises(ConfigError, match="expected one of a TowerOptimizer"):
        replicate_model_fn(plain_optimizer, devices=devices(2))(tf.ones([2]), None, mode=ModeKeys.TRAIN)


def test_optimizer_that_is_not_wrapped_is_fine_on_one_device(graph):
    spec = replicate_model_fn(plain_optimizer, devices=devices(1))(tf.ones([2]), None, mode=ModeKeys.TRAIN)
    with cpu_session() as session:
        session.run(tf.global_variables_initializer())
        before = session.run(tf.trainable_variables()[0])
        session.run(spec.train_op)
        np.testing.assert_allclose(session.run(tf.trainable_variables()[0]), before - 0.1, rtol=1e-6)


def test_no_gradient_at_all_is_refused(graph):
    def model(features, mode):
        tf.get_variable("x", [])
        train_op = TowerOptimizer(tf.train.GradientDescentOptimizer(0.1)).apply_gradients(
            [(None, variable) for variable in tf.trainable_variables()]
        )
        return EstimatorSpec(mode, loss=tf.reduce_mean(features), train_op=train_op)

    with pytest.raises(ConfigError, match="no tower has a gradient"):
        replicate_model_fn(model, devices=devices(2))(tf.ones([2]), None, mode=ModeKeys.TRAIN)
