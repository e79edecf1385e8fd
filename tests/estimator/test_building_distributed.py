"""Estimators train and evaluate under distribution strategies as they do on one batch as a whole."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.log_lines import captured_log
from tests.helpers.optimizers import OPTIMIZERS
from tests.helpers.replicated_models import batch, devices, regression
from tpack.distribute.optimizer import DistributedOptimizer
from tpack.distribute.strategies import MirroredStrategy, OneDeviceStrategy, ParameterServerStrategy
from tpack.errors import StrategyError, TowerMismatchError
from tpack.estimator.building import ModelParts, WarmStartSettings, build_distributed_training
from tpack.estimator.estimator import Estimator
from tpack.estimator.inputs import GivenInput
from tpack.estimator.run_config import RunConfig
from tpack.estimator.spec import EstimatorSpec, ModeKeys
from tpack.models.batch_norm import BatchNorm
from tpack.models.dropout import Dropout
from tpack.tower.context import current_tower_context

DATA = batch(np.random.default_rng(7), 64)
STRATEGIES = {
    "mirrored 1": lambda: MirroredStrategy(devices(1)),
    "mirrored 2": lambda: MirroredStrategy(devices(2)),
    "mirrored 8": lambda: MirroredStrategy(devices(8)),
    "parameter server": lambda: ParameterServerStrategy(num_gpus_per_worker=2),
    "one device": lambda: OneDeviceStrategy("/gpu:1"),
}


def batches(size, data=DATA):
    return lambda: tf.data.Dataset.from_tensor_slices(data).batch(size)


def weights(estimator):
    return {name: estimator.get_variable_value(name) for name in estimator.get_variable_names()}


def run(model, directory, strategy, num_towers, **options):
    """Train twice on the data, evaluate, and return weights and results."""
    config = RunConfig(tf_random_seed=1, train_distribute=strategy, eval_distribute=strategy)
    estimator = Estimator(model, str(directory), config, **options)
    for _ in range(2):
        estimator.train(batches(16 // num_towers))
    return weights(estimator), estimator.evaluate(batches(16 // num_towers))


def assert_close(got, expected):
    assert got.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_allclose(got[name], value, rtol=1e-4, atol=1e-6, err_msg=name)


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    params = {"optimizer": lambda: tf.train.AdamOptimizer(0.1)}
    return run(regression, tmp_path_factory.mktemp("one"), None, 1, params=params)


@pytest.mark.parametrize("name", STRATEGIES)
def test_towers_train_and_evaluate_like_one_big_batch(tmp_path, expected, name):
    strategy = STRATEGIES[name]()
    params = {"optimizer": lambda: tf.train.AdamOptimizer(0.1)}
    got, results = run(regression, tmp_path, strategy, strategy.num_towers, params=params)
    assert got["global_step"] == results["global_step"] == 8
    assert_close(got, expected[0])
    assert_close(results, expected[1])
    # Its checkpoints are those of an Estimator without a strategy.
    plain = Estimator(regression, str(tmp_path), params=params)
    assert_close(plain.evaluate(batches(16)), expected[1])
    assert plain.train(batches(16), steps=1).get_variable_value("global_step") == 9


def summing(features, labels, mode):
    """A loss that is a sum, of ``tf.losses``, by a DistributedOptimizer."""
    values = tf.linalg.matvec(features["x"], tf.get_variable("w", [3], initializer=tf.zeros_initializer()))
    loss = tf.losses.mean_squared_error(labels, values, reduction=tf.losses.Reduction.SUM)
    rate = tf.train.exponential_decay(0.01, tf.train.get_global_step(), 2, 0.9)
    train_op = DistributedOptimizer(tf.train.MomentumOptimizer(rate, 0.5)).minimize(loss, tf.train.get_global_step())
    return EstimatorSpec(mode, None, loss, train_op)


def test_losses_that_are_sums_are_summed(tmp_path):
    expected = run(summing, tmp_path / "1", None, 1)
    got = run(summing, tmp_path / "4", MirroredStrategy(devices(4)), 4)
    assert_close(got[0], expected[0])
    assert_close(got[1], expected[1])


def test_a_tower_cannot_count_the_steps_by_itself(tmp_path):
    def model(features, labels, mode):
        w = tf.get_variable("w", [])
        with tf.control_dependencies([w]):
            train_op = tf.train.get_global_step().assign_add(1)
        return EstimatorSpec(mode, None, tf.reduce_mean(labels * w), train_op)

    config = RunConfig(train_distribute=MirroredStrategy(devices(2)))
    with pytest.raises(StrategyError, match="global_step"):
        Estimator(model, str(tmp_path), config).train(batches(16), steps=1)


def test_layers_know_what_they_are_built_for_and_all_towers_update(tmp_path):
    seen = []

    def model(features, labels, mode):
        tower = current_tower_context()
        seen.append((mode, tower.is_training, tower.index, tower.total))
        values = Dropout(BatchNorm("bn", features["x"], momentum=0.0), rate=0.5)
        loss = tf.reduce_mean(values)
        train_op = None
        if mode == "train":
            optimizer = DistributedOptimizer(tf.train.GradientDescentOptimizer(0.0))
            train_op = tf.group(
                optimizer.minimize(loss, tf.train.get_global_step()), *tf.get_collection(tf.GraphKeys.UPDATE_OPS)
            )
        return EstimatorSpec(mode, None, loss, train_op, {"mean": tf.metrics.mean(values)})

    strategy = MirroredStrategy(devices(2))
    estimator = Estimator(model, str(tmp_path), RunConfig(train_distribute=strategy, eval_distribute=strategy))
    estimator.train(batches(16), steps=1)
    # The moving averages are those of both towers' batches, with nothing kept of before.
    means = DATA[0]["x"][:32].reshape(2, 16, 3).mean(axis=1)
    np.testing.assert_allclose(estimator.get_variable_value("bn/mean/EMA"), means.mean(axis=0), rtol=1e-4, atol=1e-6)
    # Without dropout and with these averages, in evaluation.
    variance = estimator.get_variable_value("bn/variance/EMA")
    normed = (DATA[0]["x"] - means.mean(axis=0)) / np.sqrt(variance + 1e-5)
    np.testing.assert_allclose(estimator.evaluate(batches(16))["mean"], normed.mean(), rtol=1e-4, atol=1e-5)
    assert seen == [("train", True, 0, 2), ("train", True, 1, 2), ("eval", False, 0, 2), ("eval", False, 1, 2)]


def test_the_strategy_is_told_of_the_session(tmp_path):
    class Told(MirroredStrategy):
        def configure(self, session_config=None):
            self.told = session_config

    strategy, session_config = Told(devices(2)), tf.ConfigProto(device_count={"CPU": 2})
    config = RunConfig(train_distribute=strategy, session_config=session_config)
    Estimator(regression, str(tmp_path), config).train(batches(8), steps=1)
    assert strategy.told is session_config


def test_hooks_are_those_of_the_first_tower_and_summaries_once(tmp_path):
    made = []

    class Hook(tf.train.SessionRunHook):
        def __init__(self):
            self.num_runs = 0
            made.append(self)

        def before_run(self, run_context):
            return tf.train.SessionRunArgs([tf.train.get_global_step(), "loss:0"])

        def after_run(self, run_context, run_values):
            self.num_runs += 1

    def model(features, labels, mode):
        return regression(features, labels, mode)._replace(training_hooks=[Hook()])

    strategy = MirroredStrategy(devices(2))
    estimator = Estimator(model, str(tmp_path), RunConfig(train_distribute=strategy))
    hooks = [tf.train.StopAtStepHook(num_steps=3), tf.train.LoggingTensorHook(["loss"], every_n_iter=1)]
    estimator.train(batches(8), hooks=hooks)
    assert [hook.num_runs for hook in made] == [3, 0]
    assert estimator.get_variable_value("global_step") == 3


def test_batches_that_are_left_are_warned_of(tmp_path):
    estimator = Estimator(regression, str(tmp_path)).train(batches(16))
    three = Estimator(regression, str(tmp_path), RunConfig(eval_distribute=MirroredStrategy(devices(3))))
    with captured_log() as lines:
        results = three.evaluate(batches(8))
    assert "The last 2 batch(es) are too few for all towers, and are not evaluated." in lines
    whole = tf.nest.map_structure(lambda array: array[:48], DATA)
    assert_close(results, estimator.evaluate(batches(8, whole)))
    with captured_log() as lines:
        three.evaluate(batches(8), steps=1)
        three.evaluate(lambda: batches(8)().filter(lambda features, labels: True))
        three.evaluate(batches(8, whole))
    assert not [line for line in lines if "too few" in line]


@pytest.mark.parametrize("name", ["sgd", "adam", "ftrl"])
def test_a_model_fn_that_knows_of_no_strategy_trains_as_on_one_device(tmp_path, name):
    def model(features, labels, mode):
        w = tf.get_variable("w", [3], initializer=tf.ones_initializer(), use_resource=True)
        loss = tf.reduce_mean(tf.square(labels - tf.linalg.matvec(features["x"], w)))
        return EstimatorSpec(mode, None, loss, OPTIMIZERS[name]().minimize(loss, tf.train.get_global_step()))

    alone = Estimator(model, str(tmp_path / "alone")).train(batches(16))
    config = RunConfig(train_distribute=MirroredStrategy(devices(2)))
    together = Estimator(model, str(tmp_path / "together"), config).train(batches(8))
    assert together.get_variable_names() == alone.get_variable_names()
    for variable in alone.get_variable_names():
        np.testing.assert_allclose(
            together.get_variable_value(variable), alone.get_variable_value(variable), rtol=1e-5, err_msg=variable
        )


def test_towers_that_differ_are_refused(tmp_path):
    def model(features, labels, mode):
        w = tf.get_variable(f"w{current_tower_context().index}", [])
        return EstimatorSpec(mode, None, tf.reduce_mean(labels * w), tf.no_op())

    config = RunConfig(train_distribute=MirroredStrategy(devices(2)))
    with pytest.raises(TowerMismatchError, match="w1"):
        Estimator(model, str(tmp_path), config).train(batches(8))


@pytest.mark.parametrize("settings", [lambda path: path, lambda path: WarmStartSettings(path, "weights")])
def test_warm_start_reaches_every_mirror(tmp_path, settings):
    source = Estimator(regression, str(tmp_path / "source")).train(batches(16))
    still = {"optimizer": lambda: tf.train.GradientDescentOptimizer(0.0)}
    warm_start_from = settings(source.model_dir)
    config = RunConfig(train_distribute=MirroredStrategy(devices(2)))
    warm = Estimator(regression, str(tmp_path / "warm"), config, still, warm_start_from)
    mirrors = []

    class Read(tf.train.SessionRunHook):
        def after_create_session(self, session, coord):
            mirrors.extend(session.run(variable.components) for variable in tf.trainable_variables())

    warm.train(batches(16), hooks=[Read()], steps=1)
    wants_table = isinstance(warm_start_from, str)
    table = source.get_variable_value("table") if wants_table else np.ones([5, 1])
    for mirror in range(2):
        np.testing.assert_array_equal(mirrors[0][mirror], source.get_variable_value("weights"))
        np.testing.assert_array_equal(mirrors[1][mirror], table)
    assert warm.get_variable_value("global_step") == 1


def hits(features, labels, mode):
    """A model that predicts its features, with metrics of sums, and one of a table."""
    step = tf.assign_add(tf.train.get_global_step(), 1)
    metrics = {
        "accuracy": tf.metrics.accuracy(labels, features),
        "per_class": tf.metrics.mean_per_class_accuracy(labels, features, num_classes=2),
        "auc": tf.metrics.auc(tf.equal(labels, 0), tf.cast(tf.equal(features, 0), tf.float32)),
    }
    return EstimatorSpec(mode, loss=tf.constant(0.0), train_op=step, eval_metric_ops=metrics)


@pytest.mark.parametrize("strategy", [None, *STRATEGIES])
def test_metrics_are_of_all_examples_however_many_a_tower_has(tmp_path, strategy):
    labels, features = [0, 1, 0, 1], [0, 0, 1, 0]

    def input_fn():
        data = tf.data.Dataset.from_tensor_slices((features, labels))
        # 1 of 1 is right, and 0 of 3.
        return data.take(1).batch(1).concatenate(data.skip(1).batch(3)).repeat(8)

    strategy = strategy and STRATEGIES[strategy]()
    estimator = Estimator(hits, str(tmp_path), RunConfig(eval_distribute=strategy))
    results = estimator.train(input_fn, steps=1).evaluate(input_fn)
    assert results["accuracy"] == pytest.approx(0.25)
    assert results["per_class"] == pytest.approx(0.25)
    assert results["auc"] == pytest.approx(0.25, abs=1e-3)


def test_a_spec_can_be_what_a_tower_returns(graph):
    def tower(number):
        return EstimatorSpec("eval", {"x": tf.constant([number])}, loss=tf.constant(float(number)))

    strategy = MirroredStrategy(devices(2))
    with strategy.scope():
        spec = strategy.call_for_each_tower(tower, strategy.worker_device_index)
        losses, predictions = strategy.unwrap(spec.loss), strategy.unwrap(spec.predictions["x"])
    assert isinstance(spec, EstimatorSpec)
    assert (spec.mode, len(losses), len(predictions)) == ("eval", 2, 2)


def test_no_tower_is_left_out_whose_model_never_meets_the_others(session8):
    # Nothing in it would keep the third tower from being a copy, of whose spec nobody would hear.
    def model(features):
        return EstimatorSpec(ModeKeys.TRAIN, loss=tf.reduce_sum(features), train_op=tf.no_op())

    parts = ModelParts(model, {}, RunConfig(), "")
    dataset = tf.data.Dataset.from_tensor_slices([1.0, 2.0, 6.0])
    built = build_distributed_training(parts, GivenInput(lambda: dataset), MirroredStrategy(devices(3)))
    session8.run([built.inputs.initializer, tf.global_variables_initializer()])
    assert session8.run(built.spec.loss) == 3
