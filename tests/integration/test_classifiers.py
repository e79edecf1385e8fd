"""The classic classifiers learn the digits on one device and on several, and plain TensorFlow serves them."""

import shutil

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers import preloaded
from tests.helpers.digit_classifiers import digits, dnn_classifier, input_fn, linear_classifier
from tests.helpers.replicated_models import devices
from tests.helpers.source import ROOT
from tpack.estimator.estimator import Estimator
from tpack.estimator.inputs import ServingInputReceiver, build_parsing_serving_input_receiver_fn
from tpack.estimator.replicate_model_fn import replicate_model_fn
from tpack.estimator.run_config import RunConfig

MODELS = {
    "linear": (linear_classifier, {"learning_rate": 0.05}, 0.93),
    "dnn": (dnn_classifier, {"learning_rate": 0.01, "hidden_units": [48, 24]}, 0.94),
}
# Sums of ones, and what is computed of them alone.
COUNTS = ("accuracy", "sevens_found", "precision_of_sevens", "iou", "global_step")
MEANS = ("average_loss", "auc_of_sevens", "rmse", "loss")


def make(name, model_dir, num_towers=0):
    model_fn, params, _ = MODELS[name]
    if num_towers:
        model_fn = replicate_model_fn(model_fn, devices=devices(num_towers))
    return Estimator(model_fn, str(model_dir), RunConfig(tf_random_seed=3, save_checkpoints_secs=None), params)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Each model, trained on two towers: the directories of its checkpoints by name."""
    directories = {name: tmp_path_factory.mktemp(name) for name in MODELS}
    for name, directory in directories.items():
        config = RunConfig(tf_random_seed=3, save_checkpoints_steps=1000)
        model_fn, params, _ = MODELS[name]
        replicated = replicate_model_fn(model_fn, devices=devices(2))
        Estimator(replicated, str(directory), config, params).train(input_fn, steps=300)
    return directories


def test_metrics_on_eight_towers_are_those_on_one(trained):
    one = make("linear", trained["linear"]).evaluate(input_fn)
    eight = make("linear", trained["linear"], 8).evaluate(input_fn)
    assert one["accuracy"] > MODELS["linear"][2]
    assert one["global_step"] == 300
    assert one.keys() == eight.keys() == {*COUNTS, *MEANS}
    for key in COUNTS:
        assert eight[key] == one[key], key
    for key in MEANS:
        np.testing.assert_allclose(eight[key], one[key], rtol=1e-6, atol=1e-6, err_msg=key)


def receive():
    """Serialized examples, or images as they are."""
    parsed = build_parsing_serving_input_receiver_fn({"image": tf.FixedLenFeature([64], tf.float32)})()
    return ServingInputReceiver(parsed.features, parsed.receiver_tensors, {"raw": dict(parsed.features)})


def test_plain_tensorflow_serves_them(trained, tmp_path):
    images, labels = digits("test")
    np.save(tmp_path / "image.npy", images)
    expected = {}
    for name, directory in trained.items():
        estimator = make(name, directory)
        path = estimator.export_saved_model(str(tmp_path / "exported" / name), receive)
        (tmp_path / "models").mkdir(exist_ok=True)
        shutil.move(path, tmp_path / "models" / name)
        expected[name] = list(estimator.predict(input_fn))
    preloaded.run(ROOT / "tests" / "helpers" / "serve_saved_model.py", [tmp_path], cwd=tmp_path).check_returncode()
    answers = np.load(tmp_path / "answers.npz")
    for name, rows in expected.items():
        probabilities = np.array([row["probabilities"] for row in rows])
        for key in ("serving_default/scores", "predict/probabilities", "predict:raw/probabilities"):
            np.testing.assert_allclose(answers[f"{name}/{key}"], probabilities, rtol=1e-4, atol=1e-6, err_msg=key)
        assert answers[f"{name}/serving_default/classes"][0].tolist() == [str(k).encode() for k in range(10)]
        assert (answers[f"{name}/predict:raw/class_ids"] == [row["class_ids"] for row in rows]).all()
        assert (answers[f"{name}/predict/class_ids"] == labels).mean() > MODELS[name][2]
