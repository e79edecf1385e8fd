"""An Estimator for TPUs, without one."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import tpack.tf1 as tf1
from tpack.errors import ConfigError
from tpack.tf1.estimator import tpu

XS = np.arange(12, dtype=np.float32).reshape(6, 2)


def input_fn(params):
    data = tf.data.Dataset.from_tensor_slices((XS, XS.sum(1)))
    return data.repeat(2).batch(params["batch_size"])


def model_fn(features, labels, mode, params):
    assert params["rate"] == 0.01
    weights = tf.get_variable("w", [2], initializer=tf.ones_initializer())
    outputs = tf.linalg.matvec(features, weights) + float(params["batch_size"])
    if mode == tf1.estimator.ModeKeys.PREDICT:
        return tpu.TPUEstimatorSpec(mode, predictions={"outputs": outputs})
    loss = tf.reduce_mean(tf.square(outputs - labels))
    optimizer = tf1.contrib.tpu.CrossShardOptimizer(tf.train.GradientDescentOptimizer(params["rate"]))
    return tpu.TPUEstimatorSpec(
        mode,
        loss=loss,
        train_op=optimizer.minimize(loss, tf.train.get_global_step()),
        eval_metrics=(lambda labels, outputs: {"error": tf.metrics.mean(outputs - labels)}, [labels, outputs]),
    )


def make(directory, **options):
    return tpu.TPUEstimator(model_fn, str(directory), params={"rate": 0.01}, use_tpu=False, **options)


def test_functions_are_told_the_size_of_a_batch_in_each_mode(tmp_path):
    estimator = make(tmp_path, train_batch_size=6, eval_batch_size=4, predict_batch_size=3)
    weights = np.ones(2)
    for _ in range(2):
        weights -= 0.01 * 2 * XS.T @ (XS @ weights + 6 - XS.sum(1)) / 6

    assert estimator.train(input_fn) is estimator
    metrics = estimator.evaluate(input_fn)
    predictions = [each["outputs"] for each in estimator.predict(input_fn)]

    np.testing.assert_allclose(estimator.get_variable_value("w"), weights, rtol=1e-5)
    np.testing.assert_allclose(metrics["error"], (XS @ weights + 4 - XS.sum(1)).mean(), rtol=1e-5)
    np.testing.assert_allclose(predictions, np.tile(XS @ weights + 3, 2), rtol=1e-5)


def test_a_spec_calls_its_functions(graph):
    seen = tf.Variable(0, trainable=False)
    spec = tpu.TPUEstimatorSpec(
        tf1.estimator.ModeKeys.TRAIN,
        loss=tf.constant(1.0),
        train_op=tf.no_op(),
        scaffold_fn=lambda: tf.train.Scaffold(init_op=tf.global_variables_initializer()),
        host_call=(lambda step: seen.assign_add(step), {"step": tf.constant(3)}),
        training_hooks=[tf.train.StopAtStepHook(1)],
    ).as_estimator_spec()

    with tf.train.SingularMonitoredSession([spec.training_hooks[1]], scaffold=spec.scaffold) as session:
        session.run(spec.train_op)
        session.run(spec.train_op)
        assert session.raw_session().run(seen) == 6
    assert isinstance(spec.training_hooks[0], tf.train.StopAtStepHook)


def test_a_config_keeps_the_options_of_a_tpu():
    config = tpu.RunConfig(tpu.TPUConfig(iterations_per_loop=7), save_checkpoints_steps=5)

    changed = config.replace(model_dir="elsewhere")

    assert changed.tpu_config.iterations_per_loop == 7
    assert (changed.model_dir, changed.save_checkpoints_steps) == ("elsewhere", 5)
    assert tpu.RunConfig().tpu_config == tpu.TPUConfig()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: tpu.TPUEstimator(model_fn), "expected False, since there are no TPUs here"),
        (
            lambda: tpu.TPUEstimator(model_fn, params={"batch_size": 3}, use_tpu=False),
            "expected none of them, since it adds them",
        ),
        (lambda: tpu.TPUEstimator(model_fn, use_tpu=False, eval_batch_size=0), "eval_batch_size"),
        (lambda: tpu.TPUEstimator(use_tpu=False), "got model_fn=None: expected a function"),
        (
            lambda: tpu.TPUEstimator(lambda features: None, use_tpu=False),
            "expected a function that takes params, which have the size of a batch",
        ),
        (lambda: tpu.RunConfig(master="grpc://10.0.0.1"), "expected None, since there are no TPUs and no servers here"),
    ],
)
def test_what_cannot_be_is_refused(call, message):
    with pytest.raises(ConfigError, match=message):
        call()


def test_an_input_without_params_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="expected a function that takes params, which have the size of a batch"):
        make(tmp_path).train(lambda: None)
    with pytest.raises(ConfigError, match="expected a function that takes params, which have the size of a"):
        make(tmp_path).train((np.zeros(3), np.zeros(3)))
