"""An Estimator trains, resumes, evaluates, predicts and exports, all from its directory."""

import os

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.claims import claimed_elsewhere
from tests.helpers.event_files import scalars_in
from tests.helpers.log_lines import captured_log
from tests.helpers.replicated_models import batch, devices, regression, train
from tpack.errors import CheckpointError, ConfigError, DataPointError, WrongTypeError
from tpack.estimator.building import WarmStartSettings
from tpack.estimator.estimator import Estimator
from tpack.estimator.inputs import build_raw_serving_input_receiver_fn
from tpack.estimator.replicate_model_fn import replicate_model_fn
from tpack.estimator.run_config import RunConfig
from tpack.estimator.spec import EstimatorSpec, ModeKeys
from tpack.estimator.tower_optimizer import TowerOptimizer
from tpack.utils.dir_lock import LOCK_FILE

DATA = batch(np.random.default_rng(7))


def input_fn(mode):
    """One batch over and over in training, else once."""
    dataset = tf.data.Dataset.from_tensors(DATA)
    return dataset.repeat() if mode == ModeKeys.TRAIN else dataset


def weights(estimator):
    return {name: estimator.get_variable_value(name) for name in estimator.get_variable_names()}


def test_everything_after_another(tmp_path):
    estimator = Estimator(regression, str(tmp_path), RunConfig(tf_random_seed=1))
    assert estimator.train(input_fn, steps=5) is estimator
    expected = train(regression, DATA, steps=5)
    assert set(estimator.get_variable_names()) == expected.keys() - {"losses"}
    for name in ("weights", "table"):
        np.testing.assert_allclose(estimator.get_variable_value(f"{name}:0"), expected[name], rtol=1e-6)
    assert os.path.basename(estimator.latest_checkpoint()) == "model.ckpt-5"

    values = DATA[0]["x"] @ expected["weights"] + expected["table"][DATA[0]["words"], 0]
    results = estimator.evaluate(input_fn, name="all")
    np.testing.assert_allclose([results["error"], results["loss"]], np.square(values - DATA[1]).mean(), rtol=1e-5)
    assert results["global_step"] == 5
    assert scalars_in(estimator.eval_dir("all"))["error"] == [(5, pytest.approx(results["error"]))]

    rows = list(estimator.predict(input_fn))
    np.testing.assert_allclose([row["values"] for row in rows], values, rtol=1e-5)
    (whole,) = estimator.predict(input_fn, predict_keys=["values"], yield_single_examples=False)
    np.testing.assert_allclose(whole["values"], values, rtol=1e-5)

    receive = build_raw_serving_input_receiver_fn(DATA[0])
    path = estimator.export_savedmodel(bytes(tmp_path / "exported"), receive, strip_default_attrs=True)
    with tf.Graph().as_default(), tf.Session() as session:
        signature = tf.saved_model.load(session, ["serve"], path).signature_def["serving_default"]
        fed = {signature.inputs[name].name: value for name, value in DATA[0].items()}
        np.testing.assert_allclose(session.run(signature.outputs["values"].name, fed), values, rtol=1e-5)


@pytest.mark.parametrize("num_towers", [0, 4])
def test_training_in_parts_is_training_at_once(tmp_path, num_towers):
    params = {"optimizer": lambda: tf.train.AdamOptimizer(0.1)}
    model = replicate_model_fn(regression, devices=devices(num_towers)) if num_towers else regression
    whole = Estimator(model, str(tmp_path / "whole"), params=params).train(input_fn, steps=6)
    for number in (2, 4):
        # Each time as a new process would do it.
        parts = Estimator(model, str(tmp_path / "parts"), params=params).train(input_fn, steps=number)
    expected = weights(whole)
    assert expected["global_step"] == 6
    for name, value in weights(parts).items():
        np.testing.assert_array_equal(value, expected[name], err_msg=name)


def test_optimizers_with_hooks_of_their_own_work_replicated(tmp_path):
    """A SyncReplicasOptimizer of one process: its hook starts a queue, and checks that its gradients were applied."""

    def model(features, labels, mode):
        x = tf.get_variable("x", [], initializer=tf.zeros_initializer())
        loss = tf.reduce_mean(tf.square(x - labels))
        inside = tf.train.SyncReplicasOptimizer(tf.train.GradientDescentOptimizer(0.25), replicas_to_aggregate=1)
        train_op = TowerOptimizer(inside).minimize(loss, tf.train.get_global_step())
        return EstimatorSpec(mode, loss=loss, train_op=train_op, training_hooks=[inside.make_session_run_hook(True)])

    replicated = replicate_model_fn(model, devices=devices(2))
    estimator = Estimator(replicated, str(tmp_path)).train(input_fn, steps=3)
    # Each step halves the distance to the mean.
    np.testing.assert_allclose(estimator.get_variable_value("x"), DATA[1].mean() * (1 - 0.5**3), rtol=1e-5)


def test_max_steps_is_for_all_runs(tmp_path):
    estimator = Estimator(regression, str(tmp_path))
    for _ in range(2):
        estimator.train(input_fn, max_steps=3)
        assert estimator.get_variable_value("global_step") == 3
    estimator.train(input_fn, max_steps=3e0)
    with captured_log() as lines:
        estimator.train(lambda: 1 / 0, max_steps=3)
    assert lines == ["Nothing to train: the model is at global step 3, and max_steps is 3."]


def test_older_checkpoints_can_be_asked(tmp_path):
    estimator = Estimator(regression, str(tmp_path), RunConfig(save_checkpoints_steps=1)).train(input_fn, steps=2)
    path = str(tmp_path / "model.ckpt-1")
    assert estimator.evaluate(input_fn, checkpoint_path=path)["global_step"] == 1
    older = next(iter(estimator.predict(input_fn, checkpoint_path=path)))
    assert older["values"] != next(iter(estimator.predict(input_fn)))["values"]


@pytest.mark.parametrize("settings", [lambda path: path, lambda path: WarmStartSettings(path, "weights")])
def test_warm_start_gives_first_values_only(tmp_path, settings):
    source = Estimator(regression, str(tmp_path / "source")).train(input_fn, steps=4)
    still = {"optimizer": lambda: tf.train.GradientDescentOptimizer(0.0)}
    warm_start_from = settings(source.model_dir)
    warm = Estimator(regression, str(tmp_path / "warm"), params=still, warm_start_from=warm_start_from)
    warm.train(input_fn, steps=1)
    got, expected = weights(warm), weights(source)
    np.testing.assert_array_equal(got["weights"], expected["weights"])
    wants_table = isinstance(warm_start_from, str)
    np.testing.assert_array_equal(got["table"], expected["table"] if wants_table else np.ones([5, 1]))
    assert got["global_step"] == 1
    # From its own checkpoint on, however the other one has changed.
    source.train(input_fn, steps=1)
    warm.train(input_fn, steps=1)
    np.testing.assert_array_equal(weights(warm)["weights"], expected["weights"])


def test_hooks_listeners_params_and_config_arrive(tmp_path):
    seen = []

    class Hook(tf.train.SessionRunHook):
        def end(self, session):
            seen.append("hook")

    class Listener(tf.train.CheckpointSaverListener):
        def end(self, session, global_step_value):
            seen.append("listener")

    def model(features, labels, mode, params, config):
        seen.append((mode, params, config.model_dir))
        return regression(features, labels, mode)

    def data(mode, params, config):
        seen.append((mode, params, config.tf_random_seed))
        return tf.data.Dataset.from_tensors(DATA)

    estimator = Estimator(model, str(tmp_path), RunConfig(tf_random_seed=9), params={"a": 1})
    estimator.train(data, hooks=[Hook()], saving_listeners=[Listener()])
    assert seen == [("train", {"a": 1}, 9), ("train", {"a": 1}, str(tmp_path)), "listener", "hook"]
    del seen[:]
    estimator.evaluate(data, steps=1, hooks=[Hook()])
    list(estimator.predict(data, hooks=[Hook()]))
    assert seen == [
        ("eval", {"a": 1}, 9), ("eval", {"a": 1}, str(tmp_path)), "hook",
        ("infer", {"a": 1}, 9), ("infer", {"a": 1}, str(tmp_path)), "hook",
    ]  # fmt: skip


def test_without_parameters_there_is_an_empty_dict(tmp_path):
    def model(features, labels, mode, params):
        return regression(features, labels, mode, {"optimizer": params.get("optimizer", tf.train.AdamOptimizer)})

    def data(params):
        return tf.data.Dataset.from_tensors(DATA).repeat(params.get("times", 2))

    estimator = Estimator(model, str(tmp_path)).train(data)
    assert estimator.get_variable_value("global_step") == 2
    assert estimator.params == {}


def test_what_it_was_made_of(tmp_path):
    config = RunConfig(model_dir=str(tmp_path))
    estimator = Estimator(regression, config=config, params={"a": 1})
    assert estimator.model_dir == estimator.config.model_dir == str(tmp_path)
    assert (estimator.params, estimator.model_fn) == ({"a": 1}, regression)
    assert estimator.latest_checkpoint() is None
    assert estimator.eval_dir() == str(tmp_path / "eval")


def test_without_a_directory_it_uses_a_temporary_one(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with captured_log() as lines:
        estimator = Estimator(regression)
    assert os.path.dirname(estimator.model_dir) == str(tmp_path)
    assert f"a temporary model_dir: {estimator.model_dir}" in lines[0]


def test_a_damaged_checkpoint_is_passed_over(tmp_path):
    estimator = Estimator(regression, str(tmp_path), RunConfig(save_checkpoints_steps=1)).train(input_fn, steps=2)
    data = tmp_path / "model.ckpt-2.data-00000-of-00001"
    data.write_bytes(data.read_bytes()[:10])
    assert estimator.evaluate(input_fn)["global_step"] == 1
    estimator.train(input_fn, steps=2)
    assert estimator.get_variable_value("global_step") == 3


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Estimator(lambda x: x), "does not take features"),
        (lambda: Estimator(regression, "a", RunConfig(model_dir="b")), "model_dir='a': expected 'b' of the config"),
        (lambda: Estimator(regression, "a", {"seed": 1}), "^Estimator got config="),
        (lambda: Estimator(regression, "a", warm_start_from=3), "^Estimator got warm_start_from="),
        (
            lambda: Estimator(regression, "a").train(input_fn, steps=1, max_steps=1),
            "got steps=1 and max_steps=1: expected",
        ),
        (
            lambda: Estimator(regression, "a").train(input_fn, steps=0),
            "train got steps=0: expected a positive whole number",
        ),
        (lambda: Estimator(regression, "a").train(input_fn, steps=62.5), "got steps=62.5: expected a positive"),
        (lambda: Estimator(regression, "a").evaluate(input_fn, steps="3"), "evaluate got steps='3': expected"),
        (lambda: Estimator(regression, "a").train(input_fn, max_steps=-1), "train got max_steps=-1: expected"),
        (lambda: Estimator(regression, "a").train(input_fn, hooks=[1]), r"got hooks\[0\]=1"),
        (lambda: Estimator(regression, "a").evaluate(input_fn, steps=0), "evaluate got steps=0: expected a positive"),
    ],
)
def test_what_cannot_be_is_refused(make, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match=message):
        make()
    assert os.listdir(tmp_path) == []


def test_a_model_that_was_not_trained_is_refused(tmp_path):
    estimator = Estimator(regression, str(tmp_path))
    receive = build_raw_serving_input_receiver_fn(DATA[0])
    for use in (
        lambda: estimator.evaluate(input_fn),
        lambda: next(estimator.predict(input_fn)),
        lambda: estimator.export_saved_model(str(tmp_path), receive),
        estimator.get_variable_names,
        lambda: estimator.get_variable_value("weights"),
    ):
        with pytest.raises(CheckpointError, match="has no checkpoint: expected a trained model"):
            use()


def test_a_directory_that_another_process_trains_in_can_be_read_and_not_trained_in(tmp_path):
    estimator = Estimator(regression, str(tmp_path))
    estimator.train(input_fn, steps=2)
    with claimed_elsewhere(tmp_path) as pid:
        with pytest.raises(ConfigError, match=f"is in use: process {pid} on "):
            estimator.train(input_fn, steps=2)
        assert estimator.evaluate(input_fn)["global_step"] == 2
        assert len(list(estimator.predict(input_fn))) == len(DATA[1])
    assert estimator.train(input_fn, steps=2).get_variable_value("global_step") == 4
    assert not (tmp_path / LOCK_FILE).exists()


def test_checkpoints_of_which_none_loads_are_not_trained_over(tmp_path):
    estimator = Estimator(regression, str(tmp_path))
    estimator.train(input_fn, steps=2)
    for path in tmp_path.glob("*.data-*"):
        path.write_bytes(b"damaged")
    before = {path.name: path.read_bytes() for path in tmp_path.glob("model.ckpt-*")}
    with pytest.raises(CheckpointError, match="none of them loads: model.ckpt-2, model.ckpt-0.*; move them elsewhere"):
        estimator.train(input_fn, steps=2)
    assert {path.name: path.read_bytes() for path in tmp_path.glob("model.ckpt-*")} == before


def test_remote_directories_are_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for directory in ({"model_dir": "gs://bucket/run"}, {"config": RunConfig(model_dir="gs://bucket/run")}):
        with pytest.raises(ConfigError, match="got model_dir='gs://bucket/run': expected a path on this machine"):
            Estimator(regression, **directory)
    assert Estimator(regression, f"file://{tmp_path}/run").model_dir == str(tmp_path / "run")
    assert not list(tmp_path.iterdir())


def test_one_of_several_processes_does_not_train_alone(tmp_path, monkeypatch):
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "4")
    directory = tmp_path / "model"
    with pytest.raises(ConfigError, match="Estimator.train trains on the devices of one machine, and WORLD_SIZE says"):
        Estimator(regression, str(directory)).train(input_fn, steps=1)
    assert not directory.exists()


def odd_input():
    return tf.data.Dataset.from_tensor_slices(DATA).batch(4)


def test_a_batch_that_does_not_fit_the_towers_is_told_in_words(tmp_path):
    estimator = Estimator(replicate_model_fn(regression, devices=devices(3)), str(tmp_path))
    with pytest.raises(DataPointError, match="divisible by the number of towers, 3; that of .* in the features or"):
        estimator.train(odd_input, steps=2)


@pytest.mark.parametrize("given", [[], "/cpu:0", 5, [5]])
def test_towers_are_on_devices_with_names(given):
    with pytest.raises(ConfigError, match="replicate_model_fn got devices"):
        replicate_model_fn(regression, devices=given)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda e: e.train(input_fn, hooks=5), "got hooks=5: expected a list of tf.train.SessionRunHook"),
        (lambda e: e.train(input_fn, steps=1, saving_listeners=5), "got saving_listeners=5"),
        (lambda e: e.train(lambda: None, steps=1), "input_fn returned None"),
        (lambda e: e.evaluate(input_fn, checkpoint_path=5), "got checkpoint_path=5: expected a path"),
        (lambda e: e.evaluate(input_fn, name=5), "got name=5: expected text"),
        (lambda e: e.get_variable_value(5), "got name=5: expected text"),
        (lambda e: Estimator(regression, 5), "^Estimator got model_dir="),
    ],
)
def test_arguments_of_methods_are_checked(tmp_path, call, message):
    with pytest.raises(WrongTypeError if "returned" not in message else ConfigError, match=message):
        call(Estimator(regression, str(tmp_path)))
