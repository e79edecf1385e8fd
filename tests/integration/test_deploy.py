"""One set of weights gives the same numbers whichever predictor runs it, however it was loaded, and once exported."""

import numpy as np
import tensorflow.compat.v1 as tf

from tests.helpers.run_script import run_script
from tests.integration.scripts import deploy

WAYS = {"offline", "dataset", "tower", "async", "feedfree", "split", "with input", "npz", "model loader", "halves"}


def run_saved(directory, images):
    with tf.Graph().as_default(), tf.Session() as session:
        loaded = tf.saved_model.load(session, ["serve"], str(directory))
        signature = loaded.signature_def["prediction_pipeline"]
        return session.run(signature.outputs["prob"].name, {signature.inputs["input"].name: images})


def run_frozen(path, images):
    with tf.Graph().as_default(), tf.Session() as session:
        tf.import_graph_def(tf.GraphDef.FromString(path.read_bytes()), name="")
        return session.run("prob:0", {"input:0": images})


def test_all_predictors_and_exports_agree(tmp_path):
    training = run_script(deploy.main, tmp_path / "train")
    run = run_script(deploy.main, tmp_path / "use", "--load", training.log_dir / "max-validation_correct")

    results, accuracy, files = run.result
    assert set(results) == WAYS | {"prefix"}
    results["saved"] = run_saved(run.log_dir / "serving" / "1", deploy.test_digits()[0])
    results["frozen"] = run_frozen(run.log_dir / "compact.pb", deploy.test_digits()[0])
    for name, probabilities in results.items():
        np.testing.assert_allclose(probabilities, results["offline"], rtol=1e-4, atol=1e-6, err_msg=name)
    best = max(entry["validation_correct"] for entry in training.stats)
    assert accuracy > 0.85
    np.testing.assert_allclose(accuracy, best)

    assert {"deployed/compact.pb", "deployed/serving/1/saved_model.pb", "deployed/weights/weights.npz"} <= set(files)
    with np.load(training.log_dir / "params.npz") as params:
        assert {"conv0/W:0", "fc1/b:0"} <= set(params) or {"conv0/W", "fc1/b"} <= set(params)
    with np.load(run.log_dir / "weights" / "weights.npz") as weights:
        assert {name.split(":")[0] for name in weights} == {
            f"{layer}/{part}" for layer in ("conv0", "conv1", "conv2", "fc0", "fc1") for part in "Wb"
        }
